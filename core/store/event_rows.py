"""Events as database rows: their stored form, the statements that write them, and what lists show of them.

The stored form is JSON without derived fields: a str if it is short, else compressed bytes. `pack` makes it and
`unpack` reverses it; statements that look into a body call the SQL function `BODY`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from core.events import (
    Action,
    AgentStateChangedObservation,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    UnknownAction,
    UnknownObservation,
    envelope_from_dict,
    envelope_to_dict,
    to_json,
)
from core.store.database import aiosqlite

MIN_COMPRESSED_CHARS = 512
"""Compressing shorter bodies saves almost nothing."""
BODY = "handloom_body"
"""The SQL function that returns a body as text."""
FIRST_LINE_CHARS = 200
ADD_EVENT = (
    "INSERT INTO events (conversation, id, timestamp, source, cause, kind, lease, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
UPDATE_FACTS = (
    "UPDATE conversations SET state = CASE WHEN ?2 <> '' THEN ?2 ELSE state END,"
    " cost = CASE WHEN ?3 THEN ?4 ELSE cost END,"
    " first_line = CASE WHEN first_line = '' THEN ?5 ELSE first_line END WHERE key = ?1"
)


def pack(body: str) -> str | bytes:
    """The body as it is stored. Takes some 10 µs per kilobyte."""
    if len(body) < MIN_COMPRESSED_CHARS:
        return body
    plain = body.encode()
    packed = zlib.compress(plain, 1)
    return packed if len(packed) < len(plain) else body


def unpack(stored: str | bytes) -> str:
    """The JSON text. Raises zlib.error for damaged bytes."""
    return stored if isinstance(stored, str) else zlib.decompress(stored).decode()


async def install_body_function(connection: aiosqlite.Connection) -> None:
    await connection.create_function(BODY, 1, unpack, deterministic=True)


def kind_of(event: Event) -> str:
    """The kind of an event in the database: branch and name, such as `action:run`."""
    branch = "action" if isinstance(event, Action) else "observation"
    if isinstance(event, UnknownAction | UnknownObservation):
        return f"{branch}:{event.raw.get(branch, 'unknown')}"
    return f"{branch}:{event.kind}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What lists show of a conversation, computed from its events."""

    state: str = ""
    has_cost: bool = False
    cost: float | None = None
    first_line: str = ""

    def after(self, event: Event, source: EventSource) -> Facts:
        facts = self
        if event.llm_metrics is not None:
            facts = replace(facts, has_cost=True, cost=event.llm_metrics.accumulated_cost)
        if isinstance(event, AgentStateChangedObservation):
            facts = replace(facts, state=str(event.agent_state))
        elif isinstance(event, MessageAction) and source is EventSource.USER and not facts.first_line:
            facts = replace(facts, first_line=_first_line(event.content))
        return facts

    def after_form(self, form: Mapping[str, Any]) -> Facts:
        """As `after`, of an event in its stored form that fits its kind."""
        facts = self
        if "llm_metrics" in form:  # many times faster than `replace`
            facts = Facts(facts.state, True, form["llm_metrics"]["accumulated_cost"], facts.first_line)
        if form.get("observation") == AgentStateChangedObservation.kind:
            facts = replace(facts, state=str(form["extras"]["agent_state"]))
        elif form.get("action") == MessageAction.kind and form["source"] == "user" and not facts.first_line:
            facts = replace(facts, first_line=_first_line(form["args"]["content"]))
        return facts

    def lasting(self) -> Facts:
        """What later events do not change: the first line."""
        return Facts(first_line=self.first_line) if self.first_line else NO_FACTS

    def row(self, key: int) -> tuple[Any, ...]:
        """The values of `UPDATE_FACTS`."""
        return key, self.state, self.has_cost, self.cost, self.first_line


def _first_line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first[:FIRST_LINE_CHARS].encode(errors="replace").decode()  # removes lone surrogates


NO_FACTS = Facts()


def event_row(key: int, token: int, envelope: Envelope, body: str | bytes | None = None) -> tuple[Any, ...]:
    """The values of `ADD_EVENT`. `body` is the packed form, if known. Raises ValueError for data that is not JSON."""
    if body is None:
        body = pack(to_json(envelope_to_dict(envelope, derived=False)))
    timestamp, source = envelope.timestamp.isoformat(), envelope.source.value
    return key, envelope.id, timestamp, source, envelope.cause, kind_of(envelope.event), token, body


_TOKEN = 1
"""The lease token of a conversation that is stored whole."""
_BODY = -1


class StoredEvents(Sequence[Envelope]):
    """The events of a whole conversation as packed rows, readable as a sequence of envelopes.

    100,000 events take only the memory of their packed text, and no objects for the garbage collector. An import fills
    it, and `EventStore.adopt` stores it. Filling blocks, so do it in a thread.
    """

    def __init__(self, conversation_id: str, envelopes: Iterable[Envelope] = ()) -> None:
        """Raises ValueError for an event that is not JSON."""
        self._conversation_id = conversation_id
        self._facts = Facts()
        self.rows: list[tuple[Any, ...]] = []
        """The values of `ADD_EVENT` after the conversation's key."""
        for envelope in envelopes:
            self.add(envelope)

    def add(self, envelope: Envelope, form: dict[str, Any] | None = None) -> None:
        """Append an event. `form` is its stored form, if known. Raises ValueError for data that is not JSON."""
        self._facts = self._facts.after(envelope.event, envelope.source)
        body = None if form is None else pack(to_json(form))
        self.rows.append(event_row(-1, _TOKEN, envelope, body)[1:])

    def add_form(self, form: Mapping[str, Any], body: str) -> None:
        """Append an event in its stored form, which fits its kind, and that as JSON; no event is made of it."""
        self._facts = self._facts.after_form(form)
        branch = "action" if "action" in form else "observation"
        place = (form["id"], form["timestamp"], form["source"], form.get("cause"))
        self.rows.append((*place, f"{branch}:{form[branch]}", _TOKEN, pack(body)))

    @property
    def facts(self) -> Facts:
        """What lists show of the conversation. Without any recorded cost, the cost is unknown."""
        if not self.rows or self._facts.has_cost:
            return self._facts
        return replace(self._facts, has_cost=True, cost=None)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Envelope: ...
    @overload
    def __getitem__(self, place: slice) -> list[Envelope]: ...
    def __getitem__(self, place: int | slice) -> Envelope | list[Envelope]:
        if isinstance(place, slice):
            return [self._read(row) for row in self.rows[place]]
        return self._read(self.rows[place])

    def __iter__(self) -> Iterator[Envelope]:
        return map(self._read, self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def _read(self, row: tuple[Any, ...]) -> Envelope:
        return envelope_from_dict(json.loads(unpack(row[_BODY])), self._conversation_id)
