"""The question about a host that the sandbox refused: nothing waits for it, and Enter alone opens nothing."""

from __future__ import annotations

import pytest

from core.approval.network_access import OFFERS_STATUS, HostOffer
from core.events import AgentState, CmdRunAction, Status
from core.security.permissions import Scope
from tests.tui.workspace.running_app import Running, running


async def offer(it: Running, *hosts: str) -> None:
    await it.session.send("go")
    await it.session.become(agent_state=AgentState.RUNNING)
    it.session.network.offers = tuple(HostOffer(host, 1) for host in hosts)
    it.session.publish(Status("info", OFFERS_STATUS, ""))
    await it.settle()


async def read(it: Running) -> None:
    """Let the moments pass in which keys are ignored."""
    it.clock.now += 10
    await it.settle()


@pytest.mark.parametrize(
    ("keys", "wish"),
    [
        (["enter"], ("dismiss_host", "shop.example")),
        (["escape"], ("dismiss_host", "shop.example")),
        (["1", "enter"], ("allow_host", "shop.example", Scope.ONCE)),
        (["2", "enter"], ("allow_host", "shop.example", Scope.CONVERSATION)),
        (["up", "enter"], ("allow_host", "shop.example", Scope.PROJECT)),
    ],
)
async def test_keys_answer_the_offer(keys: list[str], wish: tuple[str, ...]) -> None:
    async with running() as it:
        await offer(it, "shop.example")
        text = it.screen_text()
        assert "Allow network access to shop.example?" in text
        assert "❯ 4 Do not allow" in text
        await read(it)
        await it.press(*keys)
        await it.settle()
        assert it.session.wishes[-1] == wish
        await read(it)
        assert it.app.workspace.question is None


async def test_next_host_follows_and_typed_text_is_a_message() -> None:
    async with running() as it:
        await offer(it, "shop.example", "mill.example")
        await read(it)
        await it.press("1", "enter")
        await read(it)
        assert "Allow network access to mill.example?" in it.screen_text()
        await it.press(*"stop", "enter")
        await it.settle()
        assert it.session.wishes[-1] == ("send", "stop")
        assert it.app.workspace.question is not None


async def test_action_that_waits_is_asked_about_first() -> None:
    async with running() as it:
        await it.session.hold(CmdRunAction(command="ls"))
        await offer(it, "shop.example")
        await it.session.hold(CmdRunAction(command="ls"))
        await it.settle()
        assert it.app.workspace.question is not None
        assert it.app.workspace.question.asked.action_id is not None
