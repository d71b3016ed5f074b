"""A whole session of the agent without a screen: real store, real shell, a model that answers at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.conversations.conversation_manager import ConversationManager
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from runtime.local.local_runtime import LocalRuntime
from tests.doubles import FINISH, bash, write_script

FREE = Settings.model_validate({"agent": {"confirm": "never"}})


@asynccontextmanager
async def session_of(place: Path, steps: int, command: str = "true") -> AsyncIterator[AgentSession]:
    """A session whose agent will run `command` so many times, one a step, then finish. Its runtime runs already."""
    turns = [{"tool_calls": [bash(f"{command} # {n}")]} for n in range(steps)]  # the same again would be a loop
    model = write_script(place, [*turns, FINISH])
    async with ConversationManager(place / "home", FREE, make_runtime=LocalRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(place), model=model)
        await session.runtime.start()
        yield session
