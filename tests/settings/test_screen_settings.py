"""The settings of the screen: one declaration, read leniently for the first frame and strictly after it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.settings.config import load, save_settings
from core.settings.screen_settings import ScreenSettings, read

FILE = """
[screen]
theme = "loom-light"
copy_on_select = true
reading_width = 80
"""


def test_both_readers_give_the_same_settings(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(FILE)
    environ = {"HANDLOOM__SCREEN__GLYPHS": "ascii", "HANDLOOM__SCREEN__READING_WIDTH": "0"}
    expected = ScreenSettings(theme="loom-light", copy_on_select=True, glyphs="ascii", reading_width=0)
    assert read(tmp_path, environ) == expected
    assert load(tmp_path, environ).screen == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[screen]\nmotion = "wild"\ntheme = "mine"', "screen.motion"),
        ("[screen]\nreading_width = 'wide'\ntheme = 'mine'", "screen.reading_width"),
        ("[screen]\nprint_on_exit = 'perhaps'\ntheme = 'mine'", "screen.print_on_exit"),
        ("[screen]\ncolour = 1\ntheme = 'mine'", "screen.colour"),
    ],
)
def test_invalid_settings_are_skipped_in_the_first_frame_and_reported_later(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert read(tmp_path, {}) == ScreenSettings(theme="mine")
    with pytest.raises(ConfigurationError, match=told):
        load(tmp_path, {})


@pytest.mark.parametrize("text", ["[screen", "screen = 3", "\udcff"])
def test_unreadable_file_does_not_delay_the_first_frame(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read(tmp_path, {}) == ScreenSettings()


def test_storing_a_setting_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("# mine\nmodel = 'demo'  # for now\n")
    save_settings(tmp_path, {"screen.theme": "loom-light"})
    save_settings(tmp_path, {"screen.theme": "loom-dark"})
    text = (tmp_path / "config.toml").read_text()
    assert text.startswith("# mine\nmodel = 'demo'  # for now\n")
    assert load(tmp_path, {}).screen.theme == "loom-dark"


def test_every_field_can_be_set_in_the_environment() -> None:
    values = {"str": "x", "bool": "true", "int": "7"}
    for field in fields(ScreenSettings):
        value = values.get(str(field.type)) or str(field.type).split("'")[-2]
        environ = {f"HANDLOOM__SCREEN__{field.name.upper()}": value}
        assert read(Path("/nowhere"), environ) == load(Path("/nowhere"), environ).screen != ScreenSettings(), field
