"""Hands: whether the user has hold of anything in the sandbox, and letting go of all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from core.events import Observation
from core.pub_sub import Frames
from core.session.user_actions import Surroundings
from core.session.user_control import Hands
from tests.doubles import ScriptedRuntime
from tests.streams import opened_stream


async def at_once() -> None:
    """The sandbox is ready."""


BEGIN: dict[str, Callable[[Hands], Awaitable[object]]] = {
    "commands": lambda hands: hands.commands.run("ls"),
    "terminal": lambda hands: hands.terminal.begin(24, 80),
    "browser": lambda hands: hands.browser.begin(),
}


@pytest.mark.parametrize("what", [[name] for name in BEGIN] + [list(BEGIN)])
async def test_what_the_user_has_hold_of_is_let_go_of_and_answered(tmp_path: Path, what: list[str]) -> None:
    runtime, shell = ScriptedRuntime(lambda action: None), ScriptedRuntime(lambda action: None)
    async with opened_stream(tmp_path) as stream:
        hands = Hands(runtime, shell, Surroundings(stream, Frames(), at_once, asyncio.create_task))
        assert not hands.are_on
        for name in what:
            await BEGIN[name](hands)
        for used in [shell] * ("commands" in what) + [runtime] * (what != ["commands"]):
            await used.started.wait()
        assert hands.are_on
        hands.interrupt()
        async with asyncio.timeout(20):
            await hands.commands.ended()
            await hands.terminal.ended()
            await hands.browser.settled()
        assert not hands.are_on
        answers = [e.cause for e in await stream.read() if isinstance(e.event, Observation)]
        assert len(answers) == len(what)
