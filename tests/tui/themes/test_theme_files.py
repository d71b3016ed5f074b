"""Themes: shipped ones are readable, a bad file is reported and the others are loaded."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from textual.color import Color

from tui.themes.theme_files import OURS, ThemeError, contrast_ratio, load, load_all, too_faint

OUR_FILES = sorted(OURS.glob("*.toml"))


def test_there_are_at_least_eight_dark_and_light_themes() -> None:
    themes, problems = load_all([OURS])
    assert problems == []
    assert len(themes) >= 8
    assert {(theme.dark, theme.ansi) for theme in themes} == set(product((True, False), repeat=2))


@pytest.mark.parametrize("name", ["loom-contrast-dark", "loom-contrast-light"])
def test_high_contrast_themes_have_high_contrast(name: str) -> None:
    assert too_faint(load(OURS / f"{name}.toml"), 7.0) == []


@pytest.mark.parametrize("path", OUR_FILES, ids=lambda path: path.stem)
def test_shipped_themes_are_readable(path: Path) -> None:
    assert load(path).name == path.stem


def test_contrast_is_measured_as_wcag_defines_it() -> None:
    assert contrast_ratio(Color.parse("#000000"), Color.parse("#FFFFFF")) == pytest.approx(21)
    assert contrast_ratio(Color.parse("#777777"), Color.parse("#FFFFFF")) == pytest.approx(4.478, abs=0.001)


def test_wrong_file_is_reported_and_the_rest_is_loaded(tmp_path: Path) -> None:
    good = (OURS / "loom-dark.toml").read_text()
    (tmp_path / "good.toml").write_text(good.replace("loom-dark", "mine"))
    (tmp_path / "broken.toml").write_text("name = ")
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "pale.toml").write_text(re.sub(r'muted = "#\w+"', 'muted = "#30343A"', good))
    (tmp_path / "wrong.toml").write_text(good.replace('accent = "#E0A458"', 'accent = "lovely"'))
    themes, problems = load_all([OURS, tmp_path])
    assert [theme.name for theme in themes] == [*(path.stem for path in OUR_FILES), "mine"]
    assert [problem.split()[0].rstrip(":") for problem in problems] == [
        "broken.toml", "empty.toml", "pale.toml", "wrong.toml",
    ]  # fmt: skip
    assert "text-muted on background has a contrast of" in problems[2]


def test_invalid_colour_is_named() -> None:
    with pytest.raises(ThemeError, match="cannot be read"):
        load(Path("/nonexistent/theme.toml"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("contrast = 3\n", "contrast must be a number"),
        ("contrast = 12\n", "the minimum is 12"),
        ("ansi = true\n", "must be one of"),
    ],
)
def test_properties_declared_by_a_theme_hold(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.toml").write_text(text + (OURS / "loom-dark.toml").read_text())
    with pytest.raises(ThemeError, match=told):
        load(tmp_path / "mine.toml")


def test_terminal_colours_need_an_ansi_theme(tmp_path: Path) -> None:
    text = (OURS / "loom-dark.toml").read_text()
    (tmp_path / "mine.toml").write_text(re.sub(r'accent = "#E0A458"', 'accent = "ansi_red"', text))
    with pytest.raises(ThemeError, match="ansi = true"):
        load(tmp_path / "mine.toml")
