"""Detects that the agent repeats itself. Pure, on its last steps since the last message of the user.

A step is an action and its result. Two steps are the same if action and result are; thoughts do not count, and an
output that changes is no loop. Scenarios and thresholds are those of OpenHands V0 (`openhands/controller/stuck.py`),
and beyond them loops of up to MAX_PERIOD steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.events import (
    Action,
    AgentThinkAction,
    CmdOutputObservation,
    CondensationAction,
    ErrorObservation,
    Event,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    MessageAction,
    NullAction,
    Observation,
)

MAX_PERIOD = 8
"""The longest loop that is looked for, in steps."""
PERIOD_REPEATS = 3
SAME_REPEATS = 4
ERROR_REPEATS = 3
USELESS_REPEATS = 4
"""Unusable answers in a row, each for another reason: three repairs, then the user is asked."""
MONOLOGUE_REPEATS = 3
CONDENSATION_REPEATS = 2
MAX_STEPS = MAX_PERIOD * PERIOD_REPEATS
"""Steps that the state keeps."""

SYNTAX_ERRORS = (
    "SyntaxError: unterminated string literal (detected at line",
    "SyntaxError: invalid syntax. Perhaps you forgot a comma?",
    "SyntaxError: incomplete input",
)
_NOT_COMPARED = frozenset(
    {"thought", "security_risk", "confirmation_state", "judgement", "tool_call_metadata", "llm_metrics"}
)
_VARYING = re.compile(r"\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds|us|µs|ns)\b|0x[0-9a-fA-F]+")
"""What may differ between two equal failures: durations and addresses."""


@dataclass(frozen=True, slots=True)
class Step:
    """An action of the agent and its result. A message or a condensation has no result; a NullAction is an unusable
    answer, and its result says why."""

    id: int
    action: Action
    result: Observation | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: its kind, how often it repeated, and its first event."""

    kind: str
    repeats: int
    since: int
    period: int = 1


def find_loop(recent: tuple[Step, ...]) -> Loop | None:
    """The loop at the end of these steps, if there is one."""
    if len(recent) < CONDENSATION_REPEATS:
        return None
    last = recent[-1].action
    if isinstance(last, MessageAction):
        return _repeated(recent, MONOLOGUE_REPEATS, "monologue")
    if isinstance(last, CondensationAction):
        pair = recent[-CONDENSATION_REPEATS:]
        if all(isinstance(step.action, CondensationAction) for step in pair):
            return Loop("context_window_error", CONDENSATION_REPEATS, pair[0].id)
        return None
    if isinstance(last, NullAction):
        return _unusable_answers(recent) or _repeated_pattern(recent)
    same = _repeated(recent, SAME_REPEATS, "repeating_action_observation")
    return same or _repeated_failure(recent) or _repeated_pattern(recent)


def _repeated(recent: tuple[Step, ...], repeats: int, kind: str) -> Loop | None:
    steps = recent[-repeats:]
    if len(steps) == repeats and all(_same(steps[0], step) for step in steps[1:]):
        return Loop(kind, repeats, steps[0].id)
    return None


def _unusable_answers(recent: tuple[Step, ...]) -> Loop | None:
    """Unusable answers, all for the same reason, or many."""
    steps = recent[-USELESS_REPEATS:]
    if len(steps) == USELESS_REPEATS and all(isinstance(step.action, NullAction) for step in steps):
        return Loop("useless_answers", USELESS_REPEATS, steps[0].id)
    return _repeated(recent, ERROR_REPEATS, "useless_answers")


def _repeated_failure(recent: tuple[Step, ...]) -> Loop | None:
    """The same action, and an error each time."""
    steps = recent[-ERROR_REPEATS:]
    if len(steps) < ERROR_REPEATS or not all(_same_action(steps[0].action, step.action) for step in steps[1:]):
        return None
    results = [step.result for step in steps]
    failed = all(isinstance(result, ErrorObservation) for result in results)
    errors = {_syntax_error(result) for result in results}
    if failed or (len(errors) == 1 and None not in errors):
        return Loop("repeating_action_error", ERROR_REPEATS, steps[0].id)
    return None


def _repeated_pattern(recent: tuple[Step, ...]) -> Loop | None:
    """Several steps that repeat in turn."""
    for period in range(2, MAX_PERIOD + 1):
        steps = recent[-period * PERIOD_REPEATS :]
        if len(steps) < period * PERIOD_REPEATS:
            return None
        if all(_same(steps[n], steps[n + period]) for n in reversed(range(len(steps) - period))):
            return Loop("repeating_action_observation_pattern", PERIOD_REPEATS, steps[0].id, period)
    return None


def _same(one: Step, other: Step) -> bool:
    return _same_action(one.action, other.action) and _same_result(one.result, other.result)


def _same_action(one: Action, other: Action) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, IPythonRunCellAction) and isinstance(other, IPythonRunCellAction):
        edits = "edit_file_by_replace(" in one.code and "edit_file_by_replace(" in other.code
        return one.code.split("\n")[:3] == other.code.split("\n")[:3] if edits else one.code == other.code
    return _compared(one) == _compared(other)


def _same_result(one: Observation | None, other: Observation | None) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, CmdOutputObservation) and isinstance(other, CmdOutputObservation):
        if one.exit_code != other.exit_code:
            return False
        if one.exit_code == 0:
            return one.content == other.content
        return _VARYING.sub("", one.content) == _VARYING.sub("", other.content)
    return (one and _compared(one)) == (other and _compared(other))


def _syntax_error(result: Observation | None) -> str | None:
    """The line of a syntax error in a cell, of the kinds that a model repeats."""
    if not isinstance(result, IPythonRunCellObservation):
        return None
    for line in result.content.split("\n"):
        if any(marker in line for marker in SYNTAX_ERRORS):
            return line
    return None


def _compared(event: Event) -> tuple[Any, ...]:
    return tuple(getattr(event, name) for name in _fields(type(event)))


@cache
def _fields(cls: type[Event]) -> tuple[str, ...]:
    ignored = _NOT_COMPARED - {"thought"} if cls is AgentThinkAction else _NOT_COMPARED  # the thought is the action
    return tuple(name for name in cls.model_fields if name not in ignored)


def describe_loop(loop: Loop) -> str:
    """The description of a loop, for people and for the agent."""
    match loop.kind:
        case "monologue":
            return f"said the same {loop.repeats} times without doing anything in between"
        case "context_window_error":
            return f"condensed its history {loop.repeats} times without an answer in between"
        case "useless_answers":
            return f"gave {loop.repeats} answers in a row that cannot be used"
        case "repeating_action_error":
            return f"did the same {loop.repeats} times, and it failed each time"
    if loop.period > 1:
        return f"went through the same {loop.period} steps {loop.repeats} times, with the same results"
    return f"did the same {loop.repeats} times, with the same result"
