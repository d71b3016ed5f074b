"""Models in whole conversations: by task, by agent, switched, recorded and replayed, with helpers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError
from core.events import AgentState, Frame, MessageAction, Status
from core.llm.router import ROUTE_STATUS
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script

ONE_STEP: list[dict[str, Any]] = [{"text": "I look.", "tool_calls": [bash("work")]}, FINISH]


@asynccontextmanager
async def house(
    tmp_path: Path, home: str = "home", environ: Mapping[str, str] | None = None, **settings: Any
) -> AsyncIterator[ConversationManager]:
    said = Settings.model_validate({"agent": {"confirm": "never"}, **settings})
    async with ConversationManager(
        tmp_path / home, said, make_runtime=lambda workspace: ScriptedRuntime(), environ=environ or {}
    ) as manager:
        yield manager


async def work(session: AgentSession, text: str = "go") -> list[str]:
    """Send a message and wait until the agent rests. Returns the notices."""
    told: list[str] = []

    def note(frame: Frame) -> None:
        if isinstance(frame, Status) and frame.id == ROUTE_STATUS and frame.message:
            told.append(frame.message)

    stop = session.frames.watch(note)
    await session.send(text)
    await session.settled()
    stop()
    return told


async def said(session: AgentSession) -> list[str]:
    """The messages of the agent."""
    return [e.event.content for e in await session.stream.read() if isinstance(e.event, MessageAction)]


async def test_recorded_conversation_replays_without_the_model(tmp_path: Path) -> None:
    cassette, script = tmp_path / "c.jsonl", write_script(tmp_path, ONE_STEP)
    async with house(tmp_path, llm={"record": str(cassette)}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=script)
        await work(session)
        recorded = [type(envelope.event) for envelope in await session.stream.read()]
    (tmp_path / "script.yaml").unlink()
    async with house(tmp_path, home="another") as manager:
        session = await manager.create(workspace=str(tmp_path), model=f"cassette:{cassette}")
        await work(session)
        assert [type(envelope.event) for envelope in await session.stream.read()] == recorded
        assert session.state.agent_state is AgentState.FINISHED
        other = await manager.create(workspace=str(tmp_path), model=f"cassette:{cassette}")
        await work(other, "something else")
        assert "differs from what was recorded: message 2 (user)." in other.state.reason
        assert "something else" in other.state.reason


async def test_recording_over_an_existing_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("mine")
    async with house(tmp_path, llm={"record": str(tmp_path / "c")}) as manager:
        with pytest.raises(ConfigurationError, match="is not overwritten"):
            await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, ONE_STEP))
        assert await manager.list() == []


async def test_fallback_model_answers_with_a_notice(tmp_path: Path) -> None:
    broken = write_script(tmp_path, [{"fault": "server_error"}, *[{"fault": "server_error"}] * 3], "broken.yaml")
    models = {"main": {"model": broken, "fallbacks": ["spare"]}, "spare": {"model": write_script(tmp_path, ONE_STEP)}}
    async with house(tmp_path, models=models) as manager:
        session = await manager.create(workspace=str(tmp_path), model="main")
        told = await work(session)
        assert session.state.agent_state is AgentState.FINISHED
        assert told[0].startswith("main failed; spare answers instead. The provider failed, on every attempt.")
        assert session.active_model.name == "main"


async def test_switched_model_gives_the_next_answer(tmp_path: Path) -> None:
    one = write_script(tmp_path, [{"text": "One speaks."}, {"text": "One again."}], "one.yaml")
    two = write_script(tmp_path, [{"text": "Never."}, {"text": "Two speaks."}], "two.yaml")
    async with house(tmp_path, models={"second": {"model": two}}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=one)
        await work(session)
        await session.active_model.switch("second")
        await work(session, "on")
        assert (await said(session))[1::2] == ["One speaks.", "Two speaks."]
        with pytest.raises(ConfigurationError, match="is not a model name"):
            await session.active_model.switch("third")
        assert session.active_model.name == "second"
        (info,) = await manager.list()
        assert info.model == "second"


async def test_key_of_a_named_model_is_redacted_in_events(tmp_path: Path) -> None:
    secret = "canary-0123456789-of-a-section"
    script = write_script(tmp_path, [{"text": f"The key is {secret}."}])
    models = {"main": {"model": script, "key_env": "MY_OWN_KEY"}}
    async with house(tmp_path, environ={"MY_OWN_KEY": secret}, models=models) as manager:
        session = await manager.create(workspace=str(tmp_path), model="main")
        await work(session)
        assert secret not in str(await session.stream.read())
