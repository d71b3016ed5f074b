"""Library: finds the sessions of other agents, and keeps a copy of each in a home of its own below ours.

The copies are conversations like any other, so lists, search, replay, statistics and export work on them without more
code. A session is listed as soon as it is found, and read later, the newest first. One process at a time updates the
library; readers never wait for it. The files of other agents are only read.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from core.errors import StoreBusyError, UsageError
from core.import_export.agents.names import AGENTS
from core.import_export.agents.source import AgentSession, Places, Source
from core.import_export.agents.table import SOURCES
from core.import_export.bounded_json import Fault
from core.library.prepared_session import (
    PreparedSession,
    bounded,
    branch_ids,
    copy_id,
    facts_of,
    filled,
    prepare,
    redacted,
)
from core.library.records import RECORDS, Record, Records, library_home
from core.secrets import Redactor
from core.store.copies import CopyStore
from core.store.database import sqlite3
from core.store.locks import FileLock
from core.store.reader import EventReader

log = logging.getLogger(__name__)
_LOCK, _STORING = "updating", "storing"
_WAIT_S = 0.05
"""Between two looks whether another process has stored what it has read."""
AHEAD = 4
"""Sessions that are read while others are stored."""
GROUP = 200
"""Sessions that are listed at once."""
TOGETHER, TOGETHER_BYTES = 50, 8_000_000
"""Sessions that are stored in one transaction, and about their size."""
FIRST_BYTES = 1_000_000
"""Of a session that is being opened: enough for its first pages, and read within a moment."""
MAX_SESSIONS = 100_000
"""Of one agent; a small file can claim to have millions."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an update is."""

    found: int
    """Sessions that are known."""
    pending: int
    """Those whose current version was not read yet."""


def chosen_sources(names: Collection[str] | None = None) -> tuple[Source, ...]:
    """The sources of these names, or all. Raises UsageError for a name that is none."""
    if names is None:
        return tuple(SOURCES.values())
    if unknown := [name for name in names if name not in AGENTS]:
        raise UsageError(f"There is no agent {unknown[0]!a} here. Choose from: {', '.join(AGENTS)}.")
    return tuple(SOURCES[name] for name in names if name in SOURCES)


class Library:
    """The copies of one home. Use as an async context manager."""

    def __init__(
        self,
        home: Path,
        *,
        places: Places | None = None,
        redactor: Redactor | None = None,
        sources: Sequence[Source] | None = None,
        keeps: bool = True,
        apart: Callable[..., Awaitable[PreparedSession]] = asyncio.to_thread,
    ) -> None:
        """`home` is ours. `keeps` says whether a copy stays when its agent deletes the session.

        `apart` calls a function that blocks, which reads a session. It may raise BrokenExecutor.
        """
        self._apart = apart
        self.store = CopyStore(library_home(home))
        self._folder = library_home(home)
        self._records = Records(self._folder / RECORDS)
        self._home = home
        self._given_places = places
        self._redactor = redactor or Redactor()
        self._sources = {source.name: source for source in (chosen_sources() if sources is None else sources)}
        self._keeps = keeps

    async def __aenter__(self) -> Library:
        await self.store.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.store.__aexit__(*exc)

    async def records(self) -> dict[str, Record]:
        """Every known session by the id of its copy. Raises StoreError."""
        return await asyncio.to_thread(self._records.all)

    # -- updating ------------------------------------------------------------------------------------------------------

    async def find(self, told: Callable[[Progress], None] = lambda progress: None) -> Progress:
        """Find the sessions that are there now, and list them. `told` is called whenever some were listed.

        Raises StoreBusyError while another process does it, and StoreError.
        """
        async with self._alone():
            known = await self.records()
            records: dict[str, Record] = {}
            failed: set[str] = set()
            discovered = self._discovered(await self._places(known), failed)
            while group := await asyncio.to_thread(list, islice(discovered, GROUP)):
                first = {id: session for id, session in reversed(group) if id not in records}  # of two with the same id
                found = [_updated(known.get(id), id, session) for id, session in first.items()]
                records |= {record.id: record for record in found}
                await self._list(found, known)
                told(Progress(len(records), len(records)))
            forks = [
                replace(records[id], session=replace(records[id].session, parent_id=parent))
                for id, parent in _forks(records).items()
            ]
            records |= {record.id: record for record in forks}
            whole = self._sources.keys() - failed
            gone = [each for id, each in known.items() if id not in records and each.session.agent in whole]
            kept = [replace(record, is_gone=True, wrong="") for record in gone if await self._is_kept(record)]
            await self._list([*forks, *kept], known)
            await self._forget([record for record in gone if record.id not in {each.id for each in kept}])
        everything = [*records.values(), *kept]
        return Progress(len(everything), sum(record.is_pending for record in everything))

    async def _is_kept(self, record: Record) -> bool:
        """Whether the copy of a session stays that its agent has deleted."""
        return self._keeps and (record.was_read or (bool(record.wrong) and await self._has_events(record.id)))

    async def _has_events(self, id: str) -> bool:
        """Whether something of a session can be shown, perhaps an earlier version."""
        return any(info.event_count for info in await self.store.conversations(conversation_id=id))

    async def _list(self, records: Sequence[Record], known: Mapping[str, Record]) -> None:
        """Store what changed of these records."""
        changed = [record for record in records if record != known.get(record.id)]
        if changed:
            await self.store.put_facts(facts_of(record) for record in changed if not record.is_gone)
            await asyncio.to_thread(self._records.put, changed)

    async def read_pending(self, told: Callable[[Progress], None] = lambda progress: None) -> Progress:
        """Read every session whose current version was not read, the newest first.

        `told` is called whenever some were stored. Cancelling keeps what was stored. Raises StoreBusyError, StoreError.
        """
        async with self._alone():
            records = await self.records()
            pending = sorted(
                (each for each in records.values() if each.is_pending and each.session.agent in self._sources),
                key=lambda each: each.session.changed_ns,
                reverse=True,
            )
            left, ready, size = len(pending), list[PreparedSession](), 0
            async with aclosing(self._prepared(pending)) as prepared:
                async for each in prepared:
                    ready.append(each)
                    size += each.record.session.size
                    left -= 1
                    if size > TOGETHER_BYTES or len(ready) == TOGETHER or not left:
                        await self._store(ready)
                        ready, size = [], 0
                        told(Progress(len(records), left))
        return Progress(len(records), 0)

    async def read_now(self, id: str) -> Record:
        """Read one session whose copy is `id`, if it was not read in its current version.

        What it was read as before stays if it cannot be read now. Raises UsageError for an unknown id, StoreError.
        """
        record = await asyncio.to_thread(self._records.one, id)
        if record is None:
            raise UsageError(f"There is no session {id}. `handloom list --all-agents` shows all sessions.")
        source = self._sources.get(record.session.agent)
        if source is None or record.is_gone:
            return record
        places = await self._places(await self.records())
        current = await asyncio.to_thread(_current, source, places, record.session)
        if current is None:
            return record
        record = _updated(record, id, redacted(current, self._redactor))
        return await self._read(record) if record.is_pending else record

    async def read_beginning(self, id: str) -> bool:
        """Have the first events of a session that was never read, so that it can be shown while the rest is read.

        Returns whether there are events now; if not, it must be read as a whole. Raises StoreError.
        """
        record = await asyncio.to_thread(self._records.one, id)
        if record is None or record.was_read or record.is_gone:
            return True
        session = record.session
        if session.agent not in self._sources or session.row or session.path.suffix != ".jsonl":
            return False
        wanted = replace(record, session=replace(session, first_bytes=FIRST_BYTES))
        prepared = await asyncio.to_thread(prepare, self._sources[session.agent], wanted, self._redactor)
        await self.store.put_beginnings(prepared.copies)  # another process may have stored the whole session
        return bool(prepared.copies) or await self._has_events(id)

    async def forget(self, id: str) -> None:
        """Remove the copy of a session. One that is still there is found again. Raises StoreError."""
        record = await asyncio.to_thread(self._records.one, id)
        await self._forget([] if record is None else [record])

    async def _forget(self, records: Sequence[Record]) -> None:
        """Remove the copies of these sessions and of their branches."""
        for place in range(0, len(records), GROUP):
            some = records[place : place + GROUP]
            branches = [id for record in some if record.read_size >= 0 for id in branch_ids(record)]
            async with self._storing():
                await self.store.forget([*(record.id for record in some), *branches])
                await asyncio.to_thread(self._records.remove, [record.id for record in some])

    async def _read(self, record: Record) -> Record:
        await self._store([await self._prepare(record)])
        return await asyncio.to_thread(self._records.one, record.id) or record

    async def _prepare(self, record: Record) -> PreparedSession:
        source = self._sources[record.session.agent]
        try:
            return await self._apart(prepare, source, record, self._redactor)
        except BrokenExecutor:
            log.warning("the process that read session %r of %s ended", record.session.id, record.session.agent)
            failed = record.after_reading(wrong="the process that read it was ended by the system")
            return PreparedSession(failed, [], record.read_version)

    async def _prepared(self, records: Sequence[Record]) -> AsyncGenerator[PreparedSession, None]:
        """The sessions about in this order: some are read at the same time, and a large one does not hold up others."""
        waiting, ahead = deque(records), set[asyncio.Task[PreparedSession]]()
        try:
            while waiting or ahead:
                while waiting and len(ahead) < AHEAD:
                    ahead.add(asyncio.create_task(self._prepare(waiting.popleft())))
                done, ahead = await asyncio.wait(ahead, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    async def _store(self, sessions: Sequence[PreparedSession]) -> None:
        """Store what was read. Of a session whose values no column takes, only that it cannot be stored."""
        try:
            await self._put(sessions)
        except Exception as error:
            if not isinstance(error.__cause__ or error, ArithmeticError | ValueError | sqlite3.DataError):
                raise
            if len(sessions) > 1:
                for each in sessions:
                    await self._store([each])
                return
            (session,) = sessions
            record = session.record
            log.exception("session %r of %s was not stored", record.session.id, record.session.agent)
            why = f"it cannot be stored ({type(error.__cause__ or error).__name__})"
            failed = replace(record, wrong=why, read_tokens=0, read_cost=None)
            await self._put([replace(session, record=failed, copies=[])])

    async def _put(self, prepared: Sequence[PreparedSession]) -> None:
        """Store those that nobody else has read, or removed, since their reading began."""
        async with self._storing():
            versions = await asyncio.to_thread(self._records.read_versions, [each.record.id for each in prepared])
            await self._put_alone([each for each in prepared if versions.get(each.record.id) == each.before])

    async def _put_alone(self, sessions: Sequence[PreparedSession]) -> None:
        copies = [copy for each in sessions for copy in each.copies]
        await self.store.put_events(copies)
        stored = {copy.facts.id for copy in copies}
        read = (each.record for each in sessions if each.copies and each.before[0] >= 0)  # it may have had branches
        await self.store.forget([id for record in read for id in branch_ids(record) if id not in stored])
        await asyncio.to_thread(self._records.put, [each.record for each in sessions])

    async def _places(self, known: Mapping[str, Record]) -> Places:
        """Where agents look for their files; some have them in the folders in which people work."""
        places = self._given_places
        if places is None:
            async with EventReader(self._home) as ours:
                folders = {*await ours.listing.workspaces(), *await self.store.listing.workspaces()}
            places = Places.of_user(Path(folder) for folder in sorted(folders) if os.path.isabs(folder))
        sessions = [record.session for record in known.values() if not record.is_gone and not record.session.row]
        return replace(places, known={session.path: session for session in sessions})

    def _discovered(self, places: Places, failed: set[str]) -> Iterator[tuple[str, AgentSession]]:
        """Every session that is there, with the id of its copy.

        A source that fails is left out, logged, and added to `failed`; so is one with too many sessions.
        """
        for source in self._sources.values():
            try:
                for number, session in enumerate(source.discover(places)):
                    if number == MAX_SESSIONS:
                        raise Fault(f"there are more than {MAX_SESSIONS:,} sessions")
                    yield copy_id(session.agent, session.id), redacted(bounded(session), self._redactor)
            except Exception:  # one broken reader must not hide the sessions of the others
                log.exception("the sessions of %s could not be listed", source.title)
                failed.add(source.name)

    @asynccontextmanager
    async def _storing(self) -> AsyncIterator[None]:
        """While this is entered, no other process stores what it has read."""
        lock = FileLock(self._folder / _STORING)
        # not in a thread, which would take it also after this was cancelled
        while not lock.try_acquire():  # noqa: ASYNC110
            await asyncio.sleep(_WAIT_S)
        try:
            yield
        finally:
            lock.release()

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Raises StoreBusyError if another process updates the library."""
        lock = FileLock(self._folder / _LOCK)
        if not await asyncio.to_thread(lock.try_acquire):
            raise StoreBusyError("Another Handloom is reading the sessions of other agents. Wait until it is done.")
        try:
            yield
        finally:
            lock.release()  # at once, even if this is cancelled


def _forks(records: Mapping[str, Record]) -> dict[str, str]:
    """The parents of those sessions that begin like another, older one, by the id of the copy."""
    alike: dict[tuple[str, str], list[tuple[datetime, Record]]] = {}
    for record in records.values():
        session = record.session
        if session.beginning and (at := session.begun_at or session.started_at) is not None:
            alike.setdefault((session.agent, session.beginning), []).append((at, record))
    found: dict[str, str] = {}
    for group in alike.values():
        group.sort(key=lambda each: each[0])
        if len(group) > 1 and group[0][0] < group[1][0]:
            oldest = group[0][1].session.id
            found |= {record.id: oldest for _, record in group[1:] if record.session.parent_id in ("", oldest)}
    return found


def _current(source: Source, places: Places, session: AgentSession) -> AgentSession | None:
    """The session as it is now; None if it is gone."""
    try:
        found = next((found for found in source.discover(places) if found.id == session.id), None)
    except Exception:  # another session, which harms its reader
        log.exception("the sessions of %s could not be listed", source.title)
        return None
    return None if found is None else bounded(found)


def _updated(known: Record | None, id: str, session: AgentSession) -> Record:
    """The record of a session that was found, with what is known from reading it before."""
    if known is None:
        return Record(id, session)
    found = replace(session, parent_id=session.parent_id or known.session.parent_id)
    return replace(known, session=filled(found, known.session), is_gone=False)
