"""Parse `hooks.toml`: commands that run around an agent's actions. Pure.

    [[hook]]
    event = "before_action"          # or after_action, conversation_start, conversation_end
    command = "check-what-it-runs"
    actions = ["run", "edit"]        # optional; default: all
    timeout_s = 10                   # optional

Each hook gets one JSON object on standard input. A hook before an action can deny it with exit status 2 and a reason on
standard error.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

DENIES = 2
"""Exit status with which a hook denies an action."""
MAX_HOOKS = 32
MAX_COMMAND_CHARS = 2_000
DEFAULT_S, MAX_S = 10.0, 300.0
_KEYS = frozenset({"event", "command", "actions", "timeout_s"})


class Moment(StrEnum):
    """When a hook runs."""

    BEFORE_ACTION = "before_action"
    AFTER_ACTION = "after_action"
    CONVERSATION_START = "conversation_start"
    CONVERSATION_END = "conversation_end"


@dataclass(frozen=True, slots=True)
class Hook:
    """A command and the occasions on which it runs."""

    moment: Moment
    command: str
    actions: tuple[str, ...] = ()
    """Action types as in the event log; empty for all."""
    timeout_s: float = DEFAULT_S

    def wants(self, kind: str) -> bool:
        """Whether the hook runs for actions of this type."""
        return not self.actions or kind in self.actions


def hooks_of(text: str) -> tuple[list[Hook], list[str]]:
    """Return the valid hooks of a file in order, and a line for each problem."""
    try:
        said = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return [], [f"not TOML: {str(error) or 'it is nested too deeply'}"]
    table = said.get("hook", [])
    problems = [f"{name!r} is not known; hooks must be under [[hook]]" for name in list(said)[:5] if name != "hook"]
    if not isinstance(table, list):
        return [], [*problems, "hooks must be under [[hook]], with two brackets"]
    if len(table) > MAX_HOOKS:
        problems.append(f"only the first {MAX_HOOKS} hooks are read")
    found: list[Hook] = []
    for number, one in enumerate(table[:MAX_HOOKS], 1):
        try:
            found.append(_hook(one))
        except ValueError as error:
            problems.append(f"hook {number}: {error}")
    return found, problems


def _hook(said: Any) -> Hook:
    """Parse one hook. Raises ValueError with a message for the user."""
    if not isinstance(said, dict):
        raise ValueError("it is a table with event and command")
    if unknown := sorted(set(said) - _KEYS):
        raise ValueError(f"{unknown[0][:40]!r} is not known; known are {', '.join(sorted(_KEYS))}")
    event, command = said.get("event"), said.get("command")
    if event not in set(Moment):
        raise ValueError(f"event is one of {', '.join(Moment)}")
    if not isinstance(command, str) or not command.strip() or len(command) > MAX_COMMAND_CHARS or "\0" in command:
        raise ValueError(f"command is what a shell runs, at most {MAX_COMMAND_CHARS} letters")
    actions, seconds = said.get("actions", []), said.get("timeout_s", DEFAULT_S)
    if not isinstance(actions, list) or not all(isinstance(kind, str) for kind in actions):
        raise ValueError('actions is a list of kinds, such as ["run", "edit"]')
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_S:
        raise ValueError(f"timeout_s is a number of seconds up to {MAX_S:g}")
    return Hook(Moment(event), command, tuple(actions), float(seconds))
