"""The command palette: opens it and carries out what is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.settings.commands import show_settings
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_start import show_conversation

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.dialogs.search_list import Row


class Palette:
    """The palette and its recently used commands."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._used: tuple[str, ...] = ()
        """Ids of commands, the latest first."""

    def open(self) -> None:
        from tui.palette.screen import PaletteScreen

        self._app.push_screen(PaletteScreen(self._used, self._load_rows), self._carry_out)

    def _carry_out(self, chosen: str | None) -> None:
        app = self._app
        kind, _colon, name = (chosen or "").partition(":")
        match kind:
            case "command":
                self._used = (name, *(used for used in self._used if used != name))
                app.attempt(app.do(name))
            case "conversation":
                app.attempt(show_conversation(app, name))
            case "setting":
                app.attempt(show_settings(app, name))

    async def _load_rows(self) -> Sequence[Row]:
        from tui.dialogs.search_list import Row

        manager = self._app.manager
        if manager is None:
            return []
        rows = [Row("", _("Open a recent conversation"))]
        for info in await manager.list(all=False):
            title = sanitize_line(info.title or _("Untitled"), 60)
            when = info.updated_at.astimezone().strftime(_("%d %b %H:%M"))
            note = sanitize_line(f"{when} · {info.model} · {info.workspace}", 120)
            rows.append(Row(f"conversation:{info.id}", title, note, _("conversation")))
        rows.append(Row("", _("Change a setting")))
        for setting in await manager.read_settings():
            about = sanitize_line(_(setting.help), 200)
            rows.append(Row(f"setting:{setting.name}", setting.name, about, _("setting")))
        return rows


ROWS = (
    Command("app.palette", ("ctrl+p",), "Command palette", "Find a command by its name.", Group.WORKSPACE,
            hint="commands", run=lambda app: app.palette.open()),
)  # fmt: skip
