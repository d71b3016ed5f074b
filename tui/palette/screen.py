"""The command palette: every command with its keys, every conversation and setting, found by name.

Commands come from the table; conversations and settings are loaded after the palette has opened. Returns `command:ID`,
`conversation:ID` or `setting:NAME`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tui.commands import BY_ID, COMMANDS, Command, all_keys, by_group
from tui.dialogs.search_list import Finder, Row, ranked
from tui.i18n import _

RECENT = 5
"""The number of recently used commands at the top."""


class PaletteScreen(Finder):
    """Finds commands, conversations and settings."""

    TITLE_TEXT = _("Commands")
    COLUMN = 24
    PLACEHOLDER = _("Search commands, conversations and settings")

    def __init__(self, recent: Sequence[str], load: Callable[[], Awaitable[Sequence[Row]]]) -> None:
        """`recent` has ids of commands, the latest first; `load` loads the other rows."""
        super().__init__()
        self._recent = [BY_ID[id] for id in recent if id in BY_ID][:RECENT]
        self._load_others, self._others = load, [Row("", _("Loading conversations and settings …"))]

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._load())

    async def _load(self) -> None:
        self._others = list(await self._load_others())
        self.show()

    def rows(self, query: str) -> Sequence[Row]:
        """Recent commands first, then all by group; with a query, the best match first."""
        listed = [command for command in COMMANDS if command.in_palette]
        if query:
            recent = [command for command in self._recent if command in listed]
            rest = [command for command in listed if command not in recent]
            return ranked(query, [*map(_row, [*recent, *rest]), *(row for row in self._others if row.key)])
        rows: list[Row] = []
        if self._recent:
            rows += [Row("", _("Recent")), *map(_row, self._recent)]
        left = [command for command in listed if command not in self._recent]
        for group, commands in by_group(left):
            rows += [Row("", group), *map(_row, commands)]
        return [*rows, *self._others]


def _row(command: Command) -> Row:
    return Row(
        f"command:{command.id}",
        command.title,
        command.help,
        "  ".join(all_keys(command)),
        f"{command.group} {command.words_found}",
    )
