"""The command that runs a saved conversation again, and shows the results.

A run is a conversation with its own tab; its screen can be left and opened again. Runs in progress are kept here; an
earlier run is compared again from the two logs.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from tui.dialogs.dialog import Choice, ChoiceScreen, LineScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.rerun.alignment import Pairing
    from core.rerun.runner import Rerun
    from tui.workspace.context import Context


TO_THE_END, AT_FIRST, ELSEWHERE = "end", "first", "folder"


class Reruns:
    """The runs of this workspace."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self._runs: dict[str, Rerun] = {}
        """By the id of their conversation."""

    def open_current(self) -> None:
        if self._app.tabs.current is None:
            self._app.flash(_("There is no conversation to run again."))
        else:
            self._app.attempt(self.open(self._app.tabs.current.id))

    async def open(self, conversation_id: str) -> None:
        """Ask how, then run a conversation again; if it is a run itself, show its results.

        Raises HandloomError.
        """
        if self._app.manager is None:
            self._app.flash(_("Handloom is still starting."))
            return
        runner = await asyncio.to_thread(import_module, "core.rerun.runner")
        infos = await self._app.manager.store.conversations(conversation_id=conversation_id)
        title = sanitize_line(infos[0].title or _("Untitled"), 60) if infos else ""
        rerun: Rerun | None = self._runs.get(conversation_id)
        if rerun is not None and any(tab.session is rerun.session for tab in self._app.tabs.conversations):
            await self._show_run(title, rerun.pairing, rerun)
            return
        if infos and infos[0].origin == "again":
            await self._show_run(title, await runner.load(self._app.manager.store, conversation_id))
            return
        how = await self._app.push_screen_wait(ChoiceScreen(_("Run again without a model"), _choices()))
        folder: str | None = ""
        if how == ELSEWHERE:
            folder = await self._app.push_screen_wait(LineScreen(_("Folder to run in"), _("Its files will be changed")))
        if how is None or folder is None or (how == ELSEWHERE and not folder.strip()):
            return
        rerun = await runner.start_rerun(
            self._app.manager, conversation_id, workspace=folder.strip(), stop_at_difference=how == AT_FIRST
        )
        self._runs[rerun.session.id] = rerun
        await self._app.tabs.add(rerun.session)
        self._app.attempt(self._play(rerun))
        await self._show_run(title, rerun.pairing, rerun)

    async def _play(self, rerun: Rerun) -> None:
        """Play a run to its end, and show a summary."""
        if not await rerun.play():
            self._runs.pop(rerun.session.id, None)
            return
        from tui.rerun.comparison_sheet import summary

        self._app.flash(_("Run again: {summary}.").format(summary=summary(rerun.pairing)))

    async def _show_run(self, title: str, pairing: Pairing, rerun: Rerun | None = None) -> None:
        screens = await asyncio.to_thread(import_module, "tui.rerun.screen")
        self._app.push_screen(screens.RerunScreen(title, pairing, rerun, self._app.attempt))


def _choices() -> list[Choice]:
    return [
        Choice(TO_THE_END, _("To the end"), _("In a copy of the initial workspace")),
        Choice(AT_FIRST, _("To the first difference"), _("In a copy, and wait there")),
        Choice(ELSEWHERE, _("In another folder"), _("You choose it; its files will be changed")),
    ]


ROWS = (
    Command("conv.again", (), "Run again", "Run the recorded actions again without a model, and compare the results.",
            Group.CONVERSATIONS, leader="A", slash="rerun", run=lambda app: app.reruns.open_current()),
)  # fmt: skip
