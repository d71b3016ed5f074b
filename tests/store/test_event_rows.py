"""Events of a whole conversation as rows: the same that are written one by one, and read like a list of events."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    UnknownObservation,
    envelope_to_dict,
)
from core.import_export.importer import read
from core.store.event_rows import MIN_COMPRESSED_CHARS, StoredEvents, event_row, pack, unpack
from tests.import_export.files import EVENTS, SDK_EVENTS, sdk_folder, trajectory

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
EVENTS_OF_ALL_SORTS: tuple[Event, ...] = (
    MessageAction(content="\n  Look at this, please.\nmore"),
    CmdRunAction(command="ls", timeout=3, llm_metrics=LLMMetrics(accumulated_cost=0.25)),
    UnknownObservation(raw={"observation": "weather", "message": "sunny", "success": True}),
    AgentStateChangedObservation(agent_state=AgentState.FINISHED),
    MessageAction(content="long " * 1000),
)
BYTES_OF_ALL_SORTS = "".join(map(chr, range(128))) * 12 + "".join(map(chr, range(128, 2048)))
"""Characters whose UTF-8 has all bytes about as often, so that it cannot be compressed."""


def envelopes() -> list[Envelope]:
    return [
        Envelope(
            conversation_id="c",
            id=number,
            timestamp=AT,
            source=EventSource.USER,
            cause=number - 1 if number else None,
            event=event,
            carried={"x": [1, None]},
        )
        for number, event in enumerate(EVENTS_OF_ALL_SORTS)
    ]


def test_stored_events_read_like_the_original_list() -> None:
    given = envelopes()[:2] + envelopes()[3:]
    stored = StoredEvents("c", given)
    assert stored == given
    assert list(stored) == given
    assert (len(stored), stored[-1], stored[1:3]) == (4, given[-1], given[1:3])
    assert stored != given[1:]
    assert repr(stored) == repr(given)


def test_imported_rows_equal_appended_rows() -> None:
    stored = StoredEvents("c", envelopes())
    assert stored.rows == [event_row(7, 1, envelope)[1:] for envelope in envelopes()]


def test_imported_facts_equal_those_of_a_list() -> None:
    facts = StoredEvents("c", envelopes()).facts
    assert (facts.state, facts.has_cost, facts.cost) == ("finished", True, 0.25)
    assert facts.first_line == "Look at this, please."
    untold = StoredEvents("c", envelopes()[:1]).facts  # its cost is unknown
    assert (untold.has_cost, untold.cost) == (True, None)
    assert not StoredEvents("c").facts.has_cost


@pytest.mark.parametrize("of_the_sdk", [False, True])
def test_imported_rows_have_the_stored_form(of_the_sdk: bool, tmp_path: Path) -> None:
    told = {**EVENTS[2], "message": "other words", "success": False, "conversation_id": "x"}
    odd = {**EVENTS[0], "id": 5, "message": "said otherwise", "success": True, "imported": {"by": "others"}}
    known = {"id": 6, "observation": "weather", "message": "rain", "success": True, "source": "agent"}
    events = [*EVENTS[:2], told, *EVENTS[3:], odd, known]
    path = sdk_folder(tmp_path / "sdk") if of_the_sdk else trajectory(tmp_path / "t.json", events)
    stored = read(path, conversation_id="c").envelopes
    assert isinstance(stored, StoredEvents)
    assert len(stored) == len(SDK_EVENTS if of_the_sdk else events)
    for row, envelope in zip(stored.rows, stored, strict=True):
        assert json.loads(unpack(row[-1])) == envelope_to_dict(envelope, derived=False)
        assert row[:-1] == event_row(7, 1, envelope)[1:-1]


@pytest.mark.parametrize(
    ("body", "is_packed"),
    [
        ("x" * (MIN_COMPRESSED_CHARS - 1), False),
        ("x" * MIN_COMPRESSED_CHARS, True),
        (
            "".join(
                map(chr, random.Random(1).choices([*range(128)] * 12 + [*range(128, 2048)], k=MIN_COMPRESSED_CHARS))
            ),
            False,
        ),
    ],
    ids=["short", "long", "not compressible"],
)
def test_long_bodies_are_compressed_if_that_saves_space(body: str, is_packed: bool) -> None:
    assert isinstance(pack(body), bytes) is is_packed
    assert unpack(pack(body)) == body
