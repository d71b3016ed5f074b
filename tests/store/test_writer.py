"""The writer's rows, and its commits: in batches, all or none of each append, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import LeaseLostError, StoreError
from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    UnknownAction,
    UnknownObservation,
)
from core.store import database
from core.store.blobs import extract_pictures
from core.store.database import sqlite3
from core.store.event_rows import Facts, event_row, kind_of
from core.store.recordings import RecordedRow
from core.store.writer import Draft, EventWriter, Lease, Spent
from tests.store.conversations import said
from tests.store.test_blobs import png, url

AT = datetime(2026, 11, 22, 13, 0, tzinfo=UTC)


def test_spending_is_added_up() -> None:
    assert Spent(1, 0.5, 2, 300, 4.5) + Spent(10, 0.25, 20, 7, 1.25) == Spent(11, 0.75, 22, 307, 5.75)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (CmdRunAction(command="ls"), "action:run"),
        (AgentStateChangedObservation(agent_state=AgentState.FINISHED), "observation:agent_state_changed"),
        (UnknownAction(raw={"action": "dance"}), "action:dance"),
        (UnknownObservation(raw={"observation": "weather"}), "observation:weather"),
    ],
)
def test_event_has_a_kind(event: Event, kind: str) -> None:
    assert kind_of(event) == kind


BEFORE = Facts(state="running", has_cost=True, cost=1.5, first_line="begun")


@pytest.mark.parametrize(
    ("before", "event", "source", "changes"),
    [
        (Facts(), MessageAction(content="\n  \n one \ntwo"), EventSource.USER, {"first_line": "one"}),
        (Facts(), MessageAction(content="one"), EventSource.AGENT, {}),
        (Facts(), MessageAction(content=" \n"), EventSource.USER, {}),
        (Facts(), MessageAction(content="x" * 300), EventSource.USER, {"first_line": "x" * 200}),
        (Facts(), MessageAction(content="a\ud800b"), EventSource.USER, {"first_line": "a?b"}),
        (Facts(), CmdRunAction(command="ls"), EventSource.USER, {}),
        (BEFORE, MessageAction(content="one"), EventSource.USER, {}),
        (BEFORE, AgentStateChangedObservation(agent_state=AgentState.FINISHED), EventSource.AGENT,
         {"state": "finished"}),
        (BEFORE, CmdRunAction(command="ls", llm_metrics=LLMMetrics(accumulated_cost=2.5)), EventSource.AGENT,
         {"cost": 2.5}),
        (Facts(), CmdRunAction(command="ls", llm_metrics=LLMMetrics(accumulated_cost=None)), EventSource.AGENT,
         {"has_cost": True}),
    ],
)  # fmt: skip
def test_conversation_facts_follow_the_events(
    before: Facts, event: Event, source: EventSource, changes: dict[str, Any]
) -> None:
    assert before.after(event, source) == replace(before, **changes)


def test_event_row_has_its_parts_in_columns() -> None:
    draft = Draft(MessageAction(content="hello"), EventSource.USER, cause=3)
    envelope = draft.at("c", 4, AT)
    assert envelope == Envelope(
        conversation_id="c", id=4, timestamp=AT, source=EventSource.USER, cause=3, event=draft.event
    )
    *columns, body = event_row(7, 2, envelope)
    assert columns == [7, 4, AT.isoformat(), "user", 3, "action:message", 2]
    assert '"hello"' in body
    assert event_row(7, 2, envelope, b"packed") == (*columns, b"packed")


def test_facts_of_a_conversation_are_written_with_its_key() -> None:
    assert BEFORE.row(9) == (9, "running", True, 1.5, "begun")


# -- writing -------------------------------------------------------------------------------------------------------


class Home:
    """A database of two conversations, and its writer; `commits` counts how often it said that it committed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commits = 0
        database.upgrade(path)
        self.leases = [Lease(id, key, 1, 0) for key, id in ((1, "a"), (2, "b"))]
        for lease in self.leases:
            named = f"INSERT INTO conversations (key, id, title, workspace, model, created_at) VALUES ({lease.key},"
            self.all(f"{named} '{lease.conversation_id}', '', '/w', 'm', '{AT.isoformat()}')")
            self.all(f"INSERT INTO leases VALUES ({lease.key}, 1, 'me')")
        self.writer = EventWriter(path, lambda: AT)
        self.writer.notify = self._count

    def _count(self) -> None:
        self.commits += 1

    def all(self, statement: str) -> list[Any]:
        """The rows that another connection sees, which are the committed ones."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return list(connection.execute(statement))

    def texts(self, key: int = 1) -> list[tuple[int, str]]:
        events = f"SELECT id, json_extract(body, '$.args.content') FROM events WHERE conversation = {key} ORDER BY id"
        return self.all(events)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    made = Home(tmp_path / "db")
    await made.writer.open()
    yield made
    await made.writer.finish()
    await made.writer.close()


BAD = Draft(CmdRunAction.model_construct(command=float("nan")), EventSource.AGENT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "commits"),
    [([1], 1), ([1, 1, 1], 1), ([600, 400], 1), ([600, 401], 2), ([1000, 1], 2), ([600, 400, 600, 400], 2),
     ([2000], 1), ([2000, 1, 999], 2), ([1, 2000, 1], 3)],
)  # fmt: skip
async def test_waiting_appends_share_a_commit_of_up_to_a_thousand_events(
    home: Home, sizes: list[int], commits: int
) -> None:
    stored = await asyncio.gather(*(home.writer.append(home.leases[0], [said("x")] * size) for size in sizes))
    assert [envelope.id for envelopes in stored for envelope in envelopes] == list(range(sum(sizes)))
    assert home.all("SELECT count(*), max(id) FROM events") == [(sum(sizes), sum(sizes) - 1)]
    assert (home.commits, home.leases[0].next_id) == (commits, sum(sizes))


async def test_appends_return_in_order_and_after_the_delivery(home: Home) -> None:
    seen: list[tuple[str, int]] = []

    def deliver(name: str) -> Any:
        return lambda envelopes: seen.extend((name, envelope.id) for envelope in envelopes)

    async def append(number: int, *texts: str) -> None:
        lease = home.leases[number]
        stored = await home.writer.append(lease, list(map(said, texts)), deliver(lease.conversation_id))
        seen.append(("answered", stored[-1].id))
        assert {(envelope.conversation_id, envelope.timestamp) for envelope in stored} == {(lease.conversation_id, AT)}

    await asyncio.gather(append(0, "one", "two"), append(1, "other"), append(0, "three"))
    assert seen[:4] == [("a", 0), ("a", 1), ("b", 0), ("a", 2)]
    assert sorted(seen[4:]) == [("answered", 0), ("answered", 1), ("answered", 2)]
    assert home.texts() == [(0, "one"), (1, "two"), (2, "three")]
    assert home.texts(2) == [(0, "other")]


async def test_append_that_is_not_json_is_refused_without_affecting_others(home: Home) -> None:
    lease = home.leases[0]
    appends: list[Sequence[Draft]] = [[said("one")], [said("refused"), BAD], [said("two")], [BAD]]
    answers = await asyncio.gather(*(home.writer.append(lease, drafts) for drafts in appends), return_exceptions=True)
    assert [isinstance(answer, StoreError) for answer in answers] == [False, True, False, True]
    with pytest.raises(StoreError, match="The event cannot be stored"):
        await home.writer.append(lease, [BAD])
    assert home.texts() == [(0, "one"), (1, "two")]
    assert (home.commits, lease.in_doubt) == (1, False)


async def test_append_without_a_valid_lease_is_refused_without_affecting_others(home: Home) -> None:
    home.all("UPDATE leases SET token = 2 WHERE conversation = 1")
    mine, theirs = home.leases
    appends = [(theirs, "one"), (mine, "late"), (theirs, "two"), (mine, "late")]
    answers = await asyncio.gather(
        *(home.writer.append(lease, [said(text), said(text)]) for lease, text in appends), return_exceptions=True
    )
    assert [isinstance(answer, LeaseLostError) for answer in answers] == [False, True, False, True]
    assert "Another Handloom owns the conversation now" in str(answers[1])
    assert (home.texts(), home.texts(2)) == ([], [(0, "one"), (1, "one"), (2, "two"), (3, "two")])
    assert (mine.next_id, theirs.next_id) == (0, 4)
    assert not mine.in_doubt, "it is known that nothing was written"


async def test_failed_commit_stores_no_append_and_the_next_one_succeeds(home: Home) -> None:
    a, b = home.leases
    home.all("CREATE TRIGGER full BEFORE INSERT ON events WHEN NEW.conversation = 2 BEGIN SELECT randomblob(-1) / 0,"
             " json('no JSON'); END")  # fmt: skip
    answers = await asyncio.gather(
        home.writer.append(a, [said("one"), said("two")]), home.writer.append(b, [said("x")]), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [StoreError, StoreError]
    assert str(answers[0]) == (
        "The event could not be stored: malformed JSON. "
        "The file is damaged. Recover what is readable with: handloom doctor --repair"
    )
    assert (home.texts(), home.commits, a.in_doubt, b.in_doubt) == ([], 0, True, True)
    home.all("DROP TRIGGER full")
    await home.writer.append(a, [said("again")])
    assert (home.texts(), a.in_doubt, b.in_doubt) == ([(0, "again")], False, True)
    assert (a.next_id, b.next_id, home.commits) == (1, 0, 1)


async def test_row_of_the_conversation_is_written_only_by_what_changes_it(home: Home) -> None:
    home.all("CREATE TABLE written (first_line TEXT)")
    home.all("CREATE TRIGGER writing AFTER UPDATE OF first_line ON conversations BEGIN"
             " INSERT INTO written VALUES (NEW.first_line); END")  # fmt: skip
    lease = home.leases[0]
    for text in (" ", "first", "second", "third"):
        await home.writer.append(lease, [Draft(MessageAction(content=text), EventSource.USER)])
    assert home.all("SELECT first_line FROM written") == [("first",)]
    await home.writer.append(
        lease, [Draft(AgentStateChangedObservation(agent_state=AgentState.FINISHED), EventSource.AGENT)]
    )
    assert home.all("SELECT first_line, state FROM conversations WHERE key = 1") == [("first", "finished")]


async def test_pictures_and_recordings_of_an_event_are_stored_with_it_or_not_at_all(home: Home) -> None:
    picture, blobs = extract_pictures(MessageAction(content="look", image_urls=[url(png())]))
    row = RecordedRow(-1, AT, b"printed")
    draft = Draft(picture, EventSource.USER, spent=Spent(1, 0.5, 0, 10, 2.0), blobs=blobs, recorded=(row, row))
    tables = {
        "SELECT day, calls, cost, unpriced, tokens, seconds FROM spending": [("2026-11-22", 2, 1.0, 0, 20, 4.0)],
        "SELECT conversation, digest, width, height FROM blobs": [(1, blobs[0].ref.digest, 3, 2)],
        'SELECT conversation, "after", number, at, frames FROM recordings':
            [(1, -1, number, AT.isoformat(), b"printed") for number in range(4)],
        "SELECT first_line FROM conversations": [("look",), ("",)],
    }  # fmt: skip
    home.all("UPDATE leases SET token = 2 WHERE conversation = 1")
    with pytest.raises(LeaseLostError):
        await home.writer.append(home.leases[0], [draft])
    assert [home.all(table) for table in tables] == [[], [], [], [("",), ("",)]]
    home.all("UPDATE leases SET token = 1 WHERE conversation = 1")
    await home.writer.append(home.leases[0], [draft, draft])
    assert {table: home.all(table) for table in tables} == tables


async def test_appends_fail_until_the_database_can_be_reopened(home: Home, tmp_path: Path) -> None:
    """A failed write closes the connection; where no other can be had, writes are refused and nothing hangs."""
    lease = home.leases[0]
    await home.writer.connection.execute("PRAGMA query_only = true")
    away = tmp_path / "away"
    home.path.rename(away)
    home.path.mkdir()
    for _ in range(2):
        with pytest.raises(StoreError, match="The event could not be stored"):
            await home.writer.append(lease, [said("refused")])
    home.path.rmdir()
    away.rename(home.path)
    with pytest.raises(StoreError, match="The event could not be stored"):
        await home.writer.append(lease, [said("refused, and then it is open again")])
    await home.writer.append(lease, [said("again")])
    assert home.texts() == [(0, "again")]


async def test_writes_after_closing_are_refused_and_do_not_reopen_the_file(home: Home) -> None:
    await home.writer.finish()
    await home.writer.close()
    before = home.writer.connection
    with pytest.raises(StoreError, match=r"^The mark could not be kept: the event store is closed\.$"):
        async with home.writer.writing("The mark could not be kept"):
            raise AssertionError("nobody gets a closed connection")
    assert home.writer.connection is before
