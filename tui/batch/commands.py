"""The command that opens the screen of a batch, and what follows from its result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group, keyed
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_start import show_conversation

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.batch.screen import BatchState
    from tui.workspace.context import Context


class Batches:
    """The batch that this workspace shows."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self._state: BatchState | None = None

    def open(self, argument: str) -> None:
        """Open the batch in a folder; without one, the last one again, or one that the user names."""
        self._app.attempt(self._choose(argument.strip()))

    async def _choose(self, argument: str) -> None:
        if not argument and self._state is None:
            from tui.dialogs.dialog import LineScreen

            ask = LineScreen(_("Folder of the batch"), _("As given to --out"))
            typed: str | None = await self._app.push_screen_wait(ask)
            argument = (typed or "").strip()
            if not argument:
                return
        await self.show(await asyncio.to_thread(self._folder, argument) if argument else None)

    def _folder(self, argument: str) -> Path:
        return Path(self._app.options.workspace, Path(argument).expanduser())

    async def start(self, folder: Path) -> None:
        """Show the batch that the program was started for; the program ends with it if nothing else was opened."""
        await self.show(folder)

    async def show(self, folder: Path | None) -> None:
        """Show a batch; None for the last one. Raises HandloomError."""
        from core.batch.ledger import DATABASE
        from core.errors import UsageError

        screens = await asyncio.to_thread(import_module, "tui.batch.screen")
        if folder is not None and (self._state is None or self._state.folder != folder):
            if not await asyncio.to_thread((folder / DATABASE).is_file):
                text = _("There is no batch in {folder}. Name the folder that --out had.")
                raise UsageError(text.format(folder=sanitize_line(str(folder), 200)))
            self._state = screens.BatchState(folder)
        assert self._state is not None
        if self._app.manager is None:
            self._app.flash(_("Handloom is still starting."))
            return
        costs = screens.Costs(self._app.manager.store.home / "locks", self._read_costs)
        conversation = await self._app.push_screen_wait(screens.BatchScreen(self._state, costs))
        if conversation is not None:
            await show_conversation(self._app, conversation)
            self._app.flash(keyed(_("{conv.batch} returns to the batch.")))
        elif self._app.options.batch is not None and not self._app.tabs.all:
            await self._app.do("app.quit")
        elif self._app.options.batch is not None:
            self._app.flash(keyed(_("{conv.batch} returns to the batch, {app.quit} quits.")))

    async def _read_costs(self, ids: Sequence[str]) -> Mapping[str, float]:
        assert self._app.manager is not None
        store = self._app.manager.store
        infos = [info for id in ids for info in await store.conversations(conversation_id=id)]
        return {info.id: info.cost for info in infos if info.cost is not None}


def open_batch(app: HandloomApp, argument: str) -> None:
    """Open the screen of a batch."""
    app.batches.open(argument)


ROWS = (
    Command("conv.batch", (), "Batch", "Show a batch: pause it, cancel and retry tasks, open their conversations.",
            Group.CONVERSATIONS, leader="B", slash="batch", words="DIR", run_with=open_batch,
            also="tasks progress attach workers"),
)  # fmt: skip
