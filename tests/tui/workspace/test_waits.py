"""Waiting for the user: one look, one notification and one key for every reason."""

from __future__ import annotations

from typing import Any

import pytest
from textual import events

from core.controller.decide import RESTARTED
from core.controller.exit_reasons import Halt, HaltKind
from core.events import AgentState, CmdRunAction, Status, TaskTrackingAction, TaskTrackingObservation
from tests.tui.workspace.running_app import Running, running
from tui.terminal.model import WAITING_FOR_INPUT
from tui.workspace.conversation_status import Wait


async def approval(it: Running) -> None:
    await it.session.hold(CmdRunAction(command="ls"))


async def reads(it: Running) -> None:
    it.session.publish(Status("info", WAITING_FOR_INPUT, "The command is waiting for input."))


async def plan(it: Running) -> None:
    tasks: list[dict[str, Any]] = [{"id": "1", "title": "Look", "status": "todo"}]
    told = await it.session.stream.append_by_agent(TaskTrackingAction(command="plan", task_list=tasks))
    await it.session.stream.append_by_agent(TaskTrackingObservation(command="plan", task_list=tasks), cause=told.id)
    await it.session.become(agent_state=AgentState.AWAITING_USER_INPUT, planning=True)


def halted(kind: HaltKind, what: str, state: AgentState) -> Any:
    async def halt(it: Running) -> None:
        await it.session.become(agent_state=state, halt=Halt(kind, what))

    return halt


def comes_to(state: AgentState, reason: str = "") -> Any:
    async def come(it: Running) -> None:
        await it.session.become(agent_state=state, reason=reason)

    return come


KINDS = {
    Wait.APPROVAL: (approval, "needs approval"),
    Wait.INPUT: (reads, "a command waits for input"),
    Wait.PLAN: (plan, "a plan waits for approval"),
    Wait.KEY: (halted(HaltKind.MODEL, "authentication", AgentState.ERROR), "the model needs a key"),
    Wait.MODEL: (halted(HaltKind.MODEL, "server", AgentState.ERROR), "the model failed"),
    Wait.SANDBOX: (halted(HaltKind.SANDBOX, "", AgentState.ERROR), "the sandbox has stopped"),
    Wait.LIMIT: (halted(HaltKind.LIMIT, "budget", AgentState.PAUSED), "reached a limit"),
    Wait.STUCK: (halted(HaltKind.STUCK, "monologue", AgentState.PAUSED), "seems stuck in a loop"),
    Wait.ERROR: (comes_to(AgentState.ERROR), "error"),
    Wait.RESTART: (comes_to(AgentState.STOPPED, RESTARTED), "interrupted by a restart"),
    Wait.QUESTION: (comes_to(AgentState.AWAITING_USER_INPUT), "waiting for you"),
}
"""How each comes about, and its words."""


def test_every_kind_of_waiting_is_in_the_table() -> None:
    assert set(KINDS) == set(Wait)


@pytest.mark.parametrize("kind", Wait, ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("away", [True, False], ids=["away", "looking"])
async def test_every_kind_of_waiting_looks_alike_and_is_reached_by_one_key(
    kind: Wait, away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMUX", "KITTY_WINDOW_ID", "VTE_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM_PROGRAM", "WezTerm")
    begin, words = KINDS[kind]
    async with running() as it:
        asks = it.app.tabs.conversation
        assert asks is not None
        assert asks.waits_for is None, "nothing was said yet"
        await it.session.send("mend it")
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.settle()
        sent: list[str] = []
        monkeypatch.setattr(it.app, "emit", sent.append)
        if away:
            it.app.post_message(events.AppBlur())
            await it.settle()
        await begin(it)
        await it.settle()
        assert asks.waits_for is kind
        assert " 1 ◆" in it.screen_text().split("\n")[0]
        assert f"◆ {words}" in it.screen_text()
        assert it.app.title == "◆ mend it"
        notices = [sequence for sequence in sent if "]9;" in sequence]
        assert notices == ([f"\x1b]9;Handloom: mend it: {words}\x1b\\"] if away else [])
        question = it.app.workspace.question
        await it.press("ctrl+n")
        assert it.app.tabs.current is not asks
        assert it.app.title.endswith("· ◆ 1")
        await it.press("ctrl+x", "N")
        assert it.app.tabs.current is asks
        await it.settle()
        assert (it.app.workspace.question is None) == (question is None)
        assert it.prompt_has_focus
