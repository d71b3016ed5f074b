"""HistoryCondenser in whole conversations: by hand, by size, with a model that fails, and interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.controller.decide import fold
from core.conversations.conversation_manager import ConversationManager
from core.errors import UsageError
from core.events import AgentState, CondensationAction, CondensationRequestAction, Envelope
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.doubles import bash, call, write_script
from tests.warm_servers import WarmRuntime

SUMMARY: dict[str, Any] = {"text": "They echoed numbers.", "usage": {"prompt_tokens": 70, "completion_tokens": 9}}


@asynccontextmanager
async def conversation(
    tmp_path: Path, steps: int, summary: dict[str, Any], **condenser: Any
) -> AsyncIterator[AgentSession]:
    """A conversation with a scripted model and another one that writes summaries."""
    settings = Settings.model_validate(
        {
            "agent": {"confirm": "never"},
            "llm": {"summary_model": write_script(tmp_path, [summary], "summary.yaml")},
            "condenser": {"max_size": 20, **condenser},
            "sandbox": {"checkpoints": False, "plugins": ()},
        }
    )
    turns = [{"tool_calls": [bash(f"echo {n}")]} for n in range(steps)]
    turns += [{"tool_calls": [call("finish", message=f"Done {n}.")]} for n in range(3)]
    (tmp_path / "w").mkdir()
    async with ConversationManager(tmp_path / "home", settings, make_runtime=WarmRuntime, environ={}) as manager:
        yield await manager.create(workspace=str(tmp_path / "w"), model=write_script(tmp_path, turns))


async def settled(session: AgentSession) -> list[Envelope]:
    async with asyncio.timeout(60):
        await session.settled()
    return await session.stream.read()


def condensations(events: list[Envelope]) -> list[CondensationAction]:
    return [e.event for e in events if isinstance(e.event, CondensationAction)]


async def test_automatic_condensation_continues_work_and_keeps_the_log(tmp_path: Path) -> None:
    async with conversation(tmp_path, 30, SUMMARY) as session:
        await session.send("echo numbers")
        events = await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
        found = condensations(events)
        assert 3 <= len(found) <= 6
        assert {action.summary for action in found} == {"They echoed numbers."}
        requests = [e.event for e in events if isinstance(e.event, CondensationRequestAction)]
        assert {request.why for request in requests} == {"full"}
        usage = session.state.metrics.accumulated_token_usage
        assert (usage.prompt_tokens, usage.completion_tokens) == (70 * len(found), 9 * len(found))
        spent = await session._store.spent()
        assert spent.tokens == 79 * len(found)
        assert fold(events, session.state.limits) == session.state


async def test_compacting_at_rest_wakes_no_agent(tmp_path: Path) -> None:
    async with conversation(tmp_path, 6, SUMMARY) as session:
        with pytest.raises(UsageError, match="nothing to compact"):
            await session.compact()
        await session.send("echo numbers")
        before = len(await settled(session))
        await session.compact("the third number")
        events = await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
        (action,) = condensations(events[before:])
        assert action.summary == "They echoed numbers."
        iteration = session.state.iteration
        await session.send("go on")
        await settled(session)
        assert session.state.iteration == iteration + 1
        assert fold(await session.stream.read(), session.state.limits) == session.state


@pytest.mark.parametrize(
    ("summary", "note"),
    [({**SUMMARY, "fault": "server_error"}, "The provider failed"), ({**SUMMARY, "text": "x " * 90_000}, "longer")],
    ids=["error", "too long"],
)
async def test_failed_summary_loses_no_work(tmp_path: Path, summary: dict[str, Any], note: str) -> None:
    async with conversation(tmp_path, 14, summary) as session:
        await session.send("echo numbers")
        events = await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
        found = condensations(events)
        assert found
        assert all(action.summary is None and note in action.note for action in found)


async def test_slow_summary_can_be_interrupted_and_is_repeated_first(tmp_path: Path) -> None:
    async with conversation(tmp_path, 14, {**SUMMARY, "first_token_s": 3600}) as session:
        await session.send("echo numbers")
        async with asyncio.timeout(60):
            while session.state.asked is None or not isinstance(
                (await session.stream.read(after=session.state.asked - 1, limit=1))[0].event, CondensationRequestAction
            ):
                await session.changed()
        await session.interrupt()
        events = await settled(session)
        assert session.state.agent_state is AgentState.STOPPED
        assert condensations(events) == []
        write_script(tmp_path, [SUMMARY], "summary.yaml")
        await session.resume()
        assert condensations(await settled(session))
        assert str(session.state.agent_state) == "finished"
