"""What a folder brings, to be read before it counts: the files in a list, the whole text of the one under the cursor.

Answers with True for a yes, False for a no, None where nothing was asked or said. Everything shown is foreign, and
clean. A no is the default: Esc, Enter and q are no yes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.display.text import sanitize, sanitize_line
from tui.i18n import _

if TYPE_CHECKING:
    from core.trust.book import Standing
    from core.trust.survey import Piece

PATH_CELLS = 70
SHOWN_PROBLEMS = 5

QUESTION = _(
    "This folder brings files that would direct your agent or run commands. Until you say yes, the agent works as if "
    "they were not there. Read them; ↑ ↓ goes from one to the next."
)
CHANGED = _("You said yes to this folder before. What is marked ● has changed since, or is new.")
KINDS = {
    "instructions": _("instructions"),
    "microagent": _("microagent"),
    "skill": _("skill"),
    "command": _("slash command"),
    "agent": _("agent"),
    "hooks": _("hooks"),
    "MCP servers": _("MCP servers"),
}
STANDS = _("You said yes to all of these as they are. x takes it back.")


class TrustScreen(ModalScreen[bool | None]):
    """The pieces of one folder."""

    DEFAULT_CSS = """
    TrustScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 120; height: 90%; padding: 0 1; background: $surface; border: round $warning;
            border-title-color: $text-warning; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        & #trust-told { height: auto; margin-bottom: 1; color: $text-warning; }
        OptionList, OptionList:focus { height: auto; max-height: 8; border: none; background: $surface; padding: 0; }
        & #trust-path { height: 1; margin-top: 1; color: $text-accent; text-style: bold; }
        VerticalScroll { height: 1fr; background: $panel; padding: 0 1; scrollbar-size-vertical: 1; }
    }
    """
    BINDINGS = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n", "answer(False)", "No"),
        Binding("x", "revoke", show=False),
        Binding("escape,q", "leave", "Leave"),
        Binding("pagedown,space", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
    ]

    def __init__(self, standing: Standing, *, asks: bool, meant: Callable[[], bool] = lambda: True) -> None:
        """`asks` where a no is an answer, too, and is remembered; `meant` tells whether a key's yes is one.

        The screen comes up unasked, so a `y` of somebody who is just typing must not be taken for a yes.
        """
        super().__init__()
        self._standing, self._asks, self._meant = standing, asks, meant
        self._pieces: Sequence[Piece] = [*standing.waiting, *standing.trusted]
        self.is_revoked = False
        """Whether the user takes everything back."""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            folder = sanitize_line(self._standing.survey.folder, PATH_CELLS)
            box.border_title = _("Trust {folder}?").format(folder=folder) if self._standing.waiting else folder
            box.border_subtitle = self._keys()
            yield Static(Content(self._told()), id="trust-told")
            yield OptionList(*[Option(_line(piece, self._standing)) for piece in self._pieces], markup=False)
            yield Static(id="trust-path")
            with VerticalScroll(can_focus=False):
                yield Static(id="trust-text")

    def _keys(self) -> str:
        if self._standing.waiting:
            return _("y yes, as long as it stays like this · n no · PgDn scroll · Esc no")
        return _("x take the yes back · PgDn scroll · Esc leaves")

    def _told(self) -> str:
        standing = self._standing
        told = CHANGED if standing.changed or (standing.trusted and standing.waiting) else QUESTION
        lines = [told if standing.waiting else STANDS]
        lines += [sanitize_line(f"! {problem}", 200) for problem in standing.survey.problems[:SHOWN_PROBLEMS]]
        return "\n".join(lines)

    def on_mount(self) -> None:
        """The first file is shown."""
        lines = self.query_one(OptionList)
        lines.highlighted = 0 if self._pieces else None
        lines.focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the whole text of the file under the cursor."""
        piece = self._pieces[event.option_index]
        self.query_one("#trust-path", Static).update(Content(sanitize_line(piece.path, PATH_CELLS)))
        self.query_one("#trust-text", Static).update(Content(sanitize(piece.text)))
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_answer(self, answer: bool) -> None:
        """Answer, where something is asked."""
        if self._standing.waiting and (self._meant() or not answer):
            self.dismiss(answer)

    def action_revoke(self) -> None:
        """Take the yes back."""
        if self._standing.trusted:
            self.is_revoked = True
            self.dismiss(None)

    def action_page(self, pages: int) -> None:
        """Scroll the text."""
        text = self.query_one(VerticalScroll)
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)

    def action_leave(self) -> None:
        """No, or nothing."""
        self.dismiss(False if self._asks and self._standing.waiting else None)


def _line(piece: Piece, standing: Standing) -> Content:
    waits = piece in standing.waiting
    mark = ("● ", "$text-warning") if waits else ("✓ ", "$text-success")
    return Content.assemble(
        mark, (sanitize_line(piece.path, PATH_CELLS), "bold"), (f"  {KINDS[piece.kind]}", "$text-muted")
    )
