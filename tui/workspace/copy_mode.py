"""Copy mode: one pane fills the screen, and the mouse is the terminal's, to select with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _
from tui.terminal_io import escapes

if TYPE_CHECKING:
    from tui.app import HandloomApp

COPY_MODE = _("Copy mode: the mouse belongs to the terminal. Select and copy as it does; Esc leaves.")


class CopyMode:
    """Copy mode, on or off."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._before: tuple[str, bool] | None = None
        """The pane that was looked at, and whether it was maximised."""

    @property
    def is_on(self) -> bool:
        """Whether one pane fills the screen and the mouse is the terminal's."""
        return self._before is not None

    def toggle(self) -> None:
        """Enter copy mode, or leave it."""
        if self.leave():
            return
        workspace = self._app.workspace
        self._before = (workspace.active_pane, workspace.maximised_pane)
        workspace.add_class("-copying")
        workspace.maximised_pane = True
        workspace.show_pane(workspace.active_pane)
        workspace.flash(COPY_MODE)
        self._app.emit(escapes.MOUSE_OFF)

    def leave(self) -> bool:
        """Leave copy mode. Returns whether it was on."""
        if self._before is None:
            return False
        (pane, maximised), self._before = self._before, None
        workspace = self._app.workspace
        workspace.remove_class("-copying")
        workspace.active_pane, workspace.maximised_pane = pane, maximised
        workspace.arrange_panes()
        workspace.flash("")
        workspace.main_input.focus()
        self._app.emit(escapes.MOUSE_ON)
        return True
