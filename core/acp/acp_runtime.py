"""The runtime of a conversation whose agent is another program: files in the sandbox, what it does itself beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.acp.acp_agent import PREFIX
from core.acp.agent_process import Link
from core.delegation.shared_runtime import SharedRuntime
from core.events import Action, MCPAction, MCPObservation, Observation
from core.protocols import FrameSink, Runtime
from core.sandbox_types import Denials

ALLOWED = "It is allowed. The other agent carries it out by itself, and tells what comes of it."


class BesideRuntime(SharedRuntime):
    """Implements core.protocols.Runtime with one that it owns, and ends the other agent's program with it."""

    def __init__(self, runtime: Runtime, link: Link) -> None:
        super().__init__(runtime)
        self._link = link

    @property
    def is_elsewhere(self) -> bool:  # type: ignore[override]
        return self._lender.is_elsewhere

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """As the runtime beside which it is."""
        self._lender.allow(host=host, folder=folder)

    def deny(self, denied: Callable[[], Denials]) -> None:
        """As the runtime beside which it is."""
        self._lender.deny(denied)

    def keep(self, folder: Path) -> None:
        """As the runtime beside which it is."""
        self._lender.keep(folder)

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """A permission is given and nothing else; what the other agent may not do itself is done in the sandbox."""
        if isinstance(action, MCPAction) and action.name.startswith(PREFIX):
            return MCPObservation(content=ALLOWED, name=action.name, arguments=action.arguments)
        return await self._lender.execute(action, action_id, on_frame)

    async def left_behind(self) -> list[str]:
        """As the runtime beside which it is."""
        return await self._lender.left_behind()

    async def came_back(self) -> list[str]:
        """As the runtime beside which it is."""
        return await self._lender.came_back()

    async def rest(self) -> None:
        """End the other agent's program; the next message starts it anew."""
        await self._link.aclose()
        await self._lender.rest()

    async def aclose(self) -> None:
        """End both."""
        await self._link.aclose()
        await self._lender.aclose()
