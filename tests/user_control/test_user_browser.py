"""The browser between user and agent: who controls it, who waits, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.actions.middleware import share_browser
from core.errors import RuntimeUnavailableError, UsageError
from core.events import (
    Action,
    AgentState,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    BrowseURLAction,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    Observation,
    Status,
)
from core.memory.conversation_memory import build_messages
from core.protocols import FrameSink
from core.secrets import MIN_LENGTH
from core.session.agent_session import AgentSession
from core.store.event_store import EventStore
from core.stream import EventStream, Frames
from core.user_control.user_actions import UserActionContext
from core.user_control.user_browser import (
    ENDS_FIRST,
    INTERRUPTED,
    LOOK,
    MAX_WAITING,
    NOT_DONE,
    TAKEN,
    WAITS,
    UserBrowser,
)
from tests.actions.pipelines import through
from tests.doubles import FINISH, ScriptedRuntime, bash, gone
from tests.session.test_session import conversation, send_and_settle
from tests.streams import heard, opened_stream

HIDDEN = BrowseInteractiveAction.HIDDEN
PASSWORD = "correct horse & battery"


def page(action: Action) -> Observation | None:
    """A page that repeats all its input."""
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
    await session.user_control.browser.settled()
    await session.stream.settle()
    return [e for e in await session.stream.read() if e.event.kind in ("browse", "browse_interactive", "error")]


async def test_user_browser_actions_are_logged_and_read_by_the_model(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: ScriptedRuntime(page)) as session:
        await session.user_control.browser.begin()
        await session.user_control.browser.do("fill('7', 'Ada')")
        await session.user_control.browser.do("click('9')")
        await session.user_control.browser.give_back()
        events = await log(session)
        assert {envelope.source for envelope in events} == {EventSource.USER}
        actions = [e for e in events if isinstance(e.event, BrowseInteractiveAction)]
        assert [a.event.browser_actions for a in actions] == ["noop(1)", "fill('7', 'Ada')", "click('9')", "noop(1)"]  # type: ignore[attr-defined]
        assert [a.event.by_user for a in actions] == [True, True, True, False]  # type: ignore[attr-defined]
        assert [e.cause for e in events if isinstance(e.event, BrowserOutputObservation)] == [a.id for a in actions]
        assert session.state.agent_state is AgentState.AWAITING_USER_INPUT, "the agent was not woken up"
        assert not session.state.side_actions
        (message,) = [m["content"] for m in build_messages(await send_and_settle(session)) if m["role"] == "user"]
        assert "User acted in the browser:\nfill('7', 'Ada')" in message
        assert "The user gave the browser back." in message
        assert "the whole page" in message


async def test_hidden_text_reaches_the_sandbox_and_no_event(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(page)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        await session.user_control.browser.begin()
        await session.user_control.browser.do(f"fill('7', '{HIDDEN}')", PASSWORD)
        await session.user_control.browser.give_back()
        told = [a.hidden_text for a in runtime.executed if isinstance(a, BrowseInteractiveAction)]
        assert told == ["", PASSWORD, ""]
        written = " ".join(e.event.model_dump_json() for e in await log(session))
        assert "correct" not in written, "neither as it is nor in an address"
        assert "<secret_hidden>" in written
    for file in (tmp_path / "home").glob("handloom.db*"):
        assert PASSWORD.encode() not in file.read_bytes()


async def test_agent_waits_until_the_browser_is_given_back(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(page)
    turns = [{"tool_calls": [bash("make")]}, FINISH]
    async with conversation(tmp_path, turns, make_runtime=lambda _: runtime) as session:
        await session.user_control.browser.begin()
        await session.user_control.browser.settled()
        assert not session.rests, "it is not put to sleep under the user"
        await session.send("go")
        async with asyncio.timeout(20):
            while not session.state.running:
                await session.changed()
        for number in range(20):  # each is stored and carried out: time enough for an action that does not wait
            await session.user_control.browser.do(f"click('{number}')")
            await session.user_control.browser.settled()
        assert not any(isinstance(action, CmdRunAction) for action in runtime.executed)
        await session.user_control.browser.give_back()
        async with asyncio.timeout(20):
            await session.settled()
        assert any(isinstance(action, CmdRunAction) for action in runtime.executed)
        assert session.state.agent_state is AgentState.FINISHED


async def test_browser_is_taken_once_and_used_only_by_its_holder(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: ScriptedRuntime(page)) as session:
        with pytest.raises(UsageError, match="Take it over first"):
            await session.user_control.browser.do("click('1')")
        await session.user_control.browser.begin()
        with pytest.raises(UsageError, match="Give it back first"):
            await session.user_control.browser.begin()
        await session.user_control.browser.give_back()
        await session.user_control.browser.give_back()
        assert [e.event.by_user for e in await log(session) if isinstance(e.event, BrowseInteractiveAction)] == [
            True
        ] * 2


async def test_lost_sandbox_is_reported_and_the_browser_can_be_given_back(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: ScriptedRuntime(lambda _: gone())) as session:
        await session.user_control.browser.begin()
        await session.user_control.browser.do("click('1')")
        errors = [e.event for e in await log(session) if isinstance(e.event, ErrorObservation)]
        assert len(errors) == 2
        assert "has ended" in errors[0].content
        await session.user_control.browser.give_back()
        assert not session.user_control.browser.is_on


async def test_closing_answers_every_browser_step(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(lambda action: None)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        await session.user_control.browser.begin()
        await runtime.started.wait()
        await session.user_control.browser.do("click('1')")
        await session.aclose()
        async with asyncio.timeout(20):
            await session.user_control.browser.wait_for_return()
    async with EventStore(tmp_path / "home") as store:
        events = await store.read(session.id)
        actions = [e.id for e in events if isinstance(e.event, BrowseInteractiveAction)]
        answers = [e.cause for e in events if isinstance(e.event, ErrorObservation)]
        assert sorted(filter(None, answers)) == actions
        assert len(actions) == 2


def browse(calls: str) -> dict[str, object]:
    return {"name": "browser", "arguments": {"code": calls, "security_risk": "LOW"}}


async def test_running_agent_step_ends_before_the_first_user_step(
    tmp_path: Path,
) -> None:
    """The user's steps are in the log, and none is carried out meanwhile."""
    runtime = ScriptedRuntime(page)
    inner, may_end = runtime.execute, asyncio.Event()

    async def execute(action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        observation = await inner(action, action_id, on_frame)
        if isinstance(action, BrowseInteractiveAction) and action.browser_actions == "goto('http://a/')":
            await may_end.wait()
        return observation

    runtime.execute = execute  # type: ignore[method-assign]
    turns = [{"tool_calls": [browse("goto('http://a/')")]}, FINISH]
    async with conversation(tmp_path, turns, make_runtime=lambda _: runtime) as session:
        words: list[str] = []
        unwatch = session.frames.watch(lambda frame: words.append(frame.message) if isinstance(frame, Status) else None)
        await session.send("go")
        await runtime.started.wait()
        await session.user_control.browser.begin()
        await session.user_control.browser.do("click('1')")
        async with asyncio.timeout(20):
            while not any("ends first" in word for word in words):
                await asyncio.sleep(0)
        assert [a.browser_actions for a in runtime.executed] == ["goto('http://a/')"]  # type: ignore[attr-defined]
        may_end.set()
        await session.user_control.browser.settled()
        assert [a.browser_actions for a in runtime.executed][1:] == ["noop(1)", "click('1')"]  # type: ignore[attr-defined]
        answered = [e for e in await log(session) if e.source is EventSource.AGENT and isinstance(e.event, Observation)]
        assert not answered, "the agent goes on before it can read what the user did"
        await session.user_control.browser.give_back()
        async with asyncio.timeout(20):
            await session.settled()
        assert session.state.agent_state is AgentState.FINISHED
        unwatch()


async def test_agent_step_decided_before_user_actions_is_refused(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(page)
    turns = [{"tool_calls": [browse("click('9')")]}, {**FINISH, "expect": "not done: the user has acted"}]
    async with conversation(tmp_path, turns, make_runtime=lambda _: runtime) as session:
        await session.user_control.browser.begin()
        await session.send("go")
        async with asyncio.timeout(20):
            while not any(e.source is EventSource.AGENT for e in await log(session)):  # it has been decided
                await asyncio.sleep(0)
        await session.user_control.browser.do("click('1')")
        await session.user_control.browser.settled()
        await session.user_control.browser.give_back()
        async with asyncio.timeout(20):
            await session.settled()
        assert session.state.agent_state is AgentState.FINISHED, session.state.reason
        done = [a.browser_actions for a in runtime.executed if isinstance(a, BrowseInteractiveAction)]
        assert "click('9')" not in done


async def test_too_many_waiting_browser_steps_are_refused(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(lambda action: None)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        browser = session.user_control.browser
        assert (browser.is_on, browser.last_return_id) == (False, -1)
        await session.user_control.browser.begin()
        assert browser.is_on is True
        for number in range(MAX_WAITING - 1):
            await browser.do(f"click('{number}')")
        with pytest.raises(UsageError, match="The page is still busy"):
            await browser.do("click('one too many')")
        browser.interrupt()
        await browser.settled()
        assert browser.is_on is False
        assert len(await log(session)) == 2 * MAX_WAITING


async def test_page_counts_as_changed_only_if_the_user_acted(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: ScriptedRuntime(page)) as session:
        browser = session.user_control.browser
        await session.user_control.browser.begin()
        await browser.give_back()
        assert browser.last_return_id == -1
        assert not browser.is_on
        await session.user_control.browser.begin()
        await browser.do("click('1')")
        await browser.give_back()
        last = [e.id for e in await log(session) if isinstance(e.event, BrowseInteractiveAction)][-1]
        assert browser.last_return_id == last


# -- without a conversation around it ----------------------------------------------------------------------------------


@asynccontextmanager
async def alone(tmp_path: Path, runtime: ScriptedRuntime) -> AsyncIterator[tuple[UserBrowser, EventStream]]:
    async def ready() -> None:
        """The sandbox is ready."""

    async with opened_stream(tmp_path) as stream:
        yield UserBrowser(runtime, UserActionContext(stream, Frames(), ready, asyncio.create_task)), stream


def repeating(url: str, content: str) -> ScriptedRuntime:
    """A page with a fixed address and text."""
    seen = BrowserOutputObservation(url=url, trigger_by_action="browse_interactive", content=content)
    return ScriptedRuntime(lambda action: seen)


@pytest.mark.parametrize(
    ("hidden", "url", "content", "is_seen"),
    [
        ("correct horse", "http://a/", "it is correct horse", False),
        ("correct horse", "http://a/?q=correct%20horse", "", False),
        ("correct horse", "http://a/?q=correct+horse", "", False),
        ("x" * MIN_LENGTH, "http://a/", "x" * MIN_LENGTH, False),
        ("y" * (MIN_LENGTH - 1), "http://a/", "y" * (MIN_LENGTH - 1), True),
        ("", "http://a/", "plain", True),
    ],
)
async def test_hidden_text_is_redacted_until_the_browser_is_given_back(
    tmp_path: Path, hidden: str, url: str, content: str, is_seen: bool
) -> None:
    async with alone(tmp_path, repeating(url, content)) as (browser, stream):
        await browser.begin()
        await browser.do(f"fill('7', '{HIDDEN}')", hidden)
        await browser.do("click('1')")
        await browser.settled()
        pages = [e.event for e in await stream.read() if isinstance(e.event, BrowserOutputObservation)]
        seen = [(page.url, page.content) == (url, content) for page in pages]
        assert seen[1:] == [is_seen] * 2
        await browser.give_back()
        await browser.begin()
        await browser.settled()
        last = [e.event for e in await stream.read() if isinstance(e.event, BrowserOutputObservation)][-1]
        assert (last.url, last.content) == (url, content), "for another time it is a text like others"


async def test_user_steps_run_in_order_after_the_agent_step(tmp_path: Path) -> None:
    runtime, may_begin, may_end = ScriptedRuntime(page), asyncio.Event(), asyncio.Event()
    inner = runtime.execute

    async def execute(*given: Any) -> Observation:
        observation = await inner(*given)
        await may_end.wait()
        return observation

    async def agents() -> Observation:
        await may_begin.wait()
        return ErrorObservation(content="")

    runtime.execute = execute  # type: ignore[method-assign, assignment]
    async with alone(tmp_path, runtime) as (browser, stream):
        step = BrowseInteractiveAction(browser_actions="click('9')")
        agent = asyncio.create_task(browser.agent_step(step, 10**6, agents))
        await asyncio.sleep(0)
        await browser.begin()
        await browser.do("click('1')")
        for _ in range(20):
            await asyncio.sleep(0)
        assert runtime.executed == []
        may_begin.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(runtime.executed) == 1, "the second waits for the first"
        assert len(await stream.read()) == 2, "both are stored"
        giving = asyncio.create_task(browser.give_back())
        while len(await stream.read()) < 3:
            await asyncio.sleep(0)
        with pytest.raises(UsageError, match="Take it over first"):
            await browser.do("click('2')")
        await browser.give_back()
        assert browser.is_on, "it is on its way back"
        may_end.set()
        await giving
        assert not browser.is_on
        await agent
        assert [a.browser_actions for a in runtime.executed] == [LOOK, "click('1')", LOOK]
        acted = browser.last_return_id
        await browser.begin()
        await browser.give_back()
        assert browser.last_return_id == acted, "who only looked has not acted"
        thoughts = [e.event.thought for e in await stream.read() if isinstance(e.event, BrowseInteractiveAction)]
        back = BrowseInteractiveAction.GIVEN_BACK
        assert thoughts == [TAKEN, "", back, TAKEN, back]


async def test_interrupt_answers_every_step_and_gives_the_browser_back(tmp_path: Path) -> None:
    async with alone(tmp_path, ScriptedRuntime(lambda action: None)) as (browser, stream):
        await browser.begin()
        await browser.do("click('1')")
        browser.interrupt()
        await browser.wait_for_return()
        await browser.settled()
        assert browser.is_on is False
        answers = [e.event for e in await stream.read() if isinstance(e.event, ErrorObservation)]
        assert answers == [ErrorObservation(content=INTERRUPTED, error_id="AGENT_ERROR$INTERRUPTED")] * 2


CLICK = BrowseInteractiveAction(browser_actions="click('1')")
LATE = 10**6
"""The id of an action that was decided after the user's actions."""
Told = list[tuple[str, str, str]]
Execute = Callable[[Action, int], Awaitable[Observation]]


async def at_once() -> None:
    """The sandbox is ready."""


@asynccontextmanager
async def browsing(
    tmp_path: Path, agents: ScriptedRuntime, users: ScriptedRuntime | None = None
) -> AsyncIterator[tuple[Execute, UserBrowser, Told]]:
    """Both sides of one browser, whose steps are carried out apart, and the notices."""
    frames = Frames()
    async with opened_stream(tmp_path) as stream:
        place = UserActionContext(stream, frames, at_once, asyncio.create_task)
        side = UserBrowser(users or ScriptedRuntime(), place)
        yield through(share_browser, agents, user=SimpleNamespace(browser=side)), side, heard(frames)
        side.interrupt()
        await side.settled()


def ids(told: Told) -> list[str]:
    """The ids of the notices; a minus marks the end of one."""
    return [id if text else f"-{id}" for _, id, text in told]


async def step() -> None:
    """Let every task go on as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_only_browser_actions_wait_while_the_user_has_the_browser(tmp_path: Path) -> None:
    agents = ScriptedRuntime()
    async with browsing(tmp_path, agents) as (execute, users, told):
        await execute(CLICK, 0)
        assert (agents.executed, told) == ([CLICK], [])
        await users.begin()
        command = CmdRunAction(command="ls")
        await execute(command, 1)
        assert agents.executed == [CLICK, command]
        waiting = asyncio.ensure_future(execute(BrowseURLAction(url="http://a/"), LATE))
        await step()
        assert (len(agents.executed), ids(told)) == (2, [WAITS])
        await users.give_back()
        await waiting
        assert (len(agents.executed), ids(told)) == (3, [WAITS, f"-{WAITS}"])


async def test_waiting_browser_step_can_be_interrupted(tmp_path: Path) -> None:
    agents = ScriptedRuntime()
    async with browsing(tmp_path, agents) as (execute, users, told):
        await users.begin()
        waiting = asyncio.ensure_future(execute(CLICK, LATE))
        await step()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (agents.executed, ids(told)) == ([], [WAITS, f"-{WAITS}"])


@pytest.mark.parametrize(
    ("action", "later", "is_done"),
    [(CLICK, -1, False), (CLICK, 0, True), (CLICK, 1, True), (BrowseURLAction(url="http://a/"), -1, True)],
)
async def test_step_decided_before_user_actions_is_not_run(
    tmp_path: Path, action: Action, later: int, is_done: bool
) -> None:
    agents = ScriptedRuntime()
    async with browsing(tmp_path, agents) as (execute, users, _):
        await users.begin()
        await users.do("click('9')")
        await users.give_back()
        assert users.last_return_id > 0
        observation = await execute(action, users.last_return_id + later)
        assert bool(agents.executed) is is_done
        expected = ErrorObservation(content=NOT_DONE, error_id="AGENT_ERROR$USER_ACTED")
        assert (observation == expected) is not is_done


async def test_first_user_step_waits_for_the_agent_step(
    tmp_path: Path,
) -> None:
    may_end, users_runtime = asyncio.Event(), ScriptedRuntime()

    class Slow(ScriptedRuntime):
        async def execute(self, *given: object) -> object:  # type: ignore[override]
            observation = await super().execute(*given)  # type: ignore[arg-type]
            await may_end.wait()
            return observation

    async with browsing(tmp_path, Slow(), users_runtime) as (execute, users, told):
        first, second = (asyncio.ensure_future(execute(CLICK, LATE)) for _ in range(2))
        await step()
        await users.begin()
        await step()
        assert (users_runtime.executed, ids(told)) == ([], [ENDS_FIRST])
        may_end.set()
        await users.settled()
        assert len(users_runtime.executed) == 1
        assert ids(told)[:2] == [ENDS_FIRST, WAITS]
        assert f"-{ENDS_FIRST}" in ids(told)
        assert not first.done()
        assert not second.done()
        await users.give_back()
        await asyncio.gather(first, second)
        assert ids(told).count(f"-{WAITS}") == 2


async def test_failed_or_cancelled_step_is_no_longer_running(tmp_path: Path) -> None:
    answers: list[BaseException | None] = [RuntimeUnavailableError("Gone."), None, None]
    agents = ScriptedRuntime(lambda action: answers.pop(0))
    async with browsing(tmp_path, agents) as (execute, users, told):
        with pytest.raises(RuntimeUnavailableError):
            await execute(CLICK, LATE)
        await users._wait_for_agent()
        assert told == []
        running, other = (asyncio.ensure_future(execute(CLICK, LATE)) for _ in range(2))
        await step()
        waiting = asyncio.create_task(users._wait_for_agent())
        await step()
        running.cancel()
        await step()
        assert not waiting.done(), "the other one is still under way"
        other.cancel()
        await waiting
        assert ids(told) == [ENDS_FIRST, f"-{ENDS_FIRST}"]
        await asyncio.gather(running, other, return_exceptions=True)
