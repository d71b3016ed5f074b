"""The command palette: every command, conversation and setting, found by name; a command's keys are on its right.

Commands come from the table at once. Conversations and settings are loaded when the palette is open, and follow
the commands as soon as they are known. Answers with `command:ID`, `conversation:ID` or `setting:NAME`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby

from tui.commands import BY_ID, COMMANDS, Command, all_keys
from tui.dialogs.search_list import Finder, Row, ranked
from tui.i18n import _

RECENT = 5
"""How many of the recently used commands are on top."""


class PaletteScreen(Finder):
    """Find anything that can be done, and do it."""

    TITLE_TEXT = _("Commands")
    COLUMN = 24
    PLACEHOLDER = _("What do you want to do? Commands, conversations and settings are found by their words.")

    def __init__(self, recent: Sequence[str], more: Callable[[], Awaitable[Sequence[Row]]]) -> None:
        """`recent` are ids of commands, the latest first; `more` gives the rows that are not commands."""
        super().__init__()
        self._recent = [BY_ID[id] for id in recent if id in BY_ID][:RECENT]
        self._more, self._others = more, [Row("", _("Loading conversations and settings …"))]

    def on_mount(self) -> None:
        """The commands are there; the rest is on its way."""
        super().on_mount()
        self.run_worker(self._load())

    async def _load(self) -> None:
        self._others = list(await self._more())
        self.show()

    def rows(self, query: str) -> Sequence[Row]:
        """Recent ones first, else by group; with a query, the best match first."""
        listed = [command for command in COMMANDS if command.in_palette]
        if query:
            recent = [command for command in self._recent if command in listed]
            rest = [command for command in listed if command not in recent]
            found = ranked(query, map(_row, [*recent, *rest]))
            return _by_name(query, found, ranked(query, (row for row in self._others if row.key)))
        rows: list[Row] = []
        if self._recent:
            rows += [Row("", _("Used last")), *map(_row, self._recent)]
        left = [command for command in listed if command not in self._recent]
        for group, commands in groupby(sorted(left, key=_place), key=lambda command: command.group):
            rows += [Row("", group), *map(_row, commands)]
        return [*rows, *self._others]


def _row(command: Command) -> Row:
    return Row(
        f"command:{command.id}",
        command.title,
        command.help,
        "  ".join(all_keys(command)),
        f"{command.group} {command.also}",
    )


def _by_name(query: str, *kinds: Sequence[Row]) -> list[Row]:
    """What is found by its name, kind after kind, before what is found by other words."""
    words = query.casefold().split()
    rows = [(row, all(word in row.title.casefold() for word in words)) for kind in kinds for row in kind]
    return [*(row for row, named in rows if named), *(row for row, named in rows if not named)]


def _place(command: Command) -> int:
    """Groups in the order of the table, each in one piece."""
    return next(number for number, other in enumerate(COMMANDS) if other.group == command.group)
