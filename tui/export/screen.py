"""A dialog before an export: what was found in it, and the choice to redact it, to write it as it is, or to cancel.

Texts handed in are clean. The highlight starts at the answer that writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.approval.answer_list import Does, Row
from tui.dialogs.choice_dialog import AnswersScreen
from tui.i18n import _

Answer = Literal["redact", "keep"]


class FindingsScreen(AnswersScreen[Answer | None]):
    """Answers with what to do; None where nothing is to leave."""

    DEFAULT_CSS = """
    FindingsScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: auto; max-height: 90%; padding: 0 1;
            background: $surface; border: round $warning;
            border-title-color: $text-warning; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        VerticalScroll { height: auto; max-height: 40vh; scrollbar-size-vertical: 1; }
    }
    """

    def __init__(self, findings: Sequence[str]) -> None:
        super().__init__(
            (
                Row(Does.DENY, _("Write nothing")),
                Row(Does.ALLOW, _("Write it with these redacted"), "redact"),
                Row(Does.ALLOW, _("Write it as it is"), "keep"),
            )
        )
        self._findings = findings

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Secrets would leave")
            box.border_subtitle = _("↑ ↓ choose · Enter answers · PgUp PgDn scroll · Esc cancels")
            yield Static(Content(_("This looks like keys, tokens or passwords, or shows whose machine it was:")))
            with VerticalScroll(can_focus=False):
                yield Static(Content("\n".join(self._findings)))
            yield from self.answer_rows()

    def result(self, row: Row) -> Answer | None:
        """Whether to redact, to keep, or to write nothing."""
        return "redact" if row.value == "redact" else "keep" if row.value == "keep" else None

    def scroll_text(self, pages: int) -> None:
        """Scroll the findings by pages."""
        text = self.query_one(VerticalScroll)
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)
