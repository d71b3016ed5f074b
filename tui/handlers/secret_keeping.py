"""The secrets of the user on the screen: listed, added, forgotten. A mixin of the app. No message has a value in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui.display.text import sanitize_line
from tui.handlers.frame import Frame
from tui.i18n import _

if TYPE_CHECKING:
    from core.manager.conversation_manager import ConversationManager
    from core.secrets.vault import Vault


LINE_CELLS = 200


class SecretKeeping(Frame):
    """The command for secrets, as methods of the app."""

    def do_app_secrets(self) -> None:
        if self.manager is not None:
            self.attempt(self._show_secrets(self.manager))

    async def _show_secrets(self, manager: ConversationManager) -> None:
        from core.errors import ConfigurationError
        from tui.cli.secrets import line_of
        from tui.screens.secrets import ADD, SecretsScreen

        vault = manager.vault
        try:
            while True:
                secrets = await asyncio.to_thread(vault.all)
                place = await asyncio.to_thread(lambda: vault.backend.place)
                lines = [sanitize_line(line_of(secret), LINE_CELLS) for secret in secrets]
                answer = await self.push_screen_wait(SecretsScreen(lines, sanitize_line(place, LINE_CELLS)))
                if answer is None:
                    return
                if answer == ADD:
                    await self._add_secret(manager, vault)
                elif isinstance(answer, int):
                    gone = secrets[answer]
                    await asyncio.to_thread(vault.remove, gone.name, gone.scope)
        except ConfigurationError as error:
            self.flash(sanitize_line(str(error), LINE_CELLS))

    async def _add_secret(self, manager: ConversationManager, vault: Vault) -> None:
        """Ask for name, value and description. Raises ConfigurationError."""
        from tui.screens.line import LineScreen
        from tui.screens.secrets import ValueScreen

        name = await self.push_screen_wait(LineScreen(_("Name of the secret"), "GITHUB_TOKEN"))
        if not name:
            return
        value = await self.push_screen_wait(ValueScreen(_("Its value, which is not shown"), ""))
        if not value:
            return
        told = await self.push_screen_wait(LineScreen(_("What it is for"), _("The agent reads this.")))
        await asyncio.to_thread(vault.put, name, value, description=told or "")
        await manager.learn_secrets()
