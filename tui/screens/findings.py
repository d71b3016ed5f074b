"""A dialog before something leaves: what was found in it, and the choice to mask it, to let it go, or to stay.

Texts handed in are clean. Nothing but `m` and `w` lets anything leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.i18n import _

Answer = Literal["mask", "keep"]


class FindingsScreen(ModalScreen[Answer | None]):
    """Answers with what to do; None where nothing is to leave."""

    DEFAULT_CSS = """
    FindingsScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: auto; max-height: 90%; padding: 0 1;
            background: $surface; border: round $warning;
            border-title-color: $text-warning; border-title-style: bold;
        }
        VerticalScroll { height: auto; max-height: 20; margin: 1 0; }
    }
    """
    BINDINGS = [
        Binding("m", "answer('mask')", "Mask"),
        Binding("w", "answer('keep')", "Write"),
        Binding("escape,q,n,enter", "leave", "Leave"),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
    ]

    def __init__(self, findings: Sequence[str]) -> None:
        super().__init__()
        self._findings = findings

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Secrets would leave")
            yield Static(Content(_("This looks like keys, tokens or passwords, or tells whose machine it was:")))
            with VerticalScroll(can_focus=False):
                yield Static(Content("\n".join(self._findings)))
            keys = (("m", _("write it masked")), ("w", _("write it as it is")), ("Esc", _("write nothing")))
            yield Static(Content.assemble(*(part for key, word in keys for part in ((key, "bold"), f" {word}   "))))

    def action_answer(self, answer: Answer) -> None:
        """Answer."""
        self.dismiss(answer)

    def action_leave(self) -> None:
        """Let nothing leave."""
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)
