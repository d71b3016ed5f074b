"""The store keeps acknowledged events, in order, without gaps, for one owner at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import LeaseLostError, StoreBusyError, StoreError, StoreVersionError, UsageError
from core.events import CmdRunAction, Envelope, EventSource, MessageAction, NullObservation
from core.store import database
from core.store import reader as reader_module
from core.store.database import sqlite3
from core.store.event_store import EventStore
from core.store.reader import EventFilter
from core.store.writer import Draft, Spent
from tests.repeated import leaves_nothing_running
from tests.store.conversations import conversation, said

USER, AGENT = EventSource.USER, EventSource.AGENT


async def test_appended_events_are_read_unchanged(store: EventStore) -> None:
    lease = await conversation(store)
    stored = await store.append(lease, [said("hi"), Draft(CmdRunAction(command="ls"), AGENT, cause=0)])
    assert [e.id for e in stored] == [0, 1]
    assert await store.read("c") == list(stored)


async def test_text_that_utf8_cannot_encode_is_stored(store: EventStore) -> None:
    lease = await conversation(store)
    text = "nul \x00 lone \ud800 bidi \u202e"
    await store.append(lease, [said(text)])
    assert (await store.read("c"))[0].event == MessageAction(content=text)


async def test_pages_are_read_from_either_end(store: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said(str(n)) for n in range(10)])

    def ids(events: list[Envelope]) -> list[int]:
        return [e.id for e in events]

    assert ids(await store.read("c", limit=3)) == [0, 1, 2]
    assert ids(await store.read("c", limit=3, newest=True)) == [7, 8, 9]
    assert ids(await store.read("c", before=7, limit=3, newest=True)) == [4, 5, 6]
    assert ids(await store.read("c", after=2, before=5)) == [3, 4]


async def test_times_are_utc_and_clock_jumps_keep_the_order(store: EventStore, tmp_path: Path) -> None:
    now = [datetime(2026, 1, 1, 10, tzinfo=UTC)]
    async with EventStore(tmp_path / "jumping", clock=lambda: now[0]) as jumping:
        lease = await conversation(jumping)
        for hours in (1, -3, 2):
            now[0] += timedelta(hours=hours)
            await jumping.append(lease, [said(f"{hours}")])
        events = await jumping.read("c")
    assert [e.event for e in events] == [MessageAction(content=text) for text in ("1", "-3", "2")]
    assert [e.timestamp.isoformat()[11:] for e in events] == ["11:00:00+00:00", "08:00:00+00:00", "10:00:00+00:00"]
    await store.append(await conversation(store), [said("under the clock that is used where none is given")])
    assert [e.timestamp.utcoffset() for e in await store.read("c")] == [timedelta()]


async def test_filters_select_by_kind_source_text_and_time(store: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said("find Me"), Draft(CmdRunAction(command="%_'\""), AGENT)])

    async def ids(where: EventFilter) -> list[int]:
        return [e.id for e in await store.read("c", where=where)]

    assert await ids(EventFilter(kinds=frozenset({"action:run"}))) == [1]
    assert await ids(EventFilter(sources=frozenset({USER}))) == [0]
    assert await ids(EventFilter(query="find me")) == [0]
    assert await ids(EventFilter(query="' OR 1=1 --")) == []
    assert await ids(EventFilter(since=datetime(2999, 1, 1, tzinfo=UTC))) == []
    assert await ids(EventFilter(until=datetime(2999, 1, 1, tzinfo=UTC))) == [0, 1]


async def test_event_is_durable_before_it_is_visible(store: EventStore) -> None:
    lease = await conversation(store)
    seen: list[int] = []

    def deliver(envelopes: object) -> None:
        other = sqlite3.connect(store.path)
        seen.append(other.execute("SELECT count(*) FROM events").fetchone()[0])
        other.close()

    await store.append(lease, [said("x")], deliver)
    assert seen == [1]


async def test_spending_is_added_with_its_events(store: EventStore) -> None:
    lease = await conversation(store)
    spent = Spent(calls=1, cost=0.25, tokens=100, seconds=0.5)
    await asyncio.gather(*(store.append(lease, [replace(said("x"), spent=spent), said("y")]) for _ in range(3)))
    await store.append(lease, [replace(said("z"), spent=Spent(calls=1, unpriced=1))])
    today = datetime.now(UTC).date()
    assert await store.spent(today) == Spent(4, 0.75, 1, 300, 1.5)
    assert await store.spent() == await store.spent(today)
    assert await store.spent(today - timedelta(days=1)) == Spent()
    with pytest.raises(StoreError):
        await store.append(lease, [Draft(CmdRunAction.model_construct(command=float("nan")), AGENT, spent=spent)])  # type: ignore[arg-type]
    assert (await store.spent()).calls == 4


async def test_spending_is_listed_by_day_with_the_newest_first(tmp_path: Path) -> None:
    now = [datetime(2026, 1, 1, 23, tzinfo=UTC)]
    async with EventStore(tmp_path / "home", clock=lambda: now[0]) as store:
        lease = await conversation(store)
        await store.append(lease, [replace(said("x"), spent=Spent(calls=1, cost=0.5))])
        now[0] += timedelta(hours=2)
        await store.append(lease, [replace(said("y"), spent=Spent(calls=2, unpriced=2))])
        first, second = date(2026, 1, 1), date(2026, 1, 2)
        each = await store.spent_by_day()
        assert list(each.items()) == [(second, Spent(2, 0.0, 2)), (first, Spent(1, 0.5))]
        assert each[first] == await store.spent(first)
        assert list(await store.spent_by_day(limit=1)) == [second]


async def test_events_of_all_conversations_are_counted_by_kind(store: EventStore) -> None:
    for name in ("one", "two"):
        await store.append(await conversation(store, name), [said("x"), Draft(CmdRunAction(command="ls"), AGENT)])
    await store.append(await conversation(store, "three"), [said("x")])
    assert await store.count_conversations() == 3
    assert await store.events_by_kind() == {"action:message": 3, "action:run": 2}


async def test_delegates_are_found_at_every_depth(store: EventStore) -> None:
    for name, parent in (("root", ""), ("child", "root"), ("grandchild", "child"), ("other", ""), ("self", "self")):
        await store.create_conversation(name, title="", workspace="/w", model="m", parent=parent)
    assert [info.id for info in await store.descendants("root")] == ["child", "grandchild"]
    assert [info.parent for info in await store.descendants("child")] == ["child"]
    assert await store.descendants("other") == await store.descendants("self") == []


async def test_failed_delivery_does_not_stop_the_writer(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    lease = await conversation(store)

    def deliver(envelopes: object) -> None:
        raise RuntimeError("nobody is at home")

    assert [e.id for e in await store.append(lease, [said("x")], deliver)] == [0]
    assert [e.id for e in await store.append(lease, [said("y")])] == [1]
    assert "stored but not delivered" in caplog.text


async def test_folders_and_files_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        async with EventStore(tmp_path / "home") as store:
            await store.append(await conversation(store), [said("x")])
            modes = {p: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "home").rglob("*")}
    finally:
        os.umask(old)
    assert modes
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


async def test_database_is_in_wal_mode_and_syncs_fully(store: EventStore) -> None:
    rows = await store._writer.connection.execute_fetchall("PRAGMA synchronous")
    assert [tuple(row) for row in rows] == [(2,)]
    rows = await store._writer.connection.execute_fetchall("PRAGMA journal_mode")
    assert [tuple(row) for row in rows] == [("wal",)]


async def test_conversation_is_owned_by_one_process(store: EventStore, tmp_path: Path) -> None:
    await conversation(store)
    async with EventStore(tmp_path / "home") as other:
        with pytest.raises(StoreBusyError, match=f"another Handloom \\(process {os.getpid()}\\)"):
            await other.acquire("c")


async def test_lease_of_a_dead_owner_is_taken_over_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio, sys\n"
            "from pathlib import Path\n"
            "from core.store.event_store import EventStore\n"
            "from tests.store.conversations import conversation, said\n"
            "async def main():\n"
            "    async with EventStore(Path(sys.argv[1])) as store:\n"
            "        await store.append(await conversation(store), [said('mine')])\n"
            "        print('owned', flush=True)\n"
            "        await asyncio.Event().wait()\n"
            "asyncio.run(main())\n",
            str(home),
        ],
        stdout=subprocess.PIPE,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"owned\n"
    async with EventStore(home) as store:
        with pytest.raises(StoreBusyError):
            await store.acquire("c")
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        owner.stdout.close()
        lease = await store.acquire("c")
        assert (lease.next_id, lease.token) == (1, 2)
        await store.append(lease, [said("now mine")])


async def test_unknown_and_taken_ids_are_refused(store: EventStore) -> None:
    await conversation(store)
    with pytest.raises(UsageError, match="no conversation nope"):
        await store.acquire("nope")
    with pytest.raises(UsageError, match="already"):
        await conversation(store)


async def test_newer_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with EventStore(home):
        pass
    with sqlite3.connect(home / "handloom.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = (home / "handloom.db").read_bytes()
    with pytest.raises(StoreVersionError, match="newer Handloom"):
        async with EventStore(home):
            pass
    assert (home / "handloom.db").read_bytes() == before


def test_failed_upgrade_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    database.upgrade(path)
    broken = (*database.MIGRATIONS, ("CREATE TABLE extra (x)", "CREATE TABLE no good"))
    with pytest.raises(sqlite3.OperationalError):
        database.upgrade(path, broken)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == database.VERSION
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchone()[0] == 0
    connection.close()


async def test_file_that_is_not_a_database_is_refused_with_advice(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "handloom.db").write_text("this is no database, but it is long enough to be looked at" * 20)
    with pytest.raises(StoreError, match="damaged"):
        async with EventStore(home):
            pass


async def test_unusable_home_is_refused_with_advice(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(StoreError, match="set HANDLOOM_HOME"):
        async with EventStore(blocker / "home"):
            pass


async def test_appends_succeed_again_after_a_full_disk(store: EventStore) -> None:
    lease = await conversation(store)
    rows = await store._writer.connection.execute_fetchall("PRAGMA page_count")
    pages = next(iter(rows))[0]
    await store._writer.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreError, match="disk is full"):
        await store.append(lease, [said(os.urandom(100_000).hex())])
    await store.append(lease, [said(os.urandom(100_000).hex())])  # the connection was replaced, its limit is gone
    assert [e.id for e in await store.read("c")] == [0]


async def test_failed_connections_leave_nothing(store: EventStore) -> None:
    lease = await conversation(store)

    async def fail() -> None:
        await store._writer.connection.execute("PRAGMA query_only = true")
        with pytest.raises(StoreError, match="readonly"):
            await store.append(lease, [said("refused")])

    await leaves_nothing_running(fail)
    await store.append(lease, [said("again")])
    assert [e.id for e in await store.read("c")] == [0]


async def test_user_inputs_are_read_from_the_newest_events(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_INPUT_SEARCH_EVENTS", 5)
    lease = await conversation(store)
    document, answer = said(os.urandom(100_000).hex()), Draft(MessageAction(content="an answer"), AGENT)
    await store.append(
        lease, [said("old"), said("new"), answer, document, Draft(NullObservation(), AGENT), said("newest")]
    )
    assert await store.user_inputs(workspace="/w", limit=9) == ["newest", "new"]
    assert await store.user_inputs(workspace="/w", limit=1) == ["newest"]


async def test_failed_event_that_sqlite_recovers_is_deleted(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that fails leaves whole frames in the WAL, which a recovery takes for committed."""
    lease = await conversation(store)
    insert = store._writer._insert

    async def insert_and_fail(batch: list[Any]) -> None:
        await insert(batch)
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(store._writer, "_insert", insert_and_fail)
        with pytest.raises(StoreError, match="Check the disk"):
            await store.append(lease, [said("refused"), said("refused, too")])
    assert len(await store.read("c")) == 2
    await store.append(lease, [said("again")])
    assert [(e.id, e.event) for e in await store.read("c")] == [(0, MessageAction(content="again"))]


async def test_bug_while_writing_fails_the_append_and_not_the_writer(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await conversation(store)
    with monkeypatch.context() as patch:
        patch.setattr(store._writer, "_insert", None)
        with pytest.raises(StoreError, match="TypeError"):
            await store.append(lease, [said("refused")])
    await store.append(lease, [said("again")])
    assert [e.id for e in await store.read("c")] == [0]


async def test_recovered_event_of_another_owner_is_kept(store: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said("refused"), said("and found again")])
    lease.next_id, lease.in_doubt = 0, True
    await store._writer.connection.execute("UPDATE leases SET token = token + 1 WHERE conversation = ?", (lease.key,))
    with pytest.raises(LeaseLostError):
        await store.append(lease, [said("late")])
    assert len(await store.read("c")) == 2


async def test_conversations_are_opened_and_named_while_others_are_written(store: EventStore) -> None:
    lease = await conversation(store)

    async def write() -> None:
        for n in range(60):
            await store.append(lease, [said(str(n))] * (1 + n % 3))

    async def open_others() -> None:
        for n in range(20):
            other = await conversation(store, f"other {n}")
            await store.update_conversation(other, title=f"title {n}")
            await store.append(other, [said("x")])
            await store.release(other)

    await asyncio.gather(write(), open_others())
    listed = {info.id: (info.title, info.event_count) for info in await store.conversations()}
    assert listed == {"c": ("t", 120), **{f"other {n}": (f"title {n}", 1) for n in range(20)}}


async def test_cancelled_append_is_still_written(store: EventStore) -> None:
    lease = await conversation(store)
    task = asyncio.create_task(store.append(lease, [said("x")]))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await store.append(lease, [said("y")])
    assert len(await store.read("c")) == 2
