"""The agent's steps in the browser and the user's: who waits for whom, and what is not done any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.actions.middleware import share_browser
from core.actions.user_actions import UserActionContext
from core.actions.user_browser import ENDS_FIRST, NOT_DONE, WAITS, UserBrowser
from core.errors import RuntimeUnavailableError
from core.events import Action, BrowseInteractiveAction, BrowseURLAction, CmdRunAction, ErrorObservation, Observation
from core.pub_sub import Frames
from tests.actions.pipelines import through
from tests.doubles import ScriptedRuntime
from tests.streams import heard, opened_stream

CLICK = BrowseInteractiveAction(browser_actions="click('1')")
LATE = 10**6
"""The id of an action that was decided after whatever the user did."""
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
    """The ids of the notices; those that end one have a minus."""
    return [id if text else f"-{id}" for _, id, text in told]


async def step() -> None:
    """Let every task go on as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_while_the_user_has_the_browser_the_agents_step_waits_and_other_actions_do_not(tmp_path: Path) -> None:
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


async def test_a_step_that_waits_for_the_browser_can_be_interrupted(tmp_path: Path) -> None:
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
async def test_a_step_that_was_decided_before_the_user_acted_is_not_done(
    tmp_path: Path, action: Action, later: int, is_done: bool
) -> None:
    agents = ScriptedRuntime()
    async with browsing(tmp_path, agents) as (execute, users, _):
        await users.begin()
        await users.do("click('9')")
        await users.give_back()
        assert users.acted_until > 0
        observation = await execute(action, users.acted_until + later)
        assert bool(agents.executed) is is_done
        expected = ErrorObservation(content=NOT_DONE, error_id="AGENT_ERROR$USER_ACTED")
        assert (observation == expected) is not is_done


async def test_the_users_first_step_waits_for_the_end_of_the_agents_which_is_answered_after_the_user(
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


async def test_a_step_that_fails_or_is_cancelled_is_under_way_no_more(tmp_path: Path) -> None:
    answers: list[BaseException | None] = [RuntimeUnavailableError("Gone."), None, None]
    agents = ScriptedRuntime(lambda action: answers.pop(0))
    async with browsing(tmp_path, agents) as (execute, users, told):
        with pytest.raises(RuntimeUnavailableError):
            await execute(CLICK, LATE)
        await users.agent_is_done()
        assert told == []
        running, other = (asyncio.ensure_future(execute(CLICK, LATE)) for _ in range(2))
        await step()
        waiting = asyncio.create_task(users.agent_is_done())
        await step()
        running.cancel()
        await step()
        assert not waiting.done(), "the other one is still under way"
        other.cancel()
        await waiting
        assert ids(told) == [ENDS_FIRST, f"-{ENDS_FIRST}"]
        await asyncio.gather(running, other, return_exceptions=True)
