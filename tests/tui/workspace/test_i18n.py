"""The languages of the screen: every text has a translation in every catalogue, and the workspace uses each."""

from __future__ import annotations

import json
import string
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from rich.cells import cell_len

from core.settings.screen_settings import ScreenSettings
from tests.doubles import FINISH, write_script
from tests.journeys.terminal import Terminal
from tests.program import HANDLOOM, NO_ISOLATION, ROOT, Handloom
from tests.tui.workspace.pseudo_language import pseudo
from tests.tui.workspace.screen_texts import LOOKED_UP, all_texts, asked
from tui import i18n
from tui.__main__ import speak

OTHERS = [language for language in i18n.languages() if language != "en"]
KEYS = {"Enter", "Esc", "Tab", "Space", "PgUp", "PgDn", "Home", "End", "ctrl", "shift", "esc", "space"}
"""Words of the frame that are not translated: names of keys."""


@pytest.fixture
def in_english() -> Iterator[None]:
    yield
    i18n.use("en")


def catalogue(language: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted((i18n.LOCALES / language).glob("*.toml")):
        found |= tomllib.loads(file.read_text("utf-8"))
    return found


def places(text: str) -> list[str]:
    return sorted(name for words, name, form, conversion in string.Formatter().parse(text) if name is not None)


# -- catalogues ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", OTHERS)
def test_texts_and_catalogue_entries_match(language: str) -> None:
    entries, texts = set(catalogue(language)), all_texts()
    assert texts - entries == set()
    assert entries - texts == set()


@pytest.mark.parametrize("language", OTHERS)
def test_entry_is_not_empty_and_has_the_placeholders_of_its_text(language: str) -> None:
    entries = catalogue(language)
    assert [text for text, said in entries.items() if not said.strip()] == []
    assert [text for text, said in entries.items() if places(text) != places(said)] == []


def test_translated_texts_are_literals_or_from_a_known_table() -> None:
    others = [(found.place, found.said) for found in asked() if found.text is None]
    assert [(place, said) for place, said in others if said not in LOOKED_UP.get(place, ())] == []


def test_texts_are_found_in_the_source() -> None:
    assert {"Command palette", "Find a command by its name.", "{count} events", "NO SANDBOX"} <= all_texts()


# -- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "environ", "language"),
    [
        ("auto", {"LANG": "zh_CN.UTF-8"}, "zh"),
        ("auto", {"LC_ALL": "en_GB.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ("auto", {"LC_ALL": "", "LC_MESSAGES": "zh_TW.UTF-8", "LANG": "de_DE.UTF-8"}, "zh"),
        ("auto", {"LANG": "C"}, "en"),
        ("auto", {}, "en"),
        ("auto", {"LANG": "eo.UTF-8"}, "en"),
        ("zh", {"LANG": "en_US.UTF-8"}, "zh"),
        ("en", {"LANG": "zh_CN.UTF-8"}, "en"),
        ("eo", {"LANG": "zh_CN.UTF-8"}, "en"),
    ],
)
def test_setting_overrides_the_locale(setting: str, environ: dict[str, str], language: str) -> None:
    assert i18n.wanted(setting, environ) == language


def test_english_has_no_catalogue() -> None:
    assert i18n.languages()[0] == "en"
    assert "zh" in i18n.languages()
    assert not (i18n.LOCALES / "en").exists()


def test_setting_offers_every_language() -> None:
    assert set(get_args(get_type_hints(ScreenSettings)["language"])) == {"auto", *i18n.languages()}


def test_language_applies_after_it_is_set(in_english: None) -> None:
    assert i18n._("Settings") == "Settings"
    i18n.use("zh")
    assert i18n._("Settings") == "设置"
    assert i18n._("no such text") == "no such text"
    i18n.use("eo")
    assert i18n._("Settings") == "Settings"


@pytest.mark.parametrize(("locale", "said"), [("zh_CN.UTF-8", "设置"), ("zh_CN.GB2312", "Settings")])
def test_terminal_without_utf_8_gets_english(
    in_english: None, monkeypatch: pytest.MonkeyPatch, locale: str, said: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    speak("zh")
    assert i18n._("Settings") == said


def test_counted_text_has_a_singular(in_english: None) -> None:
    assert i18n.counted(1, "{n} call", "{n} calls") == "1 call"
    assert i18n.counted(1234, "{n} call", "{n} calls") == "1,234 calls"
    i18n.use("zh")
    assert i18n.counted(2, "{n} call", "{n} calls") == "2 次调用"


# -- the workspace ---------------------------------------------------------------------------------------------------


@pytest.mark.tmux
@pytest.mark.parametrize(("columns", "rows"), [(160, 48), (80, 24)])
def test_workspace_uses_the_language_of_the_locale(tmp_path: Path, columns: int, rows: int) -> None:
    program = Handloom(tmp_path, LANG="zh_CN.UTF-8", **NO_ISOLATION)
    script = write_script(tmp_path, [FINISH])
    terminal = Terminal(program, columns, rows)
    try:
        terminal.handloom("--model", script)
        screen = terminal.wait_for("提出要求，或输入 / 查看命令", "等你输入", "无沙箱", "对话")
        hints = "" if rows < 30 else "ctrl+p 命令"
        assert hints in screen
        straight(screen, columns)
        terminal.press("C-p")
        palette = terminal.wait_for("想做什么？", "选择配色。", "Enter 选择")
        straight(palette, columns)
        edges = {
            cell_len(line[: line.rindex("│")]) for line in palette.split("\n") if "ctrl+x t" in line or "F2" in line
        }
        assert len(edges) == 1
        terminal.press("Escape")
        terminal.wait_for("想做什么？", gone=True)
        terminal.press("C-q")
        terminal.wait_for("无沙箱", gone=True)
    finally:
        terminal.close()


def straight(screen: str, columns: int) -> None:
    """No line is wider than the screen, and the line between the panes goes straight down."""
    lines = screen.split("\n")
    assert [line for line in lines if cell_len(line) > columns] == []
    corners = [line for line in lines if line.count("┌") == 1 and "╭" not in line]
    assert len({cell_len(line[: line.index("┌")]) for line in corners}) <= 1


def test_screen_reader_mode_uses_the_language_of_the_locale(tmp_path: Path) -> None:
    program = Handloom(tmp_path, LANG="zh_CN.UTF-8")
    script = write_script(tmp_path, [FINISH])
    done = subprocess.run(
        [*HANDLOOM, "--screen-reader", "--model", script],
        env=dict(program.environ),
        cwd=program.workspace,
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "输入消息后按 Enter。" in done.stdout


# -- pseudo-translation ------------------------------------------------------------------------------------------------


def test_pseudo_translation_keeps_placeholders() -> None:
    assert pseudo("Copied {count} characters") == "⟦Copied⟧ {count} ⟦characters⟧"


def test_every_text_of_the_frame_is_translated() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.tui.workspace.pseudo_language"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    found = json.loads(done.stdout)
    allowed = KEYS | {"demo"}
    assert {stop: words for stop, said in found.items() if (words := set(said["frame"]) - allowed)} == {}
