"""Running saved sessions again, from the workspace: begun, watched, and looked at afterwards.

A run is a conversation with a tab of its own; its screen comes up over it and can be left and opened again. What is
known of a run that goes on is kept here; one that is over is compared anew from the two logs.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from tui.dialogs.dialog import Choice, ChoiceScreen
from tui.dialogs.line_input import LineScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.rerun.alignment import Pairing
    from core.rerun.runner import Again
    from tui.workspace.context import Context


TO_THE_END, AT_FIRST, ELSEWHERE = "end", "first", "folder"


class Reruns:
    """The runs of this workspace."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self._runs: dict[str, Again] = {}
        """By the id of the conversation in which they run; what was closed meanwhile is told by its log."""

    def open_current(self) -> None:
        """Run the current conversation again."""
        if self._app.tabs.current is None:
            self._app.flash(_("There is no conversation to run again."))
        else:
            self._app.attempt(self.open(self._app.tabs.current.id))

    async def open(self, conversation_id: str) -> None:
        """Run a conversation again after a question how; of one that is a run itself, show what it came to.

        Raises HandloomError.
        """
        if self._app.manager is None:
            self._app.flash(_("Handloom is still starting."))
            return
        running = await asyncio.to_thread(import_module, "core.rerun.runner")
        infos = await self._app.manager.store.conversations(conversation_id=conversation_id)
        title = sanitize_line(infos[0].title or _("Untitled"), 60) if infos else ""
        again: Again | None = self._runs.get(conversation_id)
        if again is not None and any(tab.session is again.session for tab in self._app.tabs.conversations):
            await self._show_run(title, again.pairing, again)
            return
        if infos and infos[0].origin == "again":
            await self._show_run(title, await running.load(self._app.manager.store, conversation_id))
            return
        how = await self._app.push_screen_wait(ChoiceScreen(_("Run again: no model takes part"), _ways()))
        folder: str | None = ""
        if how == ELSEWHERE:
            folder = await self._app.push_screen_wait(LineScreen(_("Folder to run in"), _("Its files will be changed")))
        if how is None or folder is None or (how == ELSEWHERE and not folder.strip()):
            return
        again = await running.begin(
            self._app.manager, conversation_id, workspace=folder.strip(), stops_at_first=how == AT_FIRST
        )
        self._runs[again.session.id] = again
        await self._app.tabs.add(again.session)
        self._app.attempt(self._play(again))
        await self._show_run(title, again.pairing, again)

    async def _play(self, again: Again) -> None:
        """See a run through; its differences are told where nobody looks at it."""
        if not await again.play():
            self._runs.pop(again.session.id, None)
            return
        from tui.rerun.run_text import summary

        self._app.flash(_("Run again: {summary}.").format(summary=summary(again.pairing)))

    async def _show_run(self, title: str, pairing: Pairing, again: Again | None = None) -> None:
        screens = await asyncio.to_thread(import_module, "tui.rerun.screen")
        self._app.push_screen(screens.AgainScreen(title, pairing, again, self._app.attempt))


def _ways() -> list[Choice]:
    return [
        Choice(TO_THE_END, _("To the end"), _("In a copy of the workspace as it was at the beginning")),
        Choice(AT_FIRST, _("To the first difference"), _("In a copy, and wait there")),
        Choice(ELSEWHERE, _("In another folder"), _("Which you name; its files will be changed")),
    ]


ROWS = (
    Command("conv.again", (), "Run again", "Run the recorded actions again without a model, and compare the results.",
            Group.CONVERSATIONS, leader="A", slash="again", run=lambda app: app.reruns.open_current()),
)  # fmt: skip
