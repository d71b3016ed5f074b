"""A task without a screen ends when the agent does, and not at the next look."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from core.events import AgentState, AgentStateChangedObservation, Envelope
from core.exit_status import ExitStatus
from core.headless import run_task
from core.manager.conversation_manager import ConversationManager
from core.settings.config import Settings
from runtime.local import LocalRuntime
from tests.doubles import FINISH, write_script

FREE = Settings.model_validate({"agent": {"confirm": "never"}})


async def nobody(envelope: Envelope) -> str | None:
    raise AssertionError("nothing is asked here")


async def test_a_run_ends_with_the_agent_and_not_at_the_next_look(tmp_path: Path) -> None:
    """Several times, for one who looks once a second would be there in time by chance."""
    late_s: list[float] = []
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=LocalRuntime, environ={}) as manager:
        for _ in range(5):
            finished_at: list[float] = []

            async def note(envelope: Envelope, finished_at: list[float] = finished_at) -> None:
                event = envelope.event
                if isinstance(event, AgentStateChangedObservation) and event.agent_state is AgentState.FINISHED:
                    finished_at.append(time.monotonic())

            session = await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, [FINISH]))
            status = await run_task(
                session, "go", on_event=note, on_notice=lambda text: None, ask=nobody, interrupted=asyncio.Event()
            )
            late_s.append(time.monotonic() - finished_at[0])
            assert status is ExitStatus.FINISHED
    assert max(late_s) < 0.2
