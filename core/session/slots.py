"""Places: how many conversations of a process may be awake, and who sleeps for whom.

Awake is a conversation that has, or may at any moment start, a sandbox and a model. Where every place is taken, the one
that has rested longest is put to sleep and gives its place up. Invariant: one that works is never put to sleep; where
all of them work, whoever wants a place is told so. Used by the manager for a conversation that starts, and by a
session that wakes up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from core.errors import UsageError
from core.events import Status

TOO_MANY = Status(
    "error",
    "AGENT_ERROR$TOO_MANY_CONVERSATIONS",
    "Too many conversations at once. If you are still using this one, try reactivating it by prompting the agent to "
    "continue",
)
"""What a conversation that is put to sleep tells whoever shows it; V0's words."""


class Sleeper(Protocol):
    """A conversation that can be put to sleep."""

    @property
    def rests(self) -> bool:
        """Whether nothing is under way in it."""
        ...

    @property
    def rests_since(self) -> float:
        """When anything last happened in it."""
        ...

    async def sleep(self, notice: Status) -> bool:
        """Give the place up and fall asleep; False where it has begun to work meanwhile, and goes on."""
        ...


class Places:
    """At most `limit` conversations are awake. `sessions` has those that are started, by id."""

    def __init__(self, limit: int, sessions: Mapping[str, Sleeper]) -> None:
        self._limit = limit
        self._sessions = sessions
        self._taken: set[str] = set()
        self._turn = asyncio.Lock()

    async def take(self, conversation_id: str) -> None:
        """Have a place from now on, if need be another's. Raises UsageError where all of them work."""
        async with self._turn:
            while len(self._taken) >= self._limit:
                await self._free_one()
            self._taken.add(conversation_id)

    def give(self, conversation_id: str) -> None:
        """Give the place up; who has none gives nothing."""
        self._taken.discard(conversation_id)

    async def _free_one(self) -> None:
        """Put the one to sleep that has rested longest."""
        awake = [session for id, session in self._sessions.items() if id in self._taken and session.rests]
        for session in sorted(awake, key=lambda session: session.rests_since):
            if await session.sleep(TOO_MANY):
                return
        if len(self._taken) >= self._limit:  # nobody was closed meanwhile either
            raise UsageError(
                f"All {self._limit} conversations that may be awake at once are at work. Wait for one, interrupt or "
                "close one, or raise the setting conversations.max_concurrent."
            )
