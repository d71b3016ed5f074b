"""Ledger: what has become of each task of a batch, in `batch.db` of its folder.

One process at a time has it open; others read it, and add requests (`core.batch.requests`). Each method is one
transaction, so a killed driver leaves a state between two of them: attempts that were running are lost, and what was
accepted stays. A task is accepted once: the result of an attempt that is no longer the newest one of its task is stored
beside it and changes nothing. All methods block for the time of a commit, and raise StoreError.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from core.batch.requests import DRIVER, DriverState, Request
from core.batch.tasks import BatchTask, digest
from core.errors import StoreBusyError, StoreError, UsageError
from core.store.database import sqlite3

DATABASE, LOCK = "batch.db", "batch.lock"
DRIVER_ENDED = "The driver ended before the attempt did."
"""Why an attempt was lost that nobody waited for."""
VERSION = 3
_REQUESTS = """
CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, argument TEXT NOT NULL DEFAULT '', asked REAL NOT NULL
);
"""
_REWARDS = "ALTER TABLE attempts ADD COLUMN rewards TEXT NOT NULL DEFAULT '[]';"
_UPGRADES = {1: _REQUESTS, 2: _REWARDS}
"""What turns a database of each version into one of the next version."""
_SCHEMA = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tasks (
    id TEXT PRIMARY KEY, place INTEGER NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'waiting',
    attempt INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX tasks_by_state ON tasks (state, place);
CREATE TABLE attempts (
    task TEXT NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, worker TEXT NOT NULL, conversation TEXT NOT NULL
    DEFAULT '', began REAL NOT NULL, ended REAL, cost REAL, tokens_in INTEGER NOT NULL DEFAULT 0, tokens_out INTEGER
    NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '', PRIMARY KEY (task, number)
) WITHOUT ROWID;
{_REQUESTS}
{_REWARDS}
"""
CANCELLED = "Cancelled by the user."
"""The reason of an attempt that the user has cancelled. It ends as `interrupted`, and its task has failed."""


class TaskState(StrEnum):
    """What has become of a task."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """No attempt succeeded, and none will follow unless the user asks for one."""


class AttemptState(StrEnum):
    """How an attempt ended."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    """The check failed, or the agent gave up."""
    LIMIT = "limit"
    STUCK = "stuck"
    ERROR = "error"
    """The model, the sandbox or the disk failed."""
    LOST = "lost"
    """The driver or its worker ended."""
    STALLED = "stalled"
    """Nothing happened for a long time."""
    INTERRUPTED = "interrupted"
    LATE = "late"
    """Its result came when the task had a newer attempt, and was refused."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of an attempt."""

    state: AttemptState
    conversation: str = ""
    cost: float | None = 0.0
    """US dollars; None if a price is unknown."""
    tokens_in: int = 0
    tokens_out: int = 0
    reason: str = ""
    """Why it did not succeed, for the user."""
    rewards: tuple[float, ...] = ()
    """Of each step in an environment of BrowserGym."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task with its newest attempt."""

    task: BatchTask
    state: TaskState
    attempt: int
    """The number of its newest attempt; 0 if it has none."""
    ended: Ended | None = None
    """The result of that attempt; None if it has none, or while it runs."""
    seconds: float = 0.0
    """How long that attempt took, or takes so far."""
    worker: str = ""


class Ledger:
    """The ledger of one batch, opened for writing. A context manager."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Creates the folder. Raises StoreBusyError if another process works on this batch, StoreError."""
        self._clock = clock
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"The folder {folder} cannot be used: {error.strerror or error}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise StoreBusyError(
                f"Another process works on the batch in {folder}. Watch it with: handloom batch attach {folder}"
            ) from error
        try:
            self._database = _open(folder / DATABASE)
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it. May be called twice."""
        with suppress(sqlite3.Error):  # readers keep SQLite from writing it back to the file by itself
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._database.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    @contextmanager
    def _change(self) -> Iterator[Any]:
        try:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database
            os.utime(self._lock)  # tells those who watch
        except sqlite3.Error as error:
            raise StoreError(f"The batch cannot be stored: {error}. Free some space, then run it again.") from error

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def begin(self, tasks: Sequence[BatchTask], *, amend: bool = False) -> None:
        """Set the tasks; those of an earlier run must be the same, unless `amend` allows another list.

        Attempts that an earlier driver left running are lost, and their tasks wait again. Raises UsageError.
        """
        mark = digest([*tasks])
        with self._change() as database:
            known = dict(database.execute("SELECT name, value FROM facts")).get("tasks")
            if known is not None and known != mark and not amend:
                raise UsageError(
                    "The list of tasks has changed since this batch began. Pass --amend to use the new list: tasks "
                    "that are new are added, changed ones run again, and missing ones are not run."
                )
            if known != mark:
                self._replace(database, tasks)
                database.execute("INSERT OR REPLACE INTO facts VALUES ('tasks', ?)", (mark,))
            database.execute(
                "UPDATE attempts SET state = 'lost', ended = ?, reason = ? WHERE state = 'running'",
                (self._clock(), DRIVER_ENDED),
            )
            database.execute("UPDATE tasks SET state = 'waiting' WHERE state = 'running'")
            database.execute("DELETE FROM requests WHERE kind NOT IN ('cancel', 'retry')")  # they were for that driver

    def _replace(self, database: Any, tasks: Sequence[BatchTask]) -> None:
        before = dict(database.execute("SELECT id, body FROM tasks"))
        for place, task in enumerate(tasks):
            body = task.to_json()
            if task.id not in before:
                database.execute("INSERT INTO tasks (id, place, body) VALUES (?, ?, ?)", (task.id, place, body))
            else:
                database.execute(
                    "UPDATE tasks SET place = ?, state = CASE WHEN body = ? THEN state ELSE 'waiting' END, body = ? "
                    "WHERE id = ?",
                    (place, body, body, task.id),
                )
                del before[task.id]
        database.executemany("DELETE FROM tasks WHERE id = ?", ((id,) for id in before))

    def retry(self, states: Sequence[AttemptState] = ()) -> int:
        """Let failed tasks wait again: all, or those whose newest attempt ended in one of these states."""
        wanted = json.dumps([state.value for state in states or AttemptState])
        with self._change() as database:
            done = database.execute(
                "UPDATE tasks SET state = 'waiting' WHERE state = 'failed' AND EXISTS (SELECT 1 FROM attempts WHERE "
                "task = tasks.id AND number = tasks.attempt AND attempts.state IN (SELECT value FROM json_each(?)))",
                (wanted,),
            )
            return int(done.rowcount)

    # -- requests ------------------------------------------------------------------------------------------------------

    def requests(self) -> list[Request]:
        """What other processes have asked for and the driver has not done yet, in order. Only reads."""
        try:
            found = self._database.execute("SELECT id, kind, argument FROM requests ORDER BY id").fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"The batch cannot be read: {error}.") from error
        return [Request(*values) for values in found]

    def answered(self, ids: Sequence[int]) -> None:
        """Remove requests that have been done."""
        with self._change() as database:
            database.executemany("DELETE FROM requests WHERE id = ?", ((id,) for id in ids))

    def cancel(self, id: str) -> int | None:
        """Let a waiting task fail, with an attempt that ends before it begins. Returns its number; None if not."""
        with self._change() as database:
            found = database.execute("SELECT attempt FROM tasks WHERE id = ? AND state = 'waiting'", (id,)).fetchone()
            if found is None:
                return None
            number, now = int(found[0]) + 1, self._clock()
            database.execute(
                "INSERT INTO attempts (task, number, state, worker, began, ended, cost, reason) "
                "VALUES (?, ?, 'interrupted', '', ?, ?, 0.0, ?)",
                (id, number, now, now, CANCELLED),
            )
            database.execute("UPDATE tasks SET state = 'failed', attempt = ? WHERE id = ?", (number, id))
            return number

    def retry_task(self, id: str) -> bool:
        """Let a failed task wait again. Returns False if it has not failed."""
        with self._change() as database:
            done = database.execute("UPDATE tasks SET state = 'waiting' WHERE id = ? AND state = 'failed'", (id,))
            return bool(done.rowcount)

    def note_driver(self, state: DriverState) -> None:
        """Store what the driver says about itself."""
        with self._change() as database:
            database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (DRIVER, state.to_json()))

    # -- attempts ------------------------------------------------------------------------------------------------------

    def start(self, worker: str) -> tuple[BatchTask, int] | None:
        """Take the next task that waits, and begin its next attempt. Returns None if none waits."""
        with self._change() as database:
            found = database.execute(
                "SELECT id, body, attempt FROM tasks WHERE state = 'waiting' ORDER BY place LIMIT 1"
            ).fetchone()
            if found is None:
                return None
            id, body, before = found
            database.execute("UPDATE tasks SET state = 'running', attempt = ? WHERE id = ?", (before + 1, id))
            database.execute(
                "INSERT INTO attempts (task, number, state, worker, began) VALUES (?, ?, 'running', ?, ?)",
                (id, before + 1, worker, self._clock()),
            )
            return BatchTask.from_json(body), before + 1

    def note_began(self, id: str, attempt: int, conversation: str, worker: str) -> None:
        """Store the conversation of an attempt and its machine, as soon as they are known."""
        with self._change() as database:
            database.execute(
                "UPDATE attempts SET conversation = ?, worker = ? WHERE task = ? AND number = ?",
                (conversation, worker, id, attempt),
            )

    def end(self, id: str, attempt: int, ended: Ended, then: TaskState) -> bool:
        """Store the result of an attempt, and what becomes of its task. Returns False if it came too late."""
        with self._change() as database:
            current = database.execute(
                "SELECT 1 FROM tasks WHERE id = ? AND state = 'running' AND attempt = ?", (id, attempt)
            ).fetchone()
            state = ended.state if current else AttemptState.LATE
            database.execute(
                "UPDATE attempts SET state = ?, conversation = coalesce(nullif(?, ''), conversation), ended = ?, "
                "cost = ?, tokens_in = ?, tokens_out = ?, reason = ?, rewards = ? WHERE task = ? AND number = ?",
                (
                    *(state.value, ended.conversation, self._clock(), ended.cost, ended.tokens_in, ended.tokens_out),
                    *(ended.reason, json.dumps(ended.rewards), id, attempt),
                ),
            )
            if current:
                database.execute("UPDATE tasks SET state = ? WHERE id = ?", (then.value, id))
            return current is not None

    def attempts_of(self, id: str) -> int:
        """The number of attempts whose failure counts: not those that were lost or interrupted."""
        return self._count(id, "state NOT IN ('lost', 'interrupted', 'late')")

    def losses_of(self, id: str) -> int:
        """How many of a task's workers were lost while the driver lived."""
        return self._count(id, f"state = 'lost' AND reason <> '{DRIVER_ENDED}'")

    def _count(self, id: str, condition: str) -> int:
        found = self._database.execute(f"SELECT count(*) FROM attempts WHERE task = ? AND {condition}", (id,))  # noqa: S608
        (count,) = found.fetchone()
        return int(count)

    def lost_costs(self, costs: Mapping[str, float | None]) -> None:
        """Store what lost attempts have cost, by their conversations: the budget counts it, too."""
        with self._change() as database:
            lost = database.execute(
                "SELECT task, number, conversation FROM attempts WHERE state = 'lost' AND cost IS NULL"
            ).fetchall()
            for id, number, conversation in lost:
                cost = costs.get(conversation)
                if cost is not None:
                    database.execute("UPDATE attempts SET cost = ? WHERE task = ? AND number = ?", (cost, id, number))

    # -- reading -------------------------------------------------------------------------------------------------------

    def rows(self) -> list[TaskRow]:
        """All tasks in the order of their list."""
        return read_rows(self._database, self._clock())

    def counts(self) -> Counter[TaskState]:
        """How many tasks are in each state."""
        found = self._database.execute("SELECT state, count(*) FROM tasks GROUP BY state")
        return Counter({TaskState(state): count for state, count in found})

    def spent(self) -> float:
        """US dollars of all attempts, also of lost ones as far as they are known."""
        (cost,) = self._database.execute("SELECT coalesce(sum(cost), 0.0) FROM attempts").fetchone()
        return float(cost)


def read_rows(database: Any, now: float) -> list[TaskRow]:
    """All tasks of a ledger in their order, each with its newest attempt."""
    found = database.execute(
        "SELECT body, tasks.state, attempt, attempts.state, conversation, cost, tokens_in, tokens_out, reason, "
        "rewards, began, ended, worker FROM tasks LEFT JOIN attempts ON task = tasks.id AND number = attempt"
        " ORDER BY place"
    )
    return [_row(values, now) for values in found]


def _row(values: Sequence[Any], now: float) -> TaskRow:
    body, state, attempt, how, conversation, cost, tokens_in, tokens_out, reason, rewards, began, ended, worker = values
    result = None
    if how is not None and how != AttemptState.RUNNING:
        steps = tuple(json.loads(rewards))
        result = Ended(AttemptState(how), conversation, cost, tokens_in, tokens_out, reason, steps)
    seconds = 0.0 if began is None else (now if ended is None else ended) - began
    return TaskRow(BatchTask.from_json(body), TaskState(state), attempt, result, seconds, worker or "")


def _open(file: Path) -> Any:
    try:
        database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreError(f"{file} was written by a newer Handloom. Update this one, then try again.")
        if version == 0:
            database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT")
        for old in range(version or VERSION, VERSION):
            database.executescript(f"BEGIN; {_UPGRADES[old]} PRAGMA user_version = {old + 1}; COMMIT")
    except sqlite3.Error as error:
        raise StoreError(f"{file} cannot be opened: {error}.") from error
    return database
