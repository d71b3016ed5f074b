"""The help: every key, from the command table."""

from __future__ import annotations

import textwrap
from itertools import groupby

from textual.content import Content

from tui.commands import COMMANDS, Scope, all_keys


def help_text(width: int) -> Content:
    """The table for people, fitted to `width` cells."""
    parts: list[tuple[str, str]] = []
    keys = 24 if width >= 70 else 18
    for group, commands in groupby(COMMANDS, key=lambda command: command.group):
        parts.append((f"\n{group}\n", "bold $text-accent"))
        for command in commands:
            shown = ", ".join(all_keys(command))
            where = "" if command.scope is Scope.GLOBAL else f" ({command.scope})"
            parts.append((f"  {shown:<{keys}} ", "bold"))
            parts.append((f"{command.title}{where}\n", ""))
            indent = " " * (keys + 3)
            lines = textwrap.wrap(command.help, max(16, width - keys - 3))
            parts += [(f"{indent}{line}\n", "$text-muted") for line in lines]
    return Content.assemble(*parts)
