"""The state of a server: connecting, ready, failed or waiting for consent, and what it offers. Data only."""

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
"""Announcements for a server of a project that may not be started yet."""


class ServerState(StrEnum):
    """The state of a server."""

    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    CONSENT = "consent"
    """It is defined in a project's file, and the user has not approved its command."""
    OFF = "off"
    """It is disabled in the settings."""


@dataclass
class Server:
    """The state of one server, only changed by the supervisor."""

    spec: ServerSpec
    state: ServerState = ServerState.CONNECTING
    reason: str = ""
    """Why it failed; for a server that waits for consent, that its approved command has changed."""
    tools: list[Line] = field(default_factory=list)
    """The approved tools that are offered, by name."""
    changed: list[tuple[Line, str]] = field(default_factory=list)
    """Blocked tools, each with the description that was approved before; empty for a new tool."""
    left_out: list[str] = field(default_factory=list)
    has_resources: bool = False
    has_prompts: bool = False
    failures: int = 0
    told: str = ""
    """The last announcement, as long as it applies."""
    attempt: int = 0
    """Number of the current connection, so that late lines of an earlier one are ignored."""
    since: float = 0.0
    """When it last became ready, by the event loop's clock."""
    again: asyncio.TimerHandle | None = None

    @property
    def key(self) -> str:
        """Unique key of the server."""
        return self.spec.key


Listener = Callable[[Server, str], None]
"""Takes a changed server and an announcement, which may be empty."""


def name_of(server: Server, tool: Line) -> str:
    """Return the name of a tool for models."""
    return tool_name(server.spec.name, str(tool["name"]))
