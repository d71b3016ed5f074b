"""Slots and suspension: which conversation is suspended for another, and what it releases and gets back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from core.errors import ConfigurationError, UsageError
from core.events import Status
from core.pub_sub import Frames
from core.session.suspend import TOO_MANY, Resources, Slots
from tests.streams import heard


class World:
    """A place, and what is let go of."""

    def __init__(self) -> None:
        self.frames, self.slots = Frames(), Slots(1, {})
        self.told = heard(self.frames)
        self.done: list[str] = []
        self.fails: Exception | None = None
        self.sleep = Resources("a", self.slots, self.frames, (self._breaks, self._lets_go), self._comes_back)

    async def _breaks(self) -> None:
        self.done.append("sandbox")
        raise RuntimeError("it is stuck")

    async def _lets_go(self) -> None:
        self.done.append("model")

    async def _comes_back(self) -> None:
        self.done.append("back")
        if self.fails is not None:
            raise self.fails


async def test_it_gives_its_place_up_tells_so_and_lets_go_of_all_though_one_fails() -> None:
    world = World()
    await world.slots.take("a")
    assert not world.sleep.are_released
    await world.sleep.release(TOO_MANY)
    assert world.sleep.are_released
    assert world.done == ["sandbox", "model"]
    assert world.told == [(TOO_MANY.level, TOO_MANY.id, TOO_MANY.message)]
    await world.slots.take("b")


async def test_woken_it_has_a_place_again_and_takes_the_notice_back_once() -> None:
    world = World()
    await world.sleep.restore()
    assert (world.done, world.told) == ([], []), "it was awake"
    await world.sleep.release(Status("error", "X", "asleep"))
    await world.sleep.restore()
    await world.sleep.restore()
    assert not world.sleep.are_released
    assert world.done == ["sandbox", "model", "back"]
    assert world.told == [("error", "X", "asleep"), ("error", "X", "")]
    with pytest.raises(UsageError, match="All 1 conversations"):
        await world.slots.take("b")


async def test_where_it_cannot_come_back_it_sleeps_on_and_has_no_place() -> None:
    world = World()
    await world.sleep.release(TOO_MANY)
    world.fails = ConfigurationError("The model is gone.")
    with pytest.raises(ConfigurationError, match="gone"):
        await world.sleep.restore()
    assert world.sleep.are_released
    await world.slots.take("b")
    with pytest.raises(UsageError, match="All 1 conversations"):
        await world.sleep.restore()


@dataclass
class Suspendable:
    """A conversation; `is_busy` is one that begins to work when it is put to sleep."""

    id: str
    slots: list[Slots]
    rests: bool = True
    rests_since: float = 0.0
    is_busy: bool = False
    told: list[Status] = field(default_factory=list)

    async def suspend(self, notice: Status) -> bool:
        self.told.append(notice)
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


def asked(sessions: dict[str, Suspendable]) -> list[str]:
    return [id for id, session in sessions.items() if session.told]


async def test_while_there_is_a_place_nobody_sleeps_for_another() -> None:
    slots, sessions = await three(4)
    await slots.take("d")
    assert asked(sessions) == []
    await slots.take("e")
    assert asked(sessions) == ["a"]


@pytest.mark.parametrize(
    ("changes", "slept"),
    [
        ({}, ["a"]),
        ({"a": {"rests_since": 9.0}}, ["b"]),
        ({"a": {"rests": False}}, ["b"]),
        ({"a": {"is_busy": True}}, ["a", "b"]),
    ],
)
async def test_the_one_that_has_rested_longest_gives_its_place_up(
    changes: Mapping[str, Mapping[str, object]], slept: list[str]
) -> None:
    slots, sessions = await three(3, **changes)
    await slots.take("d")
    assert asked(sessions) == slept
    assert sessions[slept[-1]].told == [TOO_MANY]
    slots.release("d")
    slots.release("nobody")
    await slots.take("e")
    assert asked(sessions) == slept, "the place that was given up is free"


async def test_one_that_sleeps_already_is_not_asked_again() -> None:
    slots, sessions = await three(3)
    await slots.take("d")
    await slots.take("e")
    assert [len(sessions[id].told) for id in "abc"] == [1, 1, 0]


async def test_where_all_work_whoever_wants_a_place_is_told_so_and_has_none() -> None:
    slots, sessions = await three(3, **{id: {"rests": False} for id in "abc"})
    with pytest.raises(UsageError, match="All 3 conversations"):
        await slots.take("d")
    sessions["c"].rests = True
    await slots.take("d")
    assert asked(sessions) == ["c"]


async def test_a_place_that_somebody_gave_up_meanwhile_is_taken() -> None:
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
