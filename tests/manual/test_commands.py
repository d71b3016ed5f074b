"""Every command of the README and the manual exists, and those that can be run in a test end as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.journeys.terminal import Terminal
from tests.manual.commands import (
    ONLY_PARSED,
    Desk,
    check,
    opens_the_workspace,
    simple_commands,
    why_only_parsed,
)
from tests.manual.pages import Command, commands, inline_codes, pages
from tui.__main__ import VERBS
from tui.cli.command_line import parser

COMMANDS = [command for page in pages() for command in commands(page)]
RUN = {page.name for page in pages() if any(not why_only_parsed(command) for command in commands(page))}


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_command_has_a_program_verb_and_options_that_exist(command: Command) -> None:
    found = list(simple_commands(command.text))
    assert found
    for words in found:
        check(words)


@pytest.mark.parametrize(
    "wrong",
    ["handloom wash", "handloom run x --wish", "make tea", "python -m tests.nothing", "python -m tests.bench --loud"],
)
def test_command_that_does_not_exist_is_noticed(wrong: str) -> None:
    with pytest.raises(AssertionError):
        check(wrong.split())


def test_every_verb_is_in_the_manual() -> None:
    verbs = set(re.findall(r"^ {4}([a-z]+)", parser().format_help(), re.MULTILINE))
    assert verbs
    shown = {match[1] for command in COMMANDS for match in re.finditer(r"handloom ([a-z]+)", command.text)}
    shown |= {words.split()[1] for page in pages() for words in inline_codes(page) if words.startswith("handloom ")}
    assert verbs <= shown, f"the manual does not mention {verbs - shown}"


@pytest.mark.parametrize(("old", "new"), [("doctor --mend", "doctor --repair"), ("again x", "rerun x")])
def test_old_names_on_the_command_line_mean_the_same(old: str, new: str) -> None:
    parsed = [vars(parser().parse_args(words.split())) for words in (old, new)]
    verbs = [values.pop("command") for values in parsed]
    assert VERBS.get(verbs[0], verbs[0]) == VERBS.get(verbs[1], verbs[1])
    assert parsed[0] == parsed[1]


def test_every_reason_not_to_run_a_command_is_needed() -> None:
    for pattern in ONLY_PARSED:
        assert any(re.search(pattern, command.text) for command in COMMANDS), pattern


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(RUN))
def test_commands_of_a_page_run(name: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for command in COMMANDS:
        if command.page == name and not why_only_parsed(command):
            desk.run(command)


@pytest.mark.tmux
@pytest.mark.parametrize("text", sorted({command.text for command in COMMANDS if opens_the_workspace(command)}))
def test_command_opens_the_workspace_and_ctrl_q_closes_it(text: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    terminal = Terminal(desk.handloom, 160, 48)
    try:
        terminal.type(desk.text(Command("", 0, text)) + "; echo ended with $?")
        terminal.press("Enter")
        terminal.wait_for("Greeting" if "replay" in text else "ctrl+p")
        assert terminal.is_alternate
        terminal.press("C-q")
        terminal.wait_for("ended with 0")
    finally:
        terminal.close()
