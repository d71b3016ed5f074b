"""The command for secrets: list, add and delete them. No message contains a value."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.secrets.vault import Secret, Vault
    from tui.workspace.context import Context


LINE_CELLS = 200


def show_secrets(app: Context) -> None:
    """List the secrets, and let the user add and delete them."""
    if app.manager is not None:
        app.attempt(_manage_secrets(app, app.manager))


async def _manage_secrets(app: Context, manager: ConversationManager) -> None:
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
            answer = await app.push_screen_wait(SecretsScreen(lines, sanitize_line(place, LINE_CELLS)))
            if answer is None:
                return
            if answer == ADD:
                await _add_secret(app, manager, vault, {one.name for one in secrets if one.scope == EVERYWHERE})
            elif isinstance(answer, int):
                await _delete_secret(app, vault, secrets[answer])
    except ConfigurationError as error:
        app.report(sanitize(str(error)))


async def _delete_secret(app: Context, vault: Vault, secret: Secret) -> None:
    """Delete a secret after a confirmation. Raises ConfigurationError."""
    from tui.dialogs.dialog import SureScreen

    question = _("Delete {name} ({scope})? Its value cannot be recovered.")
    shown = {"name": secret.name, "scope": sanitize_line(secret.scope, LINE_CELLS)}
    if await app.push_screen_wait(SureScreen(question.format_map(shown), _("delete it"))):
        await asyncio.to_thread(vault.remove, secret.name, secret.scope)


async def _add_secret(app: Context, manager: ConversationManager, vault: Vault, names: Collection[str]) -> None:
    """Ask for name, value and description, then store the secret. Raises ConfigurationError."""
    from core.secrets.variable_names import MIN_LENGTH
    from core.secrets.vault import wrong_with
    from tui.dialogs.line_input import LineScreen
    from tui.secrets.screen import NameScreen, ValueScreen

    title = _("Name of the secret")
    name = await app.push_screen_wait(
        NameScreen(title, "GITHUB_TOKEN", lambda name: wrong_with(name, "x" * MIN_LENGTH))
    )
    if not name:
        return
    title = _("New value of {name} (not shown)") if name in names else _("Value (not shown)")
    title = title.format(name=name)
    value = await app.push_screen_wait(ValueScreen(title, lambda value: wrong_with(name, value)))
    if not value:
        return
    text = await app.push_screen_wait(LineScreen(_("Description"), _("The agent sees this.")))
    if text is None:
        return
    await asyncio.to_thread(vault.put, name, value, description=text or None)
    await manager.learn_secrets()
    kept = _("Stored in {place}. Commands that use ${name} receive the value.")
    app.flash(sanitize_line(kept.format(place=vault.backend.place, name=name), LINE_CELLS))


ROWS = (
    Command("app.secrets", (), "Secrets", "Add and delete secrets that commands can use and agents do not see.",
            Group.WORKSPACE, leader="S", slash="secrets", run=show_secrets),
)  # fmt: skip
