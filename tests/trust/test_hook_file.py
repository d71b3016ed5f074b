"""Hooks as a file names them."""

from __future__ import annotations

import pytest

from core.trust.hook_file import Hook, Moment, hooks_of


def test_hooks_are_read_in_order() -> None:
    text = """
[[hook]]
event = "before_action"
command = "check"
actions = ["run"]
timeout_s = 3
[[hook]]
event = "conversation_end"
command = "bye"
"""
    found, problems = hooks_of(text)
    assert problems == []
    assert found == [Hook(Moment.BEFORE_ACTION, "check", ("run",), 3.0), Hook(Moment.CONVERSATION_END, "bye")]
    assert [found[0].wants(kind) for kind in ("run", "edit")] == [True, False]
    assert found[1].wants("edit")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[hook]", "not TOML"),
        ("a = " + "[" * 50_000, "not TOML"),
        ("[hook]\nevent = 'x'", "two brackets"),
        ("[[hook]]\nevent = 'never'\ncommand = 'x'", "event is one of"),
        ("[[hook]]\nevent = 'before_action'\ncommand = ''", "command is"),
        ("[[hook]]\nevent = 'before_action'\ncommand = 'x'\ntimeout_s = 1e9", "timeout_s"),
        ("[[hook]]\nevent = 'before_action'\ncommand = 'x'\ntimeout_s = true", "timeout_s"),
        ("[[hook]]\nevent = 'before_action'\ncommand = 'x'\nactions = 'run'", "actions"),
        ("[[hook]]\nevent = 'before_action'\ncommand = 'x'\nshell = 'zsh'", "not known"),
        ("hook = [1]", "table"),
    ],
)
def test_invalid_hooks_are_reported(text: str, why: str) -> None:
    found, problems = hooks_of(text)
    assert found == []
    assert why in problems[0]
