"""`handloom completion SHELL`: prints the script with which a shell completes commands, options and ids."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from core.errors import ExitStatus
from tui.cli.command_line import parser
from tui.cli.output import say

IDS = "handloom list 2>/dev/null | grep -oE '^[0-9a-f]{32}'"
"""Prints the ids of all conversations, and nothing that bash would run: it expands what it offers."""
WITH_IDS = frozenset({"rename", "delete", "show", "export", "replay", "again"})
"""Commands whose argument ID is a conversation."""


def completion(options: argparse.Namespace) -> int:
    """Print the script for a shell."""
    import shtab

    commands = parser()
    for argument in _ids(commands, ""):
        argument.complete = shtab.cmd(IDS)  # type: ignore[attr-defined]
    say(shtab.complete(commands, shell=options.shell))
    return ExitStatus.FINISHED


def _ids(command: argparse.ArgumentParser, name: str) -> Iterator[argparse.Action]:
    """The arguments of a command and those below it that are the id of a conversation."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, parsed in action.choices.items():
                yield from _ids(parsed, inner)
        elif (action.dest == "resume" and action.nargs != 0) or (
            name in WITH_IDS and str(action.metavar).startswith("ID")
        ):
            yield action
