"""The rows of models in the settings screen: the model of new conversations, and the keys of providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.settings.config import Origin
from core.settings.editable_settings import Effect, Kind, Setting
from tui.i18n import _
from tui.models.commands import pick_model
from tui.models.key_screen import ask_key
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from tui.workspace.context import Context

SECTION = "models"
ABOUT = _("The model of new conversations, and the API keys of providers.")
MODEL = f"{SECTION}.model"
HAS_KEY, NO_KEY = _("has a key"), _("no key yet")
ENTER = _("Press Enter to change this.")


class ModelRow(Setting):
    """A row that opens a screen of its own."""

    @property
    def fixed_by(self) -> tuple[str, str]:
        return ENTER, ""


def setting_rows(manager: ConversationManager) -> list[Setting]:
    """A row for the model, and one for each provider, named by the variable of its key."""
    help = _("The model of new conversations; Enter shows all of them with their prices.")
    rows: list[Setting] = [_row(MODEL, help, manager.settings.model or "")]
    for wanted, has_key in manager.keys.providers():
        help = _("The API key of {provider}; Enter asks for it, checks it, and stores it.")
        help = help.format(provider=sanitize_line(wanted.label, 40))
        rows.append(_row(f"{SECTION}.{wanted.variable}", help, HAS_KEY if has_key else NO_KEY))
    return rows


def _row(name: str, help: str, value: str) -> Setting:
    return ModelRow(name, help, Kind.TEXT, value, None, Origin.DEFAULT, Effect.AT_ONCE, optional=True)


async def open_row(app: Context, manager: ConversationManager, name: str) -> None:
    """Let the user choose the model, or enter the key of a provider. Raises ConfigurationError."""
    if name == MODEL and (model := await pick_model(app)):
        await manager.choose_model(model)
        app.flash(_("New conversations use {model}.").format(model=sanitize_line(model, 60)))
    for wanted, _has_key in manager.keys.providers():
        if name == f"{SECTION}.{wanted.variable}":
            await ask_key(app, manager, wanted)
