"""UserControl: whether the user does anything in the sandbox, and ending all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from core.events import Observation
from core.secrets import Redactor
from core.secrets.command_secrets import SecretInjection
from core.secrets.vault import Vault
from core.stream import Frames
from core.user_control.user_actions import UserActionContext
from core.user_control.user_control import UserControl
from tests.doubles import ScriptedRuntime
from tests.streams import opened_stream


async def at_once() -> None:
    """The sandbox is ready."""


BEGIN: dict[str, Callable[[UserControl], Awaitable[object]]] = {
    "commands": lambda user: user.commands.run("ls"),
    "terminal": lambda user: user.terminal.begin(24, 80),
    "browser": lambda user: user.browser.begin(),
}


@pytest.mark.parametrize("what", [[name] for name in BEGIN] + [list(BEGIN)])
async def test_interrupt_ends_and_answers_everything_the_user_does(tmp_path: Path, what: list[str]) -> None:
    runtime = ScriptedRuntime(lambda action: None)
    async with opened_stream(tmp_path) as stream:
        secrets = SecretInjection(Vault(tmp_path), Redactor(), "/w", "c")
        user = UserControl(runtime, secrets, UserActionContext(stream, Frames(), at_once, asyncio.create_task))
        assert not user.is_on
        for name in what:
            await BEGIN[name](user)
        async with asyncio.timeout(20):
            while len(runtime.executed) < len(what):
                await asyncio.sleep(0)
        assert user.is_on
        user.interrupt()
        async with asyncio.timeout(20):
            await user.commands.ended()
            await user.terminal.wait_for_return()
            await user.browser.settled()
        assert not user.is_on
        answers = [e.cause for e in await stream.read() if isinstance(e.event, Observation)]
        assert len(answers) == len(what)
