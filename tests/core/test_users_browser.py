"""The user takes the browser over: what stands in the log, what the agent reads, what stands nowhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.errors import UsageError
from core.events import (
    Action,
    AgentState,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    Observation,
)
from core.memory.prompt import build_messages
from core.session.agent_session import AgentSession
from core.store.event_store import EventStore
from tests.core.test_session import conversation, said_and_settled
from tests.doubles import FINISH, ScriptedRuntime, bash, gone

HIDDEN = BrowseInteractiveAction.HIDDEN
PASSWORD = "correct horse & battery"


def page(action: Action) -> Observation | None:
    """A page that repeats whatever it is told."""
    if isinstance(action, CmdRunAction):
        return CmdOutputObservation(command=action.command, content="ran")
    assert isinstance(action, BrowseInteractiveAction)
    said = action.hidden_text or ("" if action.by_user else "the whole page, with " + PASSWORD)
    return BrowserOutputObservation(
        url="http://a/?q=correct+horse+%26+battery" if said else "http://a/",
        trigger_by_action="browse_interactive",
        content=f"[Action executed successfully.] {said}",
        last_browser_action=action.browser_actions,
    )


async def log(session: AgentSession) -> list[Envelope]:
    await session.hands.browser.settled()
    await session.stream.settle()
    return [e for e in await session.stream.read() if e.event.kind in ("browse", "browse_interactive", "error")]


async def test_what_the_user_does_stands_in_the_log_as_theirs_and_the_model_reads_it(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: ScriptedRuntime(page)) as session:
        await session.take_browser()
        await session.hands.browser.do("fill('7', 'Ada')")
        await session.hands.browser.do("click('9')")
        await session.hands.browser.give_back()
        events = await log(session)
        assert {envelope.source for envelope in events} == {EventSource.USER}
        actions = [e for e in events if isinstance(e.event, BrowseInteractiveAction)]
        assert [a.event.browser_actions for a in actions] == ["noop(1)", "fill('7', 'Ada')", "click('9')", "noop(1)"]  # type: ignore[attr-defined]
        assert [a.event.by_user for a in actions] == [True, True, True, False]  # type: ignore[attr-defined]
        assert [e.cause for e in events if isinstance(e.event, BrowserOutputObservation)] == [a.id for a in actions]
        assert session.state.agent_state is AgentState.AWAITING_USER_INPUT, "the agent was not woken up"
        assert not session.state.errands
        (message,) = [m["content"] for m in build_messages(await said_and_settled(session)) if m["role"] == "user"]
        assert "User acted in the browser:\nfill('7', 'Ada')" in message
        assert "The user gave the browser back." in message
        assert "the whole page" in message


async def test_a_hidden_text_reaches_the_sandbox_and_no_event_whatever_the_page_does_with_it(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(page)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        await session.take_browser()
        await session.hands.browser.do(f"fill('7', '{HIDDEN}')", PASSWORD)
        await session.hands.browser.give_back()
        told = [a.hidden_text for a in runtime.executed if isinstance(a, BrowseInteractiveAction)]
        assert told == ["", PASSWORD, ""]
        written = " ".join(e.event.model_dump_json() for e in await log(session))
        assert "correct" not in written, "neither as it is nor in an address"
        assert "<secret_hidden>" in written
    for file in (tmp_path / "home").glob("handloom.db*"):
        assert PASSWORD.encode() not in file.read_bytes()


async def test_the_agent_waits_until_the_browser_is_given_back(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(page)
    turns = [{"tool_calls": [bash("make")]}, FINISH]
    async with conversation(tmp_path, turns, make_runtime=lambda _: runtime) as session:
        await session.take_browser()
        await session.hands.browser.settled()
        assert not session.rests, "it is not put to sleep under the user"
        await session.send("go")
        async with asyncio.timeout(20):
            while not session.state.running:
                await session.changed()
        for number in range(20):  # each is stored and carried out: time enough for an action that does not wait
            await session.hands.browser.do(f"click('{number}')")
            await session.hands.browser.settled()
        assert not any(isinstance(action, CmdRunAction) for action in runtime.executed)
        await session.hands.browser.give_back()
        async with asyncio.timeout(20):
            await session.settled()
        assert any(isinstance(action, CmdRunAction) for action in runtime.executed)
        assert session.state.agent_state is AgentState.FINISHED


async def test_who_has_it_cannot_take_it_and_who_has_it_not_cannot_act(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: ScriptedRuntime(page)) as session:
        with pytest.raises(UsageError, match="F12 takes it over"):
            await session.hands.browser.do("click('1')")
        await session.take_browser()
        with pytest.raises(UsageError, match="F12 gives it back"):
            await session.take_browser()
        await session.hands.browser.give_back()
        await session.hands.browser.give_back()
        assert [e.event.by_user for e in await log(session) if isinstance(e.event, BrowseInteractiveAction)] == [
            True
        ] * 2


async def test_a_sandbox_that_is_lost_is_said_and_the_user_can_go_on_or_give_back(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: ScriptedRuntime(lambda _: gone())) as session:
        await session.take_browser()
        await session.hands.browser.do("click('1')")
        errors = [e.event for e in await log(session) if isinstance(e.event, ErrorObservation)]
        assert len(errors) == 2
        assert "gone" in errors[0].content
        await session.hands.browser.give_back()
        assert not session.hands.browser.is_on


async def test_a_conversation_that_closes_meanwhile_answers_every_step(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(lambda action: None)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        await session.take_browser()
        await runtime.started.wait()
        await session.hands.browser.do("click('1')")
        await session.aclose()
        async with asyncio.timeout(20):
            await session.hands.browser.ended()
    async with EventStore(tmp_path / "home") as store:
        events = await store.read(session.id)
        actions = [e.id for e in events if isinstance(e.event, BrowseInteractiveAction)]
        answers = [e.cause for e in events if isinstance(e.event, ErrorObservation)]
        assert sorted(filter(None, answers)) == actions
        assert len(actions) == 2
