"""Snapshots of the state of a conversation, so that opening it does not fold the whole log.

A snapshot is a cache: it is valid for the code that folded it and for the limits that the fold began with. If either
has changed, or the snapshot cannot be read, the log is folded from its start. Taken when the agent rests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from core import controller, events, garbage_collector
from core.controller.controller import PAGE, History
from core.controller.decide import evolve
from core.controller.state import Limits, State
from core.controller.stuck import Step
from core.errors import StoreError
from core.events import Action, Observation, event_from_dict, event_to_dict
from core.regular_files import read_bytes
from core.store.event_store import EventStore
from core.store.writer import Lease
from core.stream import EventStream

log = logging.getLogger(__name__)

EVERY = 1000
"""New events after which another snapshot is taken while the conversation stays open: 35 ms of folding."""
MAX_CHARS = 4 * 1024 * 1024
"""A larger snapshot is not kept: its steps have long outputs, and reading the log is as fast."""


class Snapshots:
    """The newest snapshot of one conversation."""

    def __init__(self, store: EventStore, lease: Lease, limits: Limits) -> None:
        self._store = store
        self._lease = lease
        self._limits = limits
        self._fold_version = ""
        self._next_id = 0

    async def fold(self, stream: EventStream) -> tuple[State, History]:
        """The state after the whole log, and the history from the newest snapshot on. Raises StoreError."""
        state, first = await self.newest()
        history = History(stream, first)
        while page := await stream.read(after=history.next_id - 1, limit=PAGE):
            for envelope in page:
                history.append(envelope)
            state = reduce(evolve, page, state)
            garbage_collector.freeze()
        return state, history

    async def newest(self) -> tuple[State, int]:
        """The state to begin with, and the id of the first event that it has not seen. Raises StoreError."""
        self._fold_version = await asyncio.to_thread(_fold_version, self._limits)
        kept = await self._store.snapshot(self._lease.conversation_id, self._fold_version)
        if kept is not None and kept[0] < self._lease.next_id:
            try:
                state, self._next_id = state_from_json(kept[1]), kept[0] + 1
            except (ValidationError, ValueError, KeyError, TypeError) as error:
                log.warning("a snapshot of conversation %s is of no use: %s", self._lease.conversation_id, error)
            else:
                return state, self._next_id
        return State.initial(self._limits), 0

    async def take(self, state: State, next_id: int, *, every: int = 1) -> None:
        """Store the state before the event with this id, if enough has changed. Logs errors of the store."""
        if next_id - self._next_id < every or not is_storable(state):
            return
        text = state_to_json(state)
        if len(text) > MAX_CHARS:
            return
        try:
            await self._store.save_snapshot(self._lease, next_id - 1, self._fold_version, text)
        except StoreError as error:
            log.warning("no snapshot of conversation %s: %s", self._lease.conversation_id, error)
        else:
            self._next_id = next_id


def is_storable(state: State) -> bool:
    """Whether the agent rests, so that the snapshot does not need to hold a running action."""
    return not (state.is_busy or state.queue or state.owed)


@cache
def _adapter() -> TypeAdapter[State]:
    return TypeAdapter(State)


def state_to_json(state: State) -> str:
    """The state as JSON."""
    data = _adapter().dump_python(replace(state, recent=()), mode="json")
    data["recent"] = [[step.id, _event(step.action), _event(step.result)] for step in state.recent]
    return json.dumps(data, ensure_ascii=False)


def state_from_json(text: str) -> State:
    """The state from JSON. Raises ValidationError, ValueError, KeyError or TypeError if the text is not one."""
    data = json.loads(text)
    steps = data.pop("recent")
    state = _adapter().validate_python(data, strict=False)
    return replace(state, recent=tuple(_step(*step) for step in steps))


def _step(id: int, action: Any, result: Any) -> Step:
    action, result = (None if event is None else event_from_dict(event)[0] for event in (action, result))
    if not isinstance(action, Action) or not isinstance(result, Observation | None):
        raise TypeError("a step is an action and its result")
    return Step(id, action, result)


def _event(event: Action | Observation | None) -> Any:
    return None if event is None else event_to_dict(event, derived=False)


def _fold_version(limits: Limits) -> str:
    """A digest of the code that folds and of the limits: with another one the fold of the same log may differ."""
    return hashlib.sha256(f"{_code_digest()} {limits!r}".encode()).hexdigest()


@cache
def _code_digest() -> str:
    """A digest of the code that folds. Blocks for some milliseconds."""
    digest = hashlib.sha256()
    for package in (controller, events):
        for file in sorted(Path(package.__path__[0]).glob("*.py")):
            digest.update(read_bytes(file))
    return digest.hexdigest()
