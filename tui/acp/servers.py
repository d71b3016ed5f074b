"""MCP servers that an editor names: accepted, and started only where the user has agreed to each in Handloom.

An editor takes them from its own settings or from the project's, and does not say from where; a server is a program
that runs as the user. So nothing here starts one: `note_on` is all that becomes of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from tui.display.text import sanitize_line
from tui.i18n import _

NAME_CELLS = 40
SHOWN = 10


def note_on(servers: Sequence[BaseModel]) -> str:
    """What to tell the user of them; empty where there are none."""
    names = [sanitize_line(str(getattr(server, "name", "")), NAME_CELLS) or "?" for server in servers]
    if not names:
        return ""
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    told = _(
        "The editor names MCP servers: {names}. They are not started from here; they need your consent in Handloom."
    )
    return told.format(names=shown)
