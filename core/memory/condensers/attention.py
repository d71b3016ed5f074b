"""`llm_attention`: a model says which events stay; the others are forgotten, and nothing stands in for them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from core.events import CondensationAction, Envelope
from core.memory.condensers.amortized import to_half
from core.memory.condensers.base import Condenser, NoSummaryError, Work
from core.memory.condensers.cutting import Cut, places
from core.memory.condensers.summary import asked, request_of
from core.memory.seen import is_seen, size_of

TOOL = "keep_events"


class Attention(Condenser):
    """Of what `amortized` would forget, the model may keep a quarter of `max_size`; whole answers, with their
    results."""

    def __init__(self, keep_first: int, max_size: int, max_event_chars: int) -> None:
        self._keep_first = keep_first
        self._max_size = max_size
        self._max_event_chars = max_event_chars

    async def condense(self, work: Work) -> CondensationAction | None:
        """See the class."""
        cut = to_half(work, self._keep_first, self._max_size)
        if cut is None:
            return None
        most = max(1, self._max_size // 4)
        task = (
            f"Call the tool {TOOL} once, with the numbers in brackets of at most {most} events of the record that the "
            "agent still has to see as they are, the most important first."
        )
        request = replace(request_of(work, cut, self._max_event_chars, task), tools=[_schema()])
        response = await asked(work, request)
        call = next((call for call in response.tool_calls if call.name == TOOL), None)
        if call is None:
            raise NoSummaryError("The model did not say which events are to stay.")
        kept = _kept(_ids(call.arguments), work, cut, most)
        gone = [envelope for envelope in cut.forgotten if envelope.id not in kept]
        return Cut(gone, cut.offset).action()


def _kept(wanted: Sequence[int], work: Work, cut: Cut, most: int) -> Collection[int]:
    """The ids that stay: those that are wanted, with all that cannot be parted from them, as long as there is room."""
    at = places(work.events)
    groups: list[Sequence[Envelope]] = [work.events[one:other] for one, other in pairwise(at)]
    group_of = {envelope.id: group for group in groups for envelope in group}
    known = {envelope.id for envelope in cut.forgotten}
    left_tokens = None if work.room is None else work.room // 4
    kept: set[int] = set()
    for id in wanted:
        if id in kept or id not in known:
            continue
        group = group_of[id]
        count = sum(is_seen(envelope.event) for envelope in group)
        size = work.scale(sum(size_of(envelope.event, work.room) for envelope in group))
        if count > most or (left_tokens is not None and size > left_tokens):
            continue
        most -= count
        left_tokens = None if left_tokens is None else left_tokens - size
        kept.update(envelope.id for envelope in group)
    return kept


def _ids(arguments: str) -> list[int]:
    """The ids in a call. Raises NoSummaryError."""
    try:
        said: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        said = None
    ids = said.get("ids") if isinstance(said, dict) else None
    if not isinstance(ids, list):
        raise NoSummaryError("The model said in a way that cannot be read which events are to stay.")
    return [id for id in ids if isinstance(id, int)]


def _schema() -> dict[str, Any]:
    ids = {"type": "array", "items": {"type": "integer"}, "description": "The most important first."}
    parameters = {"type": "object", "properties": {"ids": ids}, "required": ["ids"], "additionalProperties": False}
    description = "Say which events the agent still sees."
    return {"type": "function", "function": {"name": TOOL, "description": description, "parameters": parameters}}
