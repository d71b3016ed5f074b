"""A task without a screen ends when the agent does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.conversations.conversation_manager import ConversationManager
from core.errors import ExitStatus
from core.events import Envelope
from core.headless import run_task
from core.settings.config import Settings
from tests.doubles import FINISH, write_script
from tests.stopped_clock import stopped_clock
from tests.warm_servers import WarmRuntime

FREE = Settings.model_validate({"agent": {"confirm": "never"}})


async def nobody(envelope: Envelope) -> str | None:
    raise AssertionError("nothing is asked here")


async def test_headless_run_ends_as_soon_as_the_agent_does(tmp_path: Path) -> None:
    """Who looks once in a while would need a timer for it, and no timer fires here."""

    async def note(envelope: Envelope) -> None:
        pass

    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, [FINISH]))
        with stopped_clock():
            status = await run_task(
                session, "go", on_event=note, on_notice=lambda text: None, ask=nobody, interrupted=asyncio.Event()
            )
        assert status is ExitStatus.FINISHED
