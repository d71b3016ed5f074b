"""The command and the screen for secrets: list, add and delete them. No message contains a value.

The screen has names, descriptions, scopes, and when a command last used them. Its result is None, `add`, or the number
of the secret to delete. Its lines must be sanitized.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.dialog import Field, LineScreen
from tui.dialogs.modal import Modal
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.secrets.vault import Secret, Vault
    from tui.workspace.context import Context

ADD = "add"


class SecretsScreen(Modal[str | int | None]):
    """One line for each secret."""

    DEFAULT_CSS = """
    SecretsScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: auto; max-height: 90%; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        OptionList, OptionList:focus { height: auto; max-height: 20; border: none; background: $surface; padding: 0; }
        Static { height: auto; margin-top: 1; color: $text-muted; }
    }
    """
    BINDINGS = [
        Binding("escape,q", "leave", "Leave"),
        Binding("a", "add", show=False),
        Binding("d,delete", "forget", show=False),
    ]

    def __init__(self, lines: Sequence[str], place: str) -> None:
        """`place` is where the values are stored."""
        super().__init__()
        self._lines, self._place = lines, place

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Secrets")
            box.border_subtitle = _("a add · d delete · Esc closes")
            yield OptionList(*(Option(Content(line)) for line in self._lines or [_("No secrets yet.")]), markup=False)
            text = _(
                "Commands that use $NAME get the value. The agent sees only the name and description. Stored in {place}"
            )
            yield Static(Content(text.format(place=self._place)))

    def on_mount(self) -> None:
        """Focus the list."""
        self.query_one(OptionList).focus()

    def action_leave(self) -> None:
        """Close the screen."""
        self.dismiss(None)

    def action_add(self) -> None:
        """Add a secret."""
        self.dismiss(ADD)

    def action_forget(self) -> None:
        """Delete the highlighted secret."""
        if self._lines and (marked := self.query_one(OptionList).highlighted) is not None:
            self.dismiss(marked)


class NameScreen(LineScreen):
    """Asks for a line until it is valid; `check` returns the problem."""

    DEFAULT_CSS = """
    NameScreen Static { height: auto; color: $text-error; }
    """

    def __init__(self, title: str, placeholder: str, check: Callable[[str], str], *, hidden: bool = False) -> None:
        super().__init__(title, placeholder, hidden=hidden)
        self._check = check

    def compose(self) -> ComposeResult:
        """The line, and a problem below it."""
        with Vertical() as box:
            box.border_title, box.border_subtitle = self._title, _("Enter confirms · Esc cancels")
            yield self.field()
            yield Static(markup=False)

    def field(self) -> Field:
        """The input field."""
        return Field(placeholder=self._placeholder, password=self._hidden, compact=True)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Remove the problem."""
        event.stop()
        self.query_one(Static).update("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the line, or show its problem. Replaces the handler of LineScreen."""
        event.stop()
        event.prevent_default()
        answer = self.answer(event.value)
        if answer and (wrong := self._check(answer)):
            self.query_one(Static).update(sanitize(wrong))
        else:
            self.dismiss(answer)

    def answer(self, line: str) -> str:
        """The value of the line."""
        return line.strip()


class ValueField(Field):
    """A hidden line, or several pasted lines; then the line is empty."""

    def __init__(self, placeholder: str) -> None:
        super().__init__(placeholder=placeholder, password=True, compact=True)
        self.pasted = ""

    def _on_paste(self, event: events.Paste) -> None:
        text = event.text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
        if "\n" in text:
            event.prevent_default()
            event.stop()
            self.value, self.pasted = "", text
            self.placeholder = _("{n} lines pasted; Enter accepts them").format(n=text.count("\n") + 1)


class ValueScreen(NameScreen):
    """Asks for a hidden value. Text that is typed after a paste of several lines replaces them."""

    def __init__(self, title: str, check: Callable[[str], str]) -> None:
        super().__init__(title, _("Type or paste the value; it can have several lines"), check, hidden=True)

    def field(self) -> ValueField:
        """A password field."""
        return ValueField(self._placeholder)

    def answer(self, line: str) -> str:
        """The line, or the pasted lines."""
        return line or self.query_one(ValueField).pasted


LINE_CELLS = 200


def show_secrets(app: Context) -> None:
    """List the secrets, and let the user add and delete them."""
    if app.manager is not None:
        app.attempt(_manage_secrets(app, app.manager))


async def _manage_secrets(app: Context, manager: ConversationManager) -> None:
    from core.errors import ConfigurationError
    from core.secrets.vault import EVERYWHERE
    from tui.secrets.cli import line_of

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
    from tui.dialogs.dialog import LineScreen

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
            Group.WORKSPACE, leader="S", slash="secrets", run=show_secrets,
            also="logout log out sign password token api key remove"),
)  # fmt: skip
