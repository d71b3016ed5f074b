"""Closing and opening a conversation: in order, with its last events and its whole history."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.conversations.conversation_manager import ConversationManager
from core.events import (
    Action,
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentState,
    AgentStateChangedObservation,
    CmdOutputObservation,
    Envelope,
    EventSource,
    Frame,
    Observation,
    TerminalOutput,
)
from core.protocols import FrameSink
from core.sandbox_types import Say, silently
from core.settings.config import Settings
from core.store.event_store import EventStore
from core.store.writer import Draft
from core.stream import EventStreamSubscriber
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script
from tests.stopped_clock import stopped_clock
from tests.warm_servers import WarmRuntime

FREE = Settings.model_validate({"agent": {"confirm": "never"}})


async def test_subscribers_get_the_last_events_of_a_closing_conversation(tmp_path: Path) -> None:
    heard: list[Envelope] = []

    async def hear(envelope: Envelope) -> None:
        await asyncio.sleep(0)  # like a busy subscriber
        heard.append(envelope)

    def notice(frame: Frame) -> None:
        if isinstance(frame, TerminalOutput) and not frame.is_echo and b"begun" in frame.data:
            begun.set()

    begun = asyncio.Event()
    model = write_script(tmp_path, [{"tool_calls": [bash("echo begun; sleep 600")]}, FINISH])
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=model)
        session.stream.subscribe(EventStreamSubscriber.MAIN, hear, "test")
        session.frames.watch(notice)
        await session.send("go")
        async with asyncio.timeout(20):
            await begun.wait()
            await manager.close(session.info.id)
        stored = await manager.store.read(session.info.id)
    assert heard == [envelope for envelope in stored if envelope.id >= heard[0].id]
    assert [e.event.content for e in heard if isinstance(e.event, CmdOutputObservation)] == ["begun"]
    states = [e.event.agent_state for e in heard if isinstance(e.event, AgentStateChangedObservation)]
    assert states[-1] is AgentState.STOPPED


class SlowlyStarting(ScriptedRuntime):
    """A runtime whose start never ends until it is cancelled; records what happens to it."""

    def __init__(self) -> None:
        super().__init__()
        self.starting = asyncio.Event()
        self.notes: list[str] = []

    async def start(self, say: Say = silently) -> None:
        self.starting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.notes.append("interrupted")
            raise

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        self.notes.append("executed")
        return await super().execute(action, action_id, on_frame)

    async def aclose(self) -> None:
        self.notes.append("closed")


async def test_closing_interrupts_a_starting_sandbox(tmp_path: Path) -> None:
    runtime = SlowlyStarting()
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=lambda _: runtime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, [{"text": "Hm?"}]))
        await session.send("go")
        async with asyncio.timeout(20):
            await runtime.starting.wait()
            await session.settled()
        with stopped_clock():
            await session.aclose()
        assert runtime.notes == ["interrupted", "closed"]


async def test_reopened_conversation_with_delegates_has_its_whole_history(tmp_path: Path) -> None:
    model = write_script(tmp_path, [FINISH])
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=model)
        await session.send("go")
        async with asyncio.timeout(20):
            await session.settled()
        id = session.info.id
    async with EventStore(tmp_path / "home") as store:
        lease = await store.acquire(id)
        for _ in range(2):
            task = Draft(AgentDelegateAction(agent="CodeActAgent", inputs={"task": "t"}), EventSource.AGENT)
            (asked,) = await store.append(lease, [task])
            result = Draft(AgentDelegateObservation(content="done"), EventSource.AGENT, cause=asked.id)
            await store.append(lease, [result])
        stored = await store.read(id)
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        again = await manager.open(id)
        assert again.controller is not None
        assert list(await again.controller.history.until(len(stored))) == stored
        assert [envelope.id for envelope in stored] == list(range(len(stored)))
