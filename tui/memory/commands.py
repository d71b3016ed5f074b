"""What is forgotten and what is remembered: condense by hand, pin facts, see and delete them. A mixin of the app's
handlers."""

from __future__ import annotations

import asyncio

from tui.i18n import _
from tui.workspace.frame import Frame


class Remembering(Frame):
    """Memory, by the ids of the command table."""

    async def do_memory_compact(self, keep: str = "") -> None:
        if self.living is None:
            return
        await self.living.session.compact(keep)
        self.flash(_("What the model sees is condensed; the log keeps all of it."))

    async def do_memory_pin(self, text: str = "") -> None:
        await self._pin(text, self._here())

    async def do_memory_pin_all(self, text: str = "") -> None:
        await self._pin(text, "")

    def do_memory_list(self) -> None:
        self.attempt(self._show_memory())

    def _here(self) -> str:
        """The folder that a fact of this project holds for."""
        return self.living.session.info.workspace if self.living is not None else self.options.workspace

    async def _pin(self, text: str, workspace: str) -> None:
        from core.memory.saved_facts import SavedFacts

        if not text:
            self.do_memory_list()
        elif self.manager is not None:
            await asyncio.to_thread(SavedFacts(self.manager.store.home).add, text, workspace)
            self.flash(_("Remembered. Agents are told of it at the start of conversations."))

    async def _show_memory(self) -> None:
        from core.memory.saved_facts import SavedFacts
        from tui.dialogs.dialog import Choice, ChoiceScreen, SureScreen
        from tui.terminal_io.sanitizer import sanitize_line

        if self.manager is None:
            return
        pins = SavedFacts(self.manager.store.home)
        while True:
            facts = await asyncio.to_thread(pins.all)
            everywhere = _("everywhere")
            choices = [
                Choice(str(number), sanitize_line(fact.text, 300), sanitize_line(fact.workspace, 100) or everywhere)
                for number, fact in enumerate(facts, 1)
            ]
            empty = _("Nothing is remembered. /remember and a text pins a fact.")
            chosen = await self.push_screen_wait(ChoiceScreen(_("Memory: Enter forgets one"), choices, empty=empty))
            if chosen is None:
                return
            fact = facts[int(chosen) - 1]
            question = _("Forget “{fact}”?").format(fact=sanitize_line(fact.text, 100))
            if await self.push_screen_wait(SureScreen(question, _("forget it"))):
                await asyncio.to_thread(pins.forget, facts.index(fact) + 1)
