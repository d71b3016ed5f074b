"""The secrets of the user on the screen: listed, added, forgotten. A mixin of the app. No message has a value in it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.secrets.vault import Secret, Vault


LINE_CELLS = 200


class SecretKeeping(Frame):
    """The command for secrets, as methods of the app."""

    def do_app_secrets(self) -> None:
        if self.manager is not None:
            self.attempt(self._show_secrets(self.manager))

    async def _show_secrets(self, manager: ConversationManager) -> None:
        from core.errors import ConfigurationError
        from core.secrets.vault import EVERYWHERE
        from tui.secrets.cli import line_of
        from tui.secrets.screen import ADD, SecretsScreen

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
                    await self._add_secret(manager, vault, {one.name for one in secrets if one.scope == EVERYWHERE})
                elif isinstance(answer, int):
                    await self._forget_secret(vault, secrets[answer])
        except ConfigurationError as error:
            self.report(sanitize(str(error)))

    async def _forget_secret(self, vault: Vault, secret: Secret) -> None:
        """Ask, for the value cannot be had back. Raises ConfigurationError."""
        from tui.dialogs.dialog import SureScreen

        question = _("Forget {name} ({scope})? Its value cannot be had back.")
        shown = {"name": secret.name, "scope": sanitize_line(secret.scope, LINE_CELLS)}
        if await self.push_screen_wait(SureScreen(question.format_map(shown), _("forget it"))):
            await asyncio.to_thread(vault.remove, secret.name, secret.scope)

    async def _add_secret(self, manager: ConversationManager, vault: Vault, names: Collection[str]) -> None:
        """Ask for name, value and description; who leaves one of them keeps nothing. Raises ConfigurationError."""
        from core.secrets.variable_names import MIN_LENGTH
        from core.secrets.vault import wrong_with
        from tui.dialogs.line_input import LineScreen
        from tui.secrets.screen import NameScreen, ValueScreen

        title = _("Name of the secret")
        name = await self.push_screen_wait(
            NameScreen(title, "GITHUB_TOKEN", lambda name: wrong_with(name, "x" * MIN_LENGTH))
        )
        if not name:
            return
        title = (
            _("The new value of {name}, which is not shown") if name in names else _("Its value, which is not shown")
        )
        title = title.format(name=name)
        value = await self.push_screen_wait(ValueScreen(title, lambda value: wrong_with(name, value)))
        if not value:
            return
        told = await self.push_screen_wait(LineScreen(_("What it is for"), _("The agent reads this.")))
        if told is None:
            return
        await asyncio.to_thread(vault.put, name, value, description=told or None)
        await manager.learn_secrets()
        kept = _("Stored in {place}. Commands that use ${name} receive the value.")
        self.flash(sanitize_line(kept.format(place=vault.backend.place, name=name), LINE_CELLS))
