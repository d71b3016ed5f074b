"""Slots and suspension: which conversation is suspended for another, and what it releases and restores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.errors import ConfigurationError, UsageError
from core.events import Status
from core.session.suspend import TOO_MANY, Slots, Suspension
from core.stream import Frames
from tests.streams import heard


class Parts:
    """A suspension with one slot, whose sandbox fails to end; records what it releases and restores."""

    is_warming_up = False

    def __init__(self) -> None:
        self.frames, self.slots, self.closed = Frames(), Slots(1, {}), asyncio.Event()
        self.notices = heard(self.frames)
        self.calls: list[str] = []
        self.reopen_error: Exception | None = None
        self.is_idle, self.brings_work, self.closes_meanwhile = True, False, False
        parts = cast("Any", self)
        self.suspension = Suspension(
            info=cast("Any", SimpleNamespace(id="a", parent="")),
            slots=self.slots,
            stream=parts,
            frames=self.frames,
            consent=parts,
            setup=parts,
            model=parts,
            closed=self.closed,
            is_idle=lambda: self.is_idle,
        )

    async def settle(self) -> None:
        """The last event reaches the subscribers, and may give the agent work."""
        self.is_idle = self.is_idle and not self.brings_work

    async def warmed_up(self) -> None:
        """The sandbox brings no files."""

    def require(self) -> None:
        """The conversation was not imported."""

    async def snapshot(self) -> None:
        self.calls.append("snapshot")

    async def rest(self) -> None:
        self.calls.append("sandbox")
        raise RuntimeError("it is stuck")

    async def aclose(self) -> None:
        self.calls.append("model")

    async def reopen(self) -> None:
        self.calls.append("reopened")
        if self.reopen_error is not None:
            raise self.reopen_error
        if self.closes_meanwhile:
            self.closed.set()

    async def suspend(self, notice: Status = TOO_MANY) -> None:
        assert await self.suspension.suspend(notice, self.snapshot)

    async def resume(self) -> None:
        async with self.suspension.awake():
            pass


async def test_suspending_releases_the_slot_and_everything_else_even_if_one_part_fails() -> None:
    parts = Parts()
    await parts.slots.take("a")
    assert not parts.suspension.is_on
    await parts.suspend()
    assert parts.suspension.is_on
    assert parts.calls == ["snapshot", "sandbox", "model"]
    assert parts.notices == [(TOO_MANY.level, TOO_MANY.id, TOO_MANY.message)]
    await parts.slots.take("b")


async def test_resuming_takes_a_slot_and_clears_the_notice_once() -> None:
    parts = Parts()
    await parts.resume()
    assert (parts.calls, parts.notices) == ([], []), "it was awake"
    await parts.suspend(Status("error", "X", "suspended"))
    await parts.resume()
    await parts.resume()
    assert not parts.suspension.is_on
    assert parts.calls == ["snapshot", "sandbox", "model", "reopened"]
    assert parts.notices == [("error", "X", "suspended"), ("error", "X", "")]
    with pytest.raises(UsageError, match="All 1 conversations"):
        await parts.slots.take("b")


async def test_conversation_that_cannot_resume_stays_suspended_without_a_slot() -> None:
    parts = Parts()
    await parts.suspend()
    parts.reopen_error = ConfigurationError("The model is gone.")
    with pytest.raises(ConfigurationError, match="gone"):
        await parts.resume()
    assert parts.suspension.is_on
    await parts.slots.take("b")
    with pytest.raises(UsageError, match="All 1 conversations"):
        await parts.resume()


@dataclass
class Suspendable:
    """A conversation; with `is_busy`, it begins to work when it is suspended."""

    id: str
    slots: list[Slots]
    rests: bool = True
    rests_since: float = 0.0
    is_busy: bool = False
    notices: list[Status] = field(default_factory=list)

    async def suspend(self, notice: Status) -> bool:
        self.notices.append(notice)
        if not self.is_busy:
            self.slots[0].release(self.id)
        return not self.is_busy


async def three(limit: int, **changes: Mapping[str, object]) -> tuple[Slots, dict[str, Suspendable]]:
    """Conversations a, b and c, which came to rest in this order, in as many slots as there are."""
    holder: list[Slots] = []
    sessions = {id: Suspendable(id, holder, rests_since=n) for n, id in enumerate("abc")}
    holder.append(Slots(limit, sessions))
    for id in sessions:
        await holder[0].take(id)
    for id, change in changes.items():
        for name, value in change.items():
            setattr(sessions[id], name, value)
    return holder[0], sessions


def suspended_ids(sessions: dict[str, Suspendable]) -> list[str]:
    return [id for id, session in sessions.items() if session.notices]


async def test_nothing_is_suspended_while_a_slot_is_free() -> None:
    slots, sessions = await three(4)
    await slots.take("d")
    assert suspended_ids(sessions) == []
    await slots.take("e")
    assert suspended_ids(sessions) == ["a"]


@pytest.mark.parametrize(
    ("changes", "suspended"),
    [
        ({}, ["a"]),
        ({"a": {"rests_since": 9.0}}, ["b"]),
        ({"a": {"rests": False}}, ["b"]),
        ({"a": {"is_busy": True}}, ["a", "b"]),
    ],
)
async def test_longest_resting_conversation_is_suspended(
    changes: Mapping[str, Mapping[str, object]], suspended: list[str]
) -> None:
    slots, sessions = await three(3, **changes)
    await slots.take("d")
    assert suspended_ids(sessions) == suspended
    assert sessions[suspended[-1]].notices == [TOO_MANY]
    slots.release("d")
    slots.release("nobody")
    await slots.take("e")
    assert suspended_ids(sessions) == suspended, "the released slot is free"


async def test_suspended_conversation_is_not_suspended_again() -> None:
    slots, sessions = await three(3)
    await slots.take("d")
    await slots.take("e")
    assert [len(sessions[id].notices) for id in "abc"] == [1, 1, 0]


async def test_no_slot_is_given_while_all_conversations_work() -> None:
    slots, sessions = await three(3, **{id: {"rests": False} for id in "abc"})
    with pytest.raises(UsageError, match="All 3 conversations"):
        await slots.take("d")
    sessions["c"].rests = True
    await slots.take("d")
    assert suspended_ids(sessions) == ["c"]


async def test_slot_released_meanwhile_is_taken() -> None:
    slots, sessions = await three(3)

    class Closing(Suspendable):
        async def suspend(self, notice: Status) -> bool:
            slots.release(self.id)  # closed instead
            return False

    sessions.clear()
    sessions["a"] = Closing("a", [slots])
    await slots.take("d")
    with pytest.raises(UsageError):
        await slots.take("e")


async def test_nothing_is_undone_while_the_last_event_brings_work() -> None:
    parts = Parts()
    async with parts.suspension.at_rest():
        pass
    parts.brings_work = True
    with pytest.raises(UsageError, match="still working"):
        async with parts.suspension.at_rest():
            pass


async def test_conversation_that_is_closed_while_it_resumes_releases_what_it_took() -> None:
    parts = Parts()
    await parts.suspend()
    parts.closes_meanwhile = True
    with pytest.raises(UsageError, match="closed here"):
        await parts.resume()
    assert parts.calls[-2:] == ["reopened", "model"]
    await parts.slots.take("b")


async def test_nothing_is_undone_in_a_closed_conversation() -> None:
    parts = Parts()
    parts.closed.set()
    with pytest.raises(UsageError, match="closed here"):
        async with parts.suspension.at_rest():
            pass
