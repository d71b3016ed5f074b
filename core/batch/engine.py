"""Engine: what carries out the attempts of a batch. The driver decides; an engine only runs what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from core.batch.ledger import Ended
from core.batch.tasks import BatchTask


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to carry out."""

    task: BatchTask
    number: int
    """Counts from 1."""
    folder: Path
    """Its own folder, which does not exist yet."""

    @property
    def key(self) -> tuple[str, int]:
        """The task's id and the number, which no other attempt of the batch has."""
        return self.task.id, self.number


@dataclass(frozen=True, slots=True)
class ConversationBegan:
    """The conversation of an attempt has an id."""

    attempt: Attempt
    conversation: str
    worker: str
    """Which machine works on it."""


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """An attempt ended, and its files are in its folder."""

    attempt: Attempt
    ended: Ended


EngineEvent = ConversationBegan | AttemptEnded


class Engine(Protocol):
    """Runs attempts. Each one that was submitted ends with an AttemptEnded.

    A second AttemptEnded is one that came late, from a worker that was given up; the ledger refuses it.
    """

    @property
    def capacity(self) -> int:
        """How many attempts can run at once."""
        ...

    @property
    def where(self) -> str:
        """Where attempts run, for the ledger: `local`, or the cluster."""
        ...

    def submit(self, attempt: Attempt) -> None:
        """Begin an attempt. Returns at once."""
        ...

    async def next_event(self) -> EngineEvent:
        """The next event. Cancelling loses none."""
        ...

    def cancel(self, attempt: Attempt | None = None) -> None:
        """Interrupt one attempt, or everything that runs; each ends soon, as `interrupted`."""
        ...

    async def aclose(self) -> None:
        """Release everything. May be called twice."""
        ...
