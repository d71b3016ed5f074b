"""The command palette: the command table, found by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.commands import COMMANDS, all_keys


class TablePalette(Provider):
    """The command table as the palette shows it."""

    def _commands(self) -> list[tuple[str, str, Callable[[], None]]]:
        app: Any = self.app

        def carry_out(command_id: str) -> Callable[[], None]:
            return lambda: app.attempt(app.do(command_id))

        return [
            (command.title, f"{', '.join(all_keys(command))}  {command.help}", carry_out(command.id))
            for command in COMMANDS
            if command.in_palette
        ]

    async def discover(self) -> Hits:
        """Everything, in the table's order."""
        for title, text, run in self._commands():
            yield DiscoveryHit(title, run, help=text)

    async def search(self, query: str) -> Hits:
        """What matches."""
        matcher = self.matcher(query)
        for title, text, run in self._commands():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, matcher.highlight(title), run, help=text)
