"""The one table of checks: name, what people read, and the function that looks.

To add a check, write its function in the room where it belongs, and its row here. Each has a thread of its own and
TIME_S; one that takes longer is told as a check that did not end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tui.doctor import engine, models, programs, remote, sandbox, screen, secrets, servers, storage
from tui.doctor.finding import Finding, Patient
from tui.i18n import _


class Check(NamedTuple):
    """A row of the table."""

    name: str
    """In JSON."""
    title: str
    """For people."""
    look: Callable[[Patient], Finding]
    """Blocks."""


CHECKS = (
    Check("version", "Handloom", programs.version),
    Check("settings", _("settings"), storage.settings),
    Check("database", _("database"), storage.database),
    Check("disk", _("disk"), storage.disk),
    Check("model", _("model"), models.model),
    Check("terminal", _("terminal"), screen.terminal),
    Check("clipboard", _("clipboard"), screen.clipboard),
    Check("walls", _("walls"), sandbox.walls),
    Check("engine", _("engine"), engine.engine),
    Check("image", _("image"), engine.sandbox_image),
    Check("containers", _("containers"), engine.containers),
    Check("remote", _("remote server"), remote.remote),
    Check("browser", _("browser"), programs.browser),
    Check("mcp", _("MCP servers"), servers.servers),
    Check("git", "git", programs.git),
    Check("ripgrep", "ripgrep", programs.ripgrep),
    Check("tmux", "tmux", programs.tmux),
    Check("secrets", _("secrets"), secrets.secrets),
)
