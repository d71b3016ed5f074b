"""The screen of secrets: names, what each is for and where, and when a command last had it. Values are never shown.

Answers with what to do: None to leave, `add`, or the number of the secret that is to be forgotten. Texts handed in are
clean.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.i18n import _
from tui.screens.line import LineScreen

ADD = "add"


class SecretsScreen(ModalScreen[str | int | None]):
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
        """`place` says where the values are."""
        super().__init__()
        self._lines, self._place = lines, place

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Secrets")
            box.border_subtitle = _("a add · d forget · Esc leaves")
            yield OptionList(*(Option(Content(line)) for line in self._lines), markup=False)
            told = _("Commands that name $NAME get the value; the agent sees names and descriptions. Values: {place}")
            yield Static(Content(told.format(place=self._place)))

    def on_mount(self) -> None:
        """The list takes the keys."""
        self.query_one(OptionList).focus()

    def action_leave(self) -> None:
        """Answer with nothing."""
        self.dismiss(None)

    def action_add(self) -> None:
        """Answer that there is to be another one."""
        self.dismiss(ADD)

    def action_forget(self) -> None:
        """Answer with the one that is marked."""
        if (marked := self.query_one(OptionList).highlighted) is not None:
            self.dismiss(marked)


class ValueScreen(LineScreen):
    """Asks for a line that is not shown."""

    def on_mount(self) -> None:
        """Dots in place of letters."""
        super().on_mount()
        self.query_one(Input).password = True
