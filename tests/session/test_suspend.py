"""Sleep: what is let go of and had again, and what becomes of the place where that fails."""

from __future__ import annotations

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
