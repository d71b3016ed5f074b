"""UserAction: one action and exactly one observation, however it ends, then the last callback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from core.errors import StoreError
from core.events import CmdOutputObservation, CmdRunAction, Envelope, ErrorObservation, EventSource, Observation
from core.stream import EventStream, Frames
from core.user_control.user_actions import UNSTORED_STATUS, UserAction, UserActionContext
from tests.streams import heard, opened_stream

ACTION = CmdRunAction(command="ls")
CUT_SHORT = CmdOutputObservation(command="ls", content="cut")


async def _nothing() -> None: ...


class World:
    """Where the user acts."""

    def __init__(self, stream: EventStream) -> None:
        frames = Frames()
        self.told, self.ends = heard(frames), 0
        self.place = UserActionContext(stream, frames, _nothing, asyncio.ensure_future)
        self._stream = stream

    async def begun(
        self, carry_out: Callable[[int], Awaitable[Observation]], *, tells: bool = True
    ) -> tuple[Envelope, asyncio.Task[None]]:
        return await UserAction(ACTION, carry_out, lambda: CUT_SHORT, tells, self._end).begin(self.place)

    def _end(self) -> None:
        self.ends += 1

    async def answer(self) -> tuple[Observation, EventSource, int | None]:
        """The one observation of the log."""
        _, answer = await self._stream.read()
        assert isinstance(answer.event, Observation)
        return answer.event, answer.source, answer.cause


async def test_action_is_stored_before_it_starts_and_answered_before_it_ends(tmp_path: Path) -> None:
    async with opened_stream(tmp_path) as stream:
        world = World(stream)

        async def carry_out(action_id: int) -> Observation:
            assert [envelope.id for envelope in await stream.read()] == [action_id]
            return CmdOutputObservation(command="ls", content="a b")

        envelope, task = await world.begun(carry_out)
        assert (envelope.event, envelope.source) == (ACTION, EventSource.USER)
        await task
        answer = CmdOutputObservation(command="ls", content="a b")
        assert await world.answer() == (answer, EventSource.USER, envelope.id)
        assert (world.ends, world.told) == (1, [])


async def test_cancelled_action_is_answered_even_before_its_first_step(tmp_path: Path) -> None:
    async with opened_stream(tmp_path) as stream:
        world = World(stream)

        async def carry_out(action_id: int) -> Observation:
            await asyncio.Event().wait()
            raise AssertionError

        envelope, task = await world.begun(carry_out)
        task.cancel()
        await task
        assert await world.answer() == (CUT_SHORT, EventSource.USER, envelope.id)
        assert world.ends == 1


@pytest.mark.parametrize(("tells", "said"), [(True, "ValueError: hunter2"), (False, "ValueError")])
async def test_unexpected_error_is_stored_without_hidden_details(tmp_path: Path, tells: bool, said: str) -> None:
    async with opened_stream(tmp_path) as stream:
        world = World(stream)

        async def carry_out(action_id: int) -> Observation:
            raise ValueError("hunter2")

        _, task = await world.begun(carry_out, tells=tells)
        await task
        answer, _, _ = await world.answer()
        assert isinstance(answer, ErrorObservation)
        assert answer.content == said


class Full(EventStream):
    """A stream whose disk is full after the first event."""

    async def append(self, event, source, cause=None):  # type: ignore[no-untyped-def]
        if cause is not None:
            raise StoreError("The disk is full.")
        return await super().append(event, source, cause)


async def test_unstorable_observation_is_reported(tmp_path: Path) -> None:
    async with opened_stream(tmp_path, kind=Full) as stream:
        world = World(stream)

        async def carry_out(action_id: int) -> Observation:
            return CUT_SHORT

        _, task = await world.begun(carry_out)
        await task
        assert world.told == [("error", UNSTORED_STATUS, "The disk is full.")]
        assert world.ends == 1
