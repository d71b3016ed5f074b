"""The batch of another process: reads its ledger while it runs and afterwards, and asks its driver for something.

Each commit of the driver and each request changes the times of the lock file, and the end of the driver closes it,
whatever ended it: whoever watches that file misses nothing. All functions block.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from core.batch.ledger import DATABASE, LOCK, VERSION, TaskState
from core.batch.requests import DRIVER, DriverState, RequestKind
from core.errors import ExitStatus, StoreError
from core.store.database import sqlite3
from core.store.locks import is_running

_LINES = """
SELECT tasks.id, tasks.state, tasks.attempt, coalesce(attempts.state, ''), coalesce(conversation, ''), cost,
    coalesce(tokens_in, 0), coalesce(tokens_out, 0), substr(coalesce(reason, ''), 1, 300), began, ended,
    coalesce(worker, '')
FROM tasks LEFT JOIN attempts ON task = tasks.id AND number = attempt ORDER BY place
"""


class TaskLine(NamedTuple):
    """A task with its newest attempt, as it is in the ledger."""

    id: str
    state: str
    """A TaskState."""
    attempt: int
    """0 if it has none."""
    outcome: str
    """An AttemptState; empty if it has none."""
    conversation: str
    cost: float | None
    """US dollars; None while it runs, and if it is not known."""
    tokens_in: int
    tokens_out: int
    reason: str
    """Its beginning."""
    began: float | None
    """In seconds since 1970, as `ended`."""
    ended: float | None
    worker: str

    def seconds(self, now: float) -> float | None:
        """How long the attempt took, or takes so far."""
        return None if self.began is None else (now if self.ended is None else self.ended) - self.began


@dataclass(frozen=True, slots=True)
class Progress:
    """A batch at one moment."""

    tasks: list[TaskLine] = field(default_factory=list)
    """In the order of the list."""
    driver: DriverState = field(default_factory=DriverState)
    is_alive: bool = False
    """Whether a process works on it."""
    spent: float = 0.0
    """US dollars of all attempts that have ended."""
    tokens_in: int = 0
    tokens_out: int = 0
    asked: dict[str, str] = field(default_factory=dict)
    """The requests for tasks that the driver has not done yet: RequestKind by id."""

    counts: Counter[str] = field(default_factory=Counter)
    """How many tasks are in each state."""
    last_end: float = 0.0
    """When the last of the done and failed tasks ended, in seconds since 1970."""

    @property
    def status(self) -> ExitStatus:
        """The exit status of a batch on which no process works."""
        counts = self.counts
        if counts[TaskState.WAITING] or counts[TaskState.RUNNING]:
            is_interrupted = self.driver.status == ExitStatus.INTERRUPTED
            return ExitStatus.INTERRUPTED if is_interrupted else ExitStatus.LIMIT
        return ExitStatus.ERROR if counts[TaskState.FAILED] else ExitStatus.FINISHED

    def left_s(self, now: float) -> float | None:
        """About how many seconds the rest takes; None if that is not known, or nothing goes on.

        It is counted from the moment at which the last task ended, and then falls with the time.
        """
        ended = self.counts[TaskState.DONE] + self.counts[TaskState.FAILED]
        if not self.is_alive or self.driver.is_paused or ended == len(self.tasks):
            return None
        before, last = self.driver.before, self.last_end
        left = left_s(ended - before, len(self.tasks) - before, self.driver.began, lambda: last)
        return None if left is None or (left := left - (now - last)) < 0 else left


class ProgressReader:
    """Reads the ledger of a batch. A context manager; used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        """Raises StoreError."""
        self.folder = folder
        self._database = connect(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it. May be called twice."""
        self._database.close()

    def read(self) -> Progress:
        """Everything, as of one moment. Raises StoreError."""
        alive = is_alive(self.folder)  # before the ledger: what a driver that has just ended stored is there
        try:
            self._database.execute("BEGIN")
            try:
                return self._read(alive)
            finally:
                self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"The batch in {self.folder} cannot be read: {error}.") from error

    def _read(self, alive: bool) -> Progress:
        rows, asked = self._database.execute, dict[str, str]()
        (version,) = rows("PRAGMA user_version").fetchone()
        said = dict(rows("SELECT name, value FROM facts WHERE name = ?", (DRIVER,)))
        if version >= 2:
            wanted = (RequestKind.CANCEL.value, RequestKind.RETRY.value)
            asked = dict(rows("SELECT argument, kind FROM requests WHERE kind IN (?, ?) ORDER BY id", wanted))
        spent, tokens_in, tokens_out = rows(
            "SELECT coalesce(sum(cost), 0.0), coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0) FROM attempts"
        ).fetchone()
        tasks = [*map(TaskLine._make, rows(_LINES))]
        return Progress(
            tasks,
            DriverState.from_json(said.get(DRIVER, "{}")),
            alive,
            float(spent),
            int(tokens_in),
            int(tokens_out),
            asked,
            Counter(task.state for task in tasks),
            max((task.ended or 0.0 for task in tasks if task.state in (TaskState.DONE, TaskState.FAILED)), default=0.0),
        )


def connect(folder: Path, *, writes: bool = False) -> Any:
    """Open the ledger of a batch beside its driver. Raises StoreError."""
    try:
        mode = "rw" if writes else "ro"
        database = sqlite3.connect(
            f"file:{quote(str(folder / DATABASE))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        (version,) = database.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise StoreError(f"The batch in {folder} cannot be read: {error}.") from error
    if version > VERSION:
        database.close()
        raise StoreError(f"The batch in {folder} was written by a newer Handloom. Update this one, then try again.")
    return database


def is_alive(folder: Path) -> bool:
    """Whether a process works on the batch."""
    return is_running(folder, Path(LOCK).stem)


def ask(folder: Path, kind: RequestKind, argument: str = "") -> None:
    """Ask the driver of a batch for something, durably. Raises StoreError."""
    database = connect(folder, writes=True)
    try:
        row = (kind.value, argument, time.time())
        database.execute("INSERT INTO requests (kind, argument, asked) VALUES (?, ?, ?)", row)
    except sqlite3.Error as error:
        raise StoreError(f"The batch in {folder} cannot be asked: {error}.") from error
    finally:
        database.close()
    with suppress(OSError):
        os.utime(folder / LOCK)


def left_s(done: int, total: int, began: float, now: Callable[[], float] = time.monotonic) -> float | None:
    """About how many seconds the rest will take; None before the first task is done."""
    return (now() - began) / done * (total - done) if done > 0 else None
