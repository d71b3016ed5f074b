"""Mutated events and trajectories: types swapped, parts removed, added and renamed, bits flipped, files cut off.

Each is refused with EventFormatError and a reason, or read; and what is read is kept whole: written and read again it
is the same event, in the long form and in the stored one, with every part that this version does not know. Lone
surrogates are among the values, but not among the keys: there they become replacement characters.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from core.events import (
    Action,
    CondensationAction,
    EventFormatError,
    Observation,
    drop_for_trajectory,
    envelope_from_dict,
    envelope_to_dict,
    event_to_dict,
    to_json,
)
from tests.campaign.trial import Facts, Result, Violation, check, run_trials

PROMISE = "a mutated event or trajectory is refused with a reason, or read and kept whole"
FULL, SHORT = 200_000, 2_000
CHUNK = 250
"""Mutants that one task of a worker reads."""
MAX_REASON_CHARS = 2000

LEGACY = {"keep_prompt", "task_completed", "is_confirmed", "images_urls", "translated_ipython_code"}
LEGACY |= {"formatted_output_and_error", "exit_code", "command_id"}
"""Fields of older versions: they become today's, or are dropped because today's say the same."""
REQUIRED: dict[str, Any] = {
    "content": "text", "command": "ls", "code": "1+1", "path": "/a", "url": "http://localhost", "name": "n",
    "browser_actions": "noop()", "agent": "A", "agent_state": "running", "recall_type": "knowledge", "option": 1,
    "checkpoint": "c", "verdict": "deny", "pattern": "bash(ls)", "after": 2, "first": 0, "origin": "x.json",
    "file_path": "/f", "trigger_by_action": "browse", "old_content": "", "new_content": "", "prev_exist": True,
    "mode": "plan",
}  # fmt: skip
"""Values for fields that have no default, by name."""

Chance = random.Random
Value = Any


def run(count: int, seed: int) -> Result:
    """So many mutants, with seeds in a row."""
    weight = min(CHUNK, count)
    firsts = [(first, weight) for first in range(seed, seed + count, weight)]
    return run_trials("trajectories", PROMISE, trial, firsts, seed=seed, weight=weight)


def trial(case: tuple[int, int]) -> Facts:
    """A chunk of mutants."""
    first, count = case
    facts = Facts()
    for seed in range(first, first + count):
        data = mutant(Chance(seed))
        try:
            read(data, facts)
        except Violation as violation:
            raise Violation(f"seed {seed}: {violation}: {data[:1000]!r}") from violation
        except Exception as error:
            raise Violation(f"seed {seed}: {type(error).__name__}: {error}: {data[:1000]!r}") from error
    return facts


def read(data: bytes, facts: Facts, codec: Callable[[dict[str, Any], str], Any] = envelope_from_dict) -> None:
    """Read a file as a trajectory and check each event. `codec` is the codec under test."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        facts.counts["no JSON"] += 1
        return
    for item in found if isinstance(found, list) else [found]:
        try:
            envelope = codec(item, "c")
        except EventFormatError as error:
            check(0 < len(str(error)) <= MAX_REASON_CHARS, f"a reason of {len(str(error))} characters")
            facts.counts["refused"] += 1
            continue
        facts.counts["read"] += 1
        form = envelope_to_dict(envelope)
        text = to_json(form)
        again = envelope_from_dict(json.loads(text))
        check(again == envelope, f"another event after writing and reading: {again!r}")
        check(to_json(envelope_to_dict(again)) == text, "another form the second time")
        stored = to_json(envelope_to_dict(envelope, derived=False))
        check(envelope_from_dict(json.loads(stored), envelope.conversation_id) == envelope, "another event when stored")
        to_json(drop_for_trajectory(form))
        check_nothing_lost(item, form)


def check_nothing_lost(item: dict[str, Any], form: dict[str, Any]) -> None:
    """All parts of the input are kept, including those that no version of Handloom knows."""
    kind = form.get("action", form.get("observation"))
    classes = Action.kinds if "action" in form else Observation.kinds
    fields = set(classes[kind].model_fields) if isinstance(kind, str) and kind in classes else set()
    for inner in ("args", "extras"):
        values = item.get(inner)
        if isinstance(values, dict) and inner in form:
            for key in values.keys() - fields - LEGACY:
                check(form[inner].get(key, form) == values[key], f"{inner}.{key} is lost")
    known = {"id", "timestamp", "source", "cause", "conversation_id", "action", "observation"}
    if fields:
        known |= {"message", "tool_call_metadata", "llm_metrics"}
        known |= {"args", "timeout"} if "action" in form else {"extras", "content", "success"}
    for key in item.keys() - known:
        check(form.get(key, form) == item[key], f"{key} is lost")


# -- mutants -------------------------------------------------------------------------------------------------------


def mutant(chance: Chance) -> bytes:
    """One file: an event, or a few as a trajectory, with one to four mutations."""
    found: Value = original(chance) if chance.random() < 0.7 else [original(chance) for _ in range(3)]
    for _ in range(chance.randint(1, 4)):
        mutate_value(found, chance)
    data = json.dumps(found).encode()
    return mutate_bytes(data, chance) if chance.random() < 0.3 else data


def original(chance: Chance) -> dict[str, Any]:
    """A whole event of any kind."""
    cls = chance.choice([*Action.kinds.values(), *Observation.kinds.values()])
    required = {name: REQUIRED[name] for name, field in cls.model_fields.items() if field.is_required()}
    if cls is CondensationAction:
        required = {"forgotten_event_ids": [1, 2]}
    event = cls.model_validate({"content": "text", **required} if issubclass(cls, Observation) else required)
    place = {"id": chance.randrange(100), "timestamp": "2026-03-04T05:06:07.000008", "source": "agent", "cause": 1}
    return {**place, **copy.deepcopy(event_to_dict(event)), "conversation_id": "c"}


def nasty(chance: Chance) -> Value:
    """An unexpected value."""
    deep: Value = "x"
    for _ in range(chance.choice([3, 60, 300])):
        deep = [deep] if chance.random() < 0.5 else {"d": deep}
    return chance.choice(
        [
            *(None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**70), 10**300, 1e308, float("nan"), float("inf")),
            *("", "x", "1", "true", "null", "\ud800", "\x00", "\u202e\x1b]0;x\x07", "x" * 10_000, "2026-99-99", "init"),
            *([], {}, [None], [[]], {"": ""}, {"a": {"b": [1, "x", None]}}, {"error": "x"}, deep),
        ]
    )


def places(value: Value) -> list[tuple[Value, Any]]:
    """Every container below a value, with each of its keys."""
    found: list[tuple[Value, Any]] = []
    waiting = [value]
    while waiting:
        container = waiting.pop()
        keys = container.keys() if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return found


def mutate_value(value: Value, chance: Chance) -> None:
    """Change one thing in place."""
    every = places(value)
    if not every:
        return
    container, key = chance.choice(every)
    match chance.randrange(7):
        case 0 | 1:
            container[key] = nasty(chance)
        case 2:
            del container[key]
        case 3 if isinstance(container, dict):
            container[f"{key}x" if chance.random() < 0.5 else chance.choice(sorted(LEGACY))] = container.pop(key)
        case 4 if isinstance(container, dict):
            container[
                chance.choice([*sorted(LEGACY), "new", "action", "observation", "extras", "args", "timeout", "\u202e"])
            ] = nasty(chance)
        case 5:
            other, its_key = chance.choice(every)
            container[key] = copy.deepcopy(other[its_key])
        case _:
            container[key] = [container[key]] if chance.random() < 0.5 else str(container[key])


def mutate_bytes(data: bytes, chance: Chance) -> bytes:
    """Flip a bit, cut off the end, take out or repeat a piece, put in rubbish."""
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.randint(1, 40))
    match chance.randrange(5):
        case 0:
            return data[:start] + bytes([data[start] ^ (1 << chance.randrange(8))]) + data[start + 1 :]
        case 1:
            return data[:start]
        case 2:
            return data[:start] + data[end:]
        case 3:
            return data[:end] + data[start:]
        case _:
            return data[:start] + chance.randbytes(4) + data[start:]
