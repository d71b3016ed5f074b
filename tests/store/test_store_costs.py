"""The cost of an event or a page in steps of SQLite's virtual machine: it does not grow with the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from core.events import AgentThinkAction, CmdRunAction, EventSource, NullObservation
from core.store.database import aiosqlite
from core.store.event_store import EventStore
from core.store.reader import EventFilter
from core.store.writer import Draft, Lease
from tests.store.conversations import said

LONG = 5_000
"""Events at which V0 appends at a ninth of its first rate."""


async def conversation(store: EventStore, name: str, events: int) -> Lease:
    lease = await store.create_conversation(name, title="", workspace="/w", model="m")
    drafts = [said(f"event {n}") for n in range(events)]
    for begin in range(0, events, 500):
        await store.append(lease, drafts[begin : begin + 500])
    return lease


async def steps_of(connection: aiosqlite.Connection, work: Callable[[], Awaitable[object]]) -> int:
    """How many instructions SQLite carries out on this connection for some work; found out by doing it."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    await work()  # statements that are prepared once are prepared now
    await connection.set_progress_handler(count, 1)
    await work()
    await connection.set_progress_handler(count, 0)  # no more
    assert steps > 0
    return steps


async def test_cost_of_an_append_does_not_depend_on_the_length(store: EventStore) -> None:
    short, long = await conversation(store, "short", 10), await conversation(store, "long", LONG)
    connection = store._writer.connection
    few = await steps_of(connection, lambda: store.append(short, [said("x")]))
    many = await steps_of(connection, lambda: store.append(long, [said("x")]))
    assert many <= few * 1.2


async def test_cost_of_the_newest_page_does_not_depend_on_the_length(store: EventStore) -> None:
    await conversation(store, "short", 50)
    await conversation(store, "long", LONG)
    few = await steps_of(store._read, lambda: store.read("short", limit=50, newest=True))
    many = await steps_of(store._read, lambda: store.read("long", limit=50, newest=True))
    assert many <= few * 1.2
    assert [e.id for e in await store.read("long", limit=50, newest=True)] == list(range(LONG - 50, LONG))


async def test_cost_of_a_page_does_not_depend_on_reopening(store: EventStore) -> None:
    whole, parts = await conversation(store, "whole", 50), await conversation(store, "parts", 10)
    await store.release(whole)
    await store.release(parts)
    again = await store.acquire("parts")
    await store.append(again, [said(f"event {n}") for n in range(10, 50)])
    at_once = await steps_of(store._read, lambda: store.read("whole", after=24, limit=25))
    in_parts = await steps_of(store._read, lambda: store.read("parts", after=24, limit=25))
    assert in_parts == at_once


async def test_append_writes_the_event_and_its_conversation_row(store: EventStore) -> None:
    """Two rows in one transaction: no second copy of the event, no list of conversations."""
    lease = await conversation(store, "c", 60)
    before = store._writer.connection.total_changes
    for n in range(60):
        await store.append(lease, [Draft(NullObservation(content=str(n)), EventSource.ENVIRONMENT)])
    assert store._writer.connection.total_changes - before == 2 * 60


async def test_filtered_events_are_not_parsed(store: EventStore) -> None:
    lease = await conversation(store, "c", 100)
    await store.append(lease, [Draft(CmdRunAction(command="ls"), EventSource.AGENT)])
    await store.append(lease, [Draft(AgentThinkAction(thought="x"), EventSource.AGENT)])
    await store._writer.connection.execute("UPDATE events SET body = 'no JSON' WHERE kind <> 'action:run'")
    assert [e.id for e in await store.read("c", where=EventFilter(kinds=frozenset({"action:run"})))] == [100]
    assert [e.id for e in await store.read("c", where=EventFilter(query='"LS"'))] == [100]
    with pytest.raises(ValueError, match="Expecting value"):
        await store.read("c")
