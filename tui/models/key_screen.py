"""Asking for the key of a provider: hidden while it is typed, checked with one call of a model, then stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from core.errors import HandloomError
from tui.dialogs.dialog import Choice, ChoiceScreen, Field
from tui.dialogs.modal import Modal
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.secrets.provider_keys import KeyWanted
    from tui.workspace.context import Context

CHECKING = _("Checking the key with one short call …")
ABOUT = _(
    "Paste the key and press Enter. It is checked with one short call of {model}, then stored in {place}. "
    "Models are called with it; commands of the agent never get it."
)
LINE_CELLS = 100


class KeyScreen(Modal[bool]):
    """Asks for one key until it is accepted. The result is whether it was stored."""

    DEFAULT_CSS = """
    KeyScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 72; height: auto; max-height: 100%; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        Input, Input:focus { height: 1; border: none; background: $panel; padding: 0 1; }
        Static { height: auto; margin-top: 1; color: $text-muted; }
        #key-state { color: $text-warning; max-height: 8; }
        #key-state.-empty { display: none; }
        &.-low Static { margin-top: 0; }
    }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]
    BINDINGS = [Binding("escape", "dismiss(False)", "Leave")]

    def __init__(self, wanted: KeyWanted, place: str, add: Callable[[str], Awaitable[object]]) -> None:
        """`add` checks and stores the key; it raises HandloomError if it does not."""
        super().__init__()
        self._wanted, self._place, self._add = wanted, place, add
        self._is_checking = False

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("API key of {provider}").format(provider=sanitize_line(self._wanted.label, 40))
            box.border_subtitle = _("Enter checks and stores it · Esc goes back")
            yield Field(password=True, compact=True, placeholder=_("The key; it is not shown"))
            yield Static(id="key-state", classes="-empty")
            about = ABOUT.format(model=sanitize_line(self._wanted.model, 60), place=self._place)
            yield Static(Content(about))

    def on_mount(self) -> None:
        """The field has the focus."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Check the key, unless one is being checked."""
        event.stop()
        if event.value.strip() and not self._is_checking:
            self._is_checking = True
            event.input.action_select_all()  # a key that is pasted meanwhile takes the place of this one
            self.run_worker(self._check(event.input))

    async def _check(self, field: Input) -> None:
        state = self.query_one("#key-state", Static)
        state.remove_class("-empty")
        state.update(CHECKING)
        try:
            await self._add(field.value)
        except HandloomError as error:
            state.update(Content(sanitize(str(error))))
        else:
            self.dismiss(True)
        finally:
            self._is_checking = False


async def ask_key(app: Context, manager: ConversationManager, wanted: KeyWanted) -> bool:
    """Ask for a key. Returns whether it was stored. Raises ConfigurationError if secrets cannot be stored here."""
    place = await asyncio.to_thread(lambda: manager.vault.backend.place)

    async def add(key: str) -> None:
        await manager.keys.add(wanted, key)

    is_stored = await app.push_screen_wait(KeyScreen(wanted, sanitize_line(place, LINE_CELLS), add))
    if is_stored:
        text = _("The key of {provider} is stored in {place}.")
        app.flash(text.format(provider=sanitize_line(wanted.label, 40), place=sanitize_line(place, LINE_CELLS)))
    return bool(is_stored)


async def has_key(app: Context, manager: ConversationManager, model: str) -> bool:
    """Whether a model can be called; the user is asked for a key that is missing. Raises ConfigurationError."""
    wanted = await manager.keys.wanted_by(model)
    return wanted is None or await ask_key(app, manager, wanted)


async def change_keys(app: Context, manager: ConversationManager) -> None:
    """Let the user choose a provider, and enter its key. The one of the shown conversation's model comes first."""
    model = app.tabs.current.model_name if app.tabs.current is not None else ""

    def answers(wanted: KeyWanted) -> bool:
        return bool(model) and wanted.model.partition("/")[0] == model.partition("/")[0]

    providers = [
        (wanted._replace(model=model) if answers(wanted) else wanted, has) for wanted, has in manager.keys.providers()
    ]
    providers.sort(key=lambda provider: provider[0].model != model)
    notes = {True: _("has a key"), False: _("no key yet")}
    choices = [Choice(wanted.variable, wanted.label, f"{wanted.variable} · {notes[has]}") for wanted, has in providers]
    chosen = await app.push_screen_wait(ChoiceScreen(_("API keys"), choices))
    for wanted, _has in providers:
        if wanted.variable == chosen:
            await ask_key(app, manager, wanted)
