"""How a server stands: connecting, ready, failed or waiting for the user, and what it offers. Data alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from core.llm.host_protocol import Line
from core.mcp.cleanup import tool_name
from core.mcp.server_definitions import ServerSpec

CONSENT = "needs your consent before it starts (/mcp)"
CONSENT_AGAIN = "; its command, or a file that it names, has changed"
"""What is announced of a server of a project that may not start yet."""


class ServerState(StrEnum):
    """How a server stands."""

    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    CONSENT = "consent"
    """It stands in a project's file, and the user has not said yes to its command."""
    OFF = "off"
    """The settings have it not started."""


@dataclass
class Server:
    """A server as it stands; the supervisor alone changes it."""

    spec: ServerSpec
    state: ServerState = ServerState.CONNECTING
    reason: str = ""
    """Why it failed; of one that waits for consent, that its command is another than the one agreed to."""
    tools: list[Line] = field(default_factory=list)
    """Approved and offered, by name."""
    changed: list[tuple[Line, str]] = field(default_factory=list)
    """Blocked until approved, each with its description as it was approved; empty for one that is new."""
    left_out: list[str] = field(default_factory=list)
    has_resources: bool = False
    has_prompts: bool = False
    failures: int = 0
    told: str = ""
    """What was announced of it last, as long as it holds."""
    attempt: int = 0
    """Which connection it is, among all that were ever begun: the last words of an earlier one do not count."""
    since: float = 0.0
    """When it last became ready, by the clock of the loop."""
    again: asyncio.TimerHandle | None = None

    @property
    def key(self) -> str:
        """What it is called among all."""
        return self.spec.key


Listener = Callable[[Server, str], None]
"""Takes a server that has changed and what is to be announced of it; empty for what needs no words."""


def name_of(server: Server, tool: Line) -> str:
    """What models call a tool."""
    return tool_name(server.spec.name, str(tool["name"]))
