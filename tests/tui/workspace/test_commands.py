"""The command table: one source for bindings, palette, help and the manual."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tui.app import HandloomApp
from tui.commands import BY_ID, COMMANDS, ORDER, Scope, all_keys, by_leader, hints, markdown
from tui.shortcuts.keymap import clashes
from tui.shortcuts.shortcut_keys import NEVER


def test_no_key_or_leader_key_is_used_twice_in_a_scope() -> None:
    assert list(clashes(COMMANDS)) == []


def test_command_ids_are_unique() -> None:
    assert len(BY_ID) == len(COMMANDS)


def test_no_key_is_ambiguous_in_terminals() -> None:
    assert not {key for command in COMMANDS for key in command.keys} & NEVER


def test_every_command_has_a_key_and_exactly_one_implementation() -> None:
    assert [command.id for command in COMMANDS if not (command.keys or command.leader or command.slash)] == []
    assert [c.id for c in COMMANDS if c.native + (c.run is not None) + (c.run_with is not None) != 1] == []
    assert {c.id for c in COMMANDS if c.run_with} == {c.id for c in COMMANDS if c.words} | {"conv.goto"}


def test_order_contains_every_command() -> None:
    assert tuple(command.id for command in COMMANDS) == ORDER


def test_every_command_that_is_not_native_is_bound() -> None:
    bound = {binding.id for binding in HandloomApp.BINDINGS}  # type: ignore[union-attr]
    assert bound == {command.id for command in COMMANDS if command.keys and not command.native}


def test_digit_after_the_leader_shows_a_tab() -> None:
    assert by_leader("3") == (BY_ID["conv.goto"], "3")
    assert by_leader("0") is None
    assert by_leader("n") == (BY_ID["conv.new"], "")
    assert by_leader("%") is None


def test_keys_are_shown_as_people_write_them() -> None:
    assert all_keys(BY_ID["conv.next"]) == ["ctrl+PgDn", "ctrl+x ]"]
    assert all_keys(BY_ID["prompt.help"]) == ["?"]
    assert all_keys(BY_ID["pane.prev"]) == ["shift+F6"]
    assert all_keys(BY_ID["browser.back"]) == ["["]


@pytest.mark.parametrize("scope", Scope)
def test_hints_are_few_and_start_with_those_of_the_scope(scope: Scope) -> None:
    shown = hints(scope)
    assert 0 < len(shown) <= 7
    if scope is Scope.QUESTION:
        assert shown[1] == ("Enter", "answer")


def test_table_of_shortcuts_has_a_row_for_every_command() -> None:
    printed = subprocess.run([sys.executable, "-m", "tui.commands"], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == markdown()
    assert len(printed.strip().splitlines()) == len(COMMANDS) + 2
