"""StoredEvents: the events of a whole conversation as the rows that the database gets.

Holds packed text and no objects, so that 100,000 events take the memory of their text, and nothing for the garbage
collector to walk. Read like a list, each event is what a reader of the database would get. An import fills it event by
event; `EventStore.adopt` stores it. Blocks while it packs: fill it in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

from core.events import Envelope, envelope_from_dict, to_json
from core.store.compression import pack, unpack
from core.store.writer import Facts, row_of_event

_TOKEN = 1
"""Of the lease under which a whole conversation is stored."""
_BODY = -1


class StoredEvents(Sequence[Envelope]):
    """Events in the order of their ids, of one conversation."""

    def __init__(self, conversation_id: str, envelopes: Iterable[Envelope] = ()) -> None:
        """Raises ValueError for an event that is no JSON."""
        self._conversation_id = conversation_id
        self._facts = Facts()
        self.rows: list[tuple[Any, ...]] = []
        """The values of `ADD_EVENT` after the conversation's key."""
        for envelope in envelopes:
            self.add(envelope)

    def add(self, envelope: Envelope, form: dict[str, Any] | None = None) -> None:
        """One more event. `form` is its stored form, where the caller has it already. Raises ValueError: no JSON."""
        self._facts = self._facts.after(envelope.event, envelope.source)
        body = None if form is None else pack(to_json(form))
        self.rows.append(row_of_event(-1, _TOKEN, envelope, body)[1:])

    @property
    def facts(self) -> Facts:
        """What lists show of the conversation. What nobody wrote down it did not take is not known."""
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
