"""Sleep: what is let go of and had again, and what becomes of the place where that fails."""

from __future__ import annotations

import pytest

from core.errors import ConfigurationError, UsageError
from core.events import Status
from core.pub_sub import Frames
from core.session.slots import TOO_MANY, Places
from core.session.suspend import Sleep
from tests.streams import heard


class World:
    """A place, and what is let go of."""

    def __init__(self) -> None:
        self.frames, self.places = Frames(), Places(1, {})
        self.told = heard(self.frames)
        self.done: list[str] = []
        self.fails: Exception | None = None
        self.sleep = Sleep("a", self.places, self.frames, (self._breaks, self._lets_go), self._comes_back)

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
    await world.places.take("a")
    assert not world.sleep.is_on
    await world.sleep.fall(TOO_MANY)
    assert world.sleep.is_on
    assert world.done == ["sandbox", "model"]
    assert world.told == [(TOO_MANY.level, TOO_MANY.id, TOO_MANY.message)]
    await world.places.take("b")


async def test_woken_it_has_a_place_again_and_takes_the_notice_back_once() -> None:
    world = World()
    await world.sleep.wake()
    assert (world.done, world.told) == ([], []), "it was awake"
    await world.sleep.fall(Status("error", "X", "asleep"))
    await world.sleep.wake()
    await world.sleep.wake()
    assert not world.sleep.is_on
    assert world.done == ["sandbox", "model", "back"]
    assert world.told == [("error", "X", "asleep"), ("error", "X", "")]
    with pytest.raises(UsageError, match="All 1 conversations"):
        await world.places.take("b")


async def test_where_it_cannot_come_back_it_sleeps_on_and_has_no_place() -> None:
    world = World()
    await world.sleep.fall(TOO_MANY)
    world.fails = ConfigurationError("The model is gone.")
    with pytest.raises(ConfigurationError, match="gone"):
        await world.sleep.wake()
    assert world.sleep.is_on
    await world.places.take("b")
    with pytest.raises(UsageError, match="All 1 conversations"):
        await world.sleep.wake()
