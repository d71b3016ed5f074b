"""The runtime of a conversation whose agent is another program: files are in the sandbox, the program is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.acp.acp_agent import PREFIX
from core.acp.agent_process import AgentProcess
from core.delegation.shared_runtime import SharedRuntime
from core.events import Action, MCPAction, MCPObservation, Observation
from core.protocols import FrameSink, Runtime
from core.sandbox_types import Denials

ALLOWED = "It is allowed. The other agent carries it out by itself, and tells what comes of it."


class ACPRuntime(SharedRuntime):
    """Wraps a runtime that it owns, and ends the other agent's program together with it."""

    def __init__(self, runtime: Runtime, link: AgentProcess) -> None:
        super().__init__(runtime)
        self._link = link

    @property
    def is_elsewhere(self) -> bool:  # type: ignore[override]
        return self._runtime.is_elsewhere

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Delegate to the wrapped runtime."""
        self._runtime.allow(host=host, folder=folder)

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Delegate to the wrapped runtime."""
        self._runtime.deny(denied)

    def keep(self, folder: Path) -> None:
        """Delegate to the wrapped runtime."""
        self._runtime.keep(folder)

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """Answer a permission without doing anything; execute any other action in the sandbox."""
        if isinstance(action, MCPAction) and action.name.startswith(PREFIX):
            return MCPObservation(content=ALLOWED, name=action.name, arguments=action.arguments)
        return await self._runtime.execute(action, action_id, on_frame)

    async def left_behind(self) -> list[str]:
        """Delegate to the wrapped runtime."""
        return await self._runtime.left_behind()

    async def came_back(self) -> list[str]:
        """Delegate to the wrapped runtime."""
        return await self._runtime.came_back()

    async def rest(self) -> None:
        """End the other agent's program; the next message starts it again."""
        await self._link.aclose()
        await self._runtime.rest()

    async def aclose(self) -> None:
        """Close the program and the runtime."""
        await self._link.aclose()
        await self._runtime.aclose()
