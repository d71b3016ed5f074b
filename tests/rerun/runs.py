"""Shared by the tests of reruns: a recorded session with real parts, and its rerun."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.conversations.conversation_manager import ConversationManager
from core.protocols import Checkpoints, Runtime
from core.rerun.runner import Rerun, start_rerun
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from runtime.checkpoints.checkpoint_store import WorkspaceCheckpoints
from tests.doubles import write_script
from tests.warm_servers import WarmRuntime

FREE = Settings.model_validate({"agent": {"confirm": "never"}})
LONG_S = 60


@asynccontextmanager
async def managing(
    tmp_path: Path,
    *,
    settings: Settings = FREE,
    make_runtime: Callable[[str], Runtime] = WarmRuntime,
    environ: Mapping[str, str] | None = None,
    keep: bool = True,
) -> AsyncIterator[ConversationManager]:
    """A manager with real shells, files and (where `keep`) checkpoints."""
    home = tmp_path / "home"

    def checkpoints(workspace: str, conversation_id: str) -> Checkpoints | None:
        return WorkspaceCheckpoints(home, workspace, conversation_id) if keep else None

    manager = ConversationManager(
        home, settings, make_runtime=make_runtime, make_checkpoints=checkpoints, environ=environ or {}
    )
    async with manager:
        yield manager


async def recorded(
    manager: ConversationManager, tmp_path: Path, turns: Sequence[dict[str, Any]], *says: str
) -> AgentSession:
    """A finished session: each text of `says` is a message, or a command of the user if it begins with `!`."""
    workspace = tmp_path / "workspace"
    await asyncio.to_thread(workspace.mkdir, exist_ok=True)
    session = await manager.create(workspace=str(workspace), model=write_script(tmp_path, turns))
    async with asyncio.timeout(LONG_S):
        for text in says or ("go",):
            if text.startswith("!"):
                await session.user_control.run_command(text[1:])
                await session.user_control.commands.ended()
            else:
                await session.send(text)
            await session.settled()
    return session


async def played(manager: ConversationManager, source: AgentSession, **how: Any) -> Rerun:
    """The run of a session, from its beginning to its end."""
    await manager.close(source.id)
    rerun = await start_rerun(manager, source.id, **how)
    async with asyncio.timeout(LONG_S):
        await rerun.play()
    return rerun
