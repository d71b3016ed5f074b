"""Trust of folders and the knowledge that counts, on the screen. A mixin of the app's handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.i18n import _
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.trust.trust_store import TrustState
    from tui.trust.screen import TrustScreen


class FolderTrust(Frame):
    """The commands for trust and knowledge, by their ids of the command table."""

    async def ask_trust(self, folder: str) -> None:
        """Ask once about what a folder brings, before a conversation begins there. Raises ConfigurationError."""
        manager = self.manager
        if manager is None or not manager.trust.asks:
            return
        standing = await manager.trust.look(folder)
        if not standing.is_open:
            return
        from tui.trust.screen import TrustScreen

        if await self.push_screen_wait(TrustScreen(standing, asks=True)):
            await manager.trust.give(folder, standing)
        else:
            await manager.trust.refuse(standing)

    def do_conv_trust(self) -> None:
        if self.manager is None:
            self.flash(_("Handloom is still starting."))
            return
        self.attempt(self._show_trust(self.manager))

    async def _show_trust(self, manager: ConversationManager) -> None:
        """What the project's folder brings, with a yes to give or to take back."""
        from tui.trust.screen import TrustScreen

        folder, along = self._project_folder, self.living.session.recollection.along if self.living else ()
        standing = await manager.trust.look(folder, along)
        if not (standing.waiting or standing.trusted or standing.survey.problems):
            self.flash(_("This folder contains nothing that needs your approval."))
            return
        screen = TrustScreen(standing, asks=False)
        answer = await self.push_screen_wait(screen)
        try:
            await self._take_answer(manager, folder, standing, screen, answer)
        finally:
            for tab in self.living_tabs:
                await tab.session.recollection.refresh()

    async def _take_answer(
        self, manager: ConversationManager, folder: str, standing: TrustState, screen: TrustScreen, answer: bool | None
    ) -> None:
        if answer:
            await manager.trust.give(folder, standing)
            self.flash(_("Trusted from your next message on, until the files change."))
        elif answer is False:
            await manager.trust.refuse(standing)
        elif screen.is_revoked:
            await manager.trust.revoke(folder)
            self.flash(_("No longer trusted. The agent still knows what it has already read."))

    def do_conv_knowledge(self) -> None:
        if self.manager is None:
            self.flash(_("Handloom is still starting."))
            return
        self.attempt(self._show_knowledge(self.manager))

    async def _show_knowledge(self, manager: ConversationManager) -> None:
        from tui.dialogs.dialog import TextScreen
        from tui.memory.knowledge_text import knowledge_text

        gathered = await manager.trust.gathered(self._project_folder)
        text = Content.assemble(*knowledge_text(gathered))
        await self.push_screen(TextScreen(_("Skills and microagents"), text))

    @property
    def _project_folder(self) -> str:
        """The folder of the conversation in sight, as its agent has it."""
        if (tab := self.living) is not None:
            return tab.session.recollection.folder
        return self.current.folder if self.current is not None else self.options.workspace
