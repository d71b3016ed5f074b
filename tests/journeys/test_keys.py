"""`handloom keys`: the table with its errors, and the display of pressed keys, in a real terminal."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.journeys.terminal import Terminal
from tests.program import HANDLOOM, Handloom

FILE = """
[keys]
prompt.editor = "ctrl+e"
"app.leader" = "ctrl+b"
"conv.next" = "f2"
"\\u001b]0;x\\u0007" = 5
"""


def test_keys_table_marks_changes_and_reports_errors(tmp_path: Path) -> None:
    program = Handloom(tmp_path)
    before = program("keys")
    assert (before.status, before.err) == (0, "")
    assert not [line for line in before.lines if line.startswith("*")]
    program.home.mkdir(exist_ok=True)
    (program.home / "config.toml").write_text(FILE)
    after = program("keys")
    assert after.status == 1
    marked = [" ".join(line.split()[:3]) for line in after.lines if line.startswith("*")]
    assert marked == ["* app.leader ctrl+b", "* prompt.editor ctrl+e", "* marks shortcuts"]
    assert "ctrl+b t" in next(line for line in after.lines if " app.theme " in line)
    unknown, clash = after.err.splitlines()
    assert "unknown command" in unknown
    assert "\x1b" not in after.err
    assert clash.startswith("handloom: Keys: conv.next (line 5 of config.toml): F2 is already used by pane.chat (Chat)")
    project = program.workspace / ".handloom"
    project.mkdir()
    for folder in (program.workspace, project):
        (folder / "config.toml").write_text('[keys]\n"app.palette" = "ctrl+y"\n')
    assert program("keys").out == after.out, "a project moves no key"


@pytest.mark.parametrize("end", [("C-c", "C-c"), ("Escape", "Escape")])
def test_pressed_keys_are_shown_and_the_terminal_is_restored(tmp_path: Path, end: tuple[str, str]) -> None:
    program = Handloom(tmp_path)
    program.home.mkdir(exist_ok=True)
    (program.home / "config.toml").write_text(FILE)
    terminal = Terminal(program, 160, 24)
    try:
        terminal.type(shlex.join([*HANDLOOM, "keys", "--test"]) + "; echo en''ded $?\n")
        terminal.wait_for("Press keys.")
        terminal.press("C-e")
        terminal.wait_for(f"{'ctrl+e':<16} {'05':<24} {'ctrl+e':<24} prompt.editor (External editor; prompt)")
        terminal.press("C-b", "t")
        terminal.wait_for("app.leader (Leader; everywhere)", "app.theme (Theme)")
        terminal.press("C-Left", "M-n")
        terminal.wait_for("ctrl+←           1b 5b 31 3b 35 44", "alt+n            1b 6e")
        terminal.press(end[0])
        terminal.wait_for("app.interrupt" if end[0] == "C-c" else "app.back")
        terminal.press(end[1])
        terminal.wait_for("ended 0")
        terminal.type("stty -a | grep -ow -e -icanon -e icanon -e -echo; echo wh''ole\n")
        terminal.wait_for("\nicanon\nwhole")
        if end[0] == "C-c":
            terminal.handloom("keys")
            terminal.wait_for("does not support the kitty keyboard protocol", "shift+Enter (find.prev)")
    finally:
        terminal.close()


def test_help_names_the_keys_file_and_its_errors(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf \'"conv.new" = "f2"\\n"tasks.toggle" = "f7"\\n\' >> "$1"\n')
    editor.chmod(0o700)
    program = Handloom(tmp_path, EDITOR=str(editor))
    terminal = Terminal(program, 120, 30)
    try:
        terminal.handloom("demo")
        terminal.wait_for("Show me what you can do.")
        terminal.press("F1")
        terminal.wait_for("ctrl+o your own keys")
        terminal.press("C-o")
        told = terminal.wait_for("Keys: conv.new (line 5 of config.toml): F2 is already used by pane.chat")
        assert "tasks.toggle" not in told
        assert (program.home / "config.toml").read_text().startswith("[keys]\n# A command's id")
    finally:
        terminal.close()
