"""The question whether sessions of other agents are read and shown."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from tui.dialogs.answer_list import Effect, Row
from tui.dialogs.choice_dialog import AnswersScreen
from tui.i18n import _, listed


class ConsentScreen(AnswersScreen[str | None]):
    """Returns `keep`, `show` or `hide`; None for Esc, which asks again the next time."""

    DEFAULT_CSS = """
    ConsentScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 84; height: auto; max-height: 96%; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        #consent-question { height: auto; margin-bottom: 1; }
    }
    """

    def __init__(self, agents: Sequence[str]) -> None:
        """`agents` are the titles of those that were used on this machine."""
        super().__init__(
            (
                Row(Effect.DENY, _("Not now"), ""),
                Row(Effect.ALLOW, _("Show them, and keep copies of sessions that their agents delete"), "keep"),
                Row(Effect.ALLOW, _("Show them, and delete the copy when an agent deletes its session"), "show"),
                Row(Effect.DENY, _("Never show them; Settings can change this"), "hide"),
            )
        )
        self._agents = agents

    def compose(self) -> ComposeResult:
        question = _(
            "{agents} saved sessions on this machine. Handloom can show them in this list, to search, replay and "
            "continue. It reads their files, changes none, and stores a compressed copy in its own folder."
        )
        with Vertical() as box:
            box.border_title = _("Sessions of other agents")
            box.border_subtitle = _("↑ ↓ choose · Enter answers · Esc cancels")
            yield Static(Content(question.format(agents=listed(self._agents))), id="consent-question")
            yield from self.answer_rows()

    def result(self, row: Row) -> str | None:
        return row.value or None
