"""The two views of a run: its actions with their marks, and the results of the one under the cursor.

Both are lines that are formatted when they are in sight, and only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.i18n import _
from tui.rerun.comparison_sheet import Row, Sheet, head
from tui.rerun.run_text import MARKS, OPEN
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.line_view import set_lines

if TYPE_CHECKING:
    from core.rerun.alignment import Pair, Pairing

ROLES = ("muted", "title", "same", "alike", "different", "missing", "not_run", "old", "new", "old-word", "new-word")
_CLASSES = {f"again--{role}" for role in (*ROLES, "alike-word", "cursor")}
AGAIN_CSS = """
AgainView {
    overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; background: $surface; color: $foreground;
    & > .again--muted { color: $text-muted; }
    & > .again--title { text-style: bold; }
    & > .again--same { color: $text-success; }
    & > .again--alike { color: $text-accent; }
    & > .again--different { color: $text-error; text-style: bold; }
    & > .again--missing { color: $text-warning; }
    & > .again--not_run { color: $text-muted; }
    & > .again--old { color: $text-error; background: $error 10%; }
    & > .again--new { color: $text-success; background: $success 10%; }
    & > .again--old-word { background: $error 32%; text-style: bold; }
    & > .again--new-word { background: $success 32%; text-style: bold; }
    & > .again--alike-word { text-style: italic; }
    & > .again--cursor { background: $primary-muted; }
    &:ansi {
        & > .again--old, & > .again--new { background: ansi_default; }
        & > .again--old-word, & > .again--new-word { background: ansi_default; text-style: bold underline; }
    }
}
"""


class AgainView(ScrollView):
    """What both views share: styles by role."""

    DEFAULT_CSS = AGAIN_CSS
    COMPONENT_CLASSES = _CLASSES

    def _style(self, role: str, base: Style) -> Style:
        if role == "text":
            return base
        return base + self.get_component_rich_style(f"again--{role}", partial=True)

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width


class ActionsView(AgainView, can_focus=True, inherit_bindings=False):
    """The actions of a run, one line each. Follows the newest result until the cursor is moved."""

    HELP = _("The actions that are run again. n goes to the next difference, space pauses, s takes one step.")

    class Moved(Message):
        """Another action is under the cursor."""

    def __init__(self, pairing: Pairing) -> None:
        super().__init__()
        self.pairing = pairing
        self.cursor = 0
        self.following = True

    @property
    def pair(self) -> Pair | None:
        """The action under the cursor."""
        pairs = self.pairing.pairs
        return pairs[self.cursor] if self.cursor < len(pairs) else None

    def sync(self) -> None:
        """Take over what has come."""
        pairs = self.pairing.pairs
        set_lines(self, len(pairs))
        if self.following:
            newest = max((index for index, pair in enumerate(pairs) if pair.new is not None), default=0)
            if newest != self.cursor:
                self._put(newest)
        self.refresh()

    def move_to(self, index: int) -> None:
        """Put the cursor on an action; from now on it stays where the user puts it."""
        self.following = False
        self._put(min(max(0, index), max(0, len(self.pairing.pairs) - 1)))

    def _put(self, index: int) -> None:
        self.cursor = index
        self.scroll_to_region(Region(0, index, 1, 1), animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def on_resize(self, event: events.Resize) -> None:
        """Lines fit the width."""
        set_lines(self, len(self.pairing.pairs))

    def on_click(self, event: events.Click) -> None:
        """A click chooses an action."""
        if event.y + self.scroll_offset.y < len(self.pairing.pairs):
            self.move_to(event.y + self.scroll_offset.y)

    def render_line(self, y: int) -> Strip:
        """Format one action."""
        index, width, base = y + self.scroll_offset.y, self._width, self.rich_style
        if index >= len(self.pairing.pairs):
            return Strip.blank(width, base)
        if index == self.cursor:
            base = self._style("cursor", base)
        pair = self.pairing.pairs[index]
        mark, role = (MARKS[pair.outcome], str(pair.outcome)) if pair.outcome is not None else (OPEN, "muted")
        lead = f"{index + 1:>4} "
        kind = sanitize_line(("! " if pair.step.is_users else "") + pair.step.action.kind, 14)
        what = sanitize_line(_what(pair), width - len(lead) - len(kind) - 3)
        segments = [
            Segment(lead, self._style("muted", base)),
            Segment(f"{mark} ", self._style(role, base)),
            Segment(f"{kind} ", self._style("muted", base)),
            Segment(what, base),
        ]
        return Strip(segments).adjust_cell_length(width, base)


def _what(pair: Pair) -> str:
    """What tells an action from others of its kind."""
    action = pair.step.action
    found = (getattr(action, name, "") for name in ("command", "code", "path", "url", "browser_actions", "thought"))
    if action.kind in ("edit", "read", "write"):
        return str(getattr(action, "path", ""))
    return next((text for text in found if text and isinstance(text, str)), action.message)


class ResultView(AgainView, can_focus=False):
    """The recorded and the new result of one action."""

    def __init__(self) -> None:
        super().__init__()
        self._sheet: Sheet | None = None
        self._head: list[Row] = []
        """Stays at the top while the rest scrolls."""
        self._shown: tuple[object, int, bool] | None = None

    def show(self, pair: Pair | None, *, is_split: bool) -> None:
        """Show this action's results; another action begins at its first difference."""
        key = (pair, self._width, is_split)
        if key == self._shown or self._width <= 0:
            return
        before = self._shown[0] if self._shown else None
        self._shown = key
        self._sheet = Sheet(pair, self._width, is_split=is_split) if pair is not None else None
        self._head = head(pair, self._width, is_split=is_split) if pair is not None else []
        set_lines(self, len(self._head) + self._sheet.height if self._sheet else 0)
        is_another = getattr(before, "step", None) is not (pair.step if pair else None)
        if is_another or getattr(before, "comparison", None) is not (pair.comparison if pair else None):
            self.scroll_to(y=self._beginning(), animate=False, immediate=True, force=True)
        self.refresh()

    @property
    def _rows(self) -> int:
        """Rows for the sheet."""
        return self.scrollable_content_region.height - len(self._head)

    def _beginning(self) -> int:
        """The row at the top, so that the first difference is in sight."""
        first = self._sheet.first_difference if self._sheet else None
        height = max(1, self._rows)
        return max(0, first - height // 3) if first is not None and first >= height else 0

    def page(self, pages: int) -> None:
        """Scroll by pages."""
        rows = pages * max(1, self._rows - 1)
        self.scroll_relative(y=rows, animate=False, immediate=True, force=True)

    def render_line(self, y: int) -> Strip:
        """Format one row of the sheet."""
        width, base = self._width, self.rich_style
        if y < len(self._head):
            row = self._head[y]
        else:
            row = self._sheet.row(y - len(self._head) + self.scroll_offset.y) if self._sheet is not None else []
        segments = [Segment(text, self._style(role, base)) for role, text in row]
        return Strip(segments).adjust_cell_length(width, base)
