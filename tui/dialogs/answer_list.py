"""A list of answers: its rows, the highlighted one, and the widget that draws a row.

Letters are never answers, because they belong to a prompt. Arrows and digits move the highlight, and only Enter chooses
a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

DIGITS = "123456789"
MOVES = frozenset({"up", "down", *DIGITS})
"""The keys that move the highlight."""
HIGHLIGHT, NO_HIGHLIGHT = "❯", " "


class Effect(Enum):
    """The effect of choosing a row."""

    ALLOW = auto()
    """Run this action, once."""
    OPEN = auto()
    """Show the scopes of a permission or denial; nothing is stored."""
    PERMIT = auto()
    """Store a permission, then run the action."""
    FORBID = auto()
    """Store a denial, then deny the action."""
    PATTERN = auto()
    """Change the pattern that the rows above would store."""
    DENY = auto()
    """Deny this action; the agent continues."""
    STOP = auto()
    """Deny this action and the queued ones; the agent stops."""
    WAY = auto()
    """Choose how to continue after a halt."""
    OPEN_HOST = auto()
    """Open a host that the sandbox refused."""
    KEEP_CLOSED = auto()
    """Keep that host closed."""
    APPROVE_PLAN = auto()
    EDIT_PLAN = auto()


@dataclass(frozen=True, slots=True)
class Row:
    """One answer."""

    effect: Effect
    title: str
    value: str = ""
    """The scope of a permission or denial, or the id of a choice after a halt."""
    stores: str = ""
    """The pattern that the row stores, if any."""
    denies: bool = False
    """Whether OPEN and PATTERN are about denials."""

    @property
    def text(self) -> str:
        """The text of the row."""
        return f"{self.title}: {self.stores}" if self.stores else self.title


@dataclass(frozen=True, slots=True)
class QuestionList:
    """The rows of a question and the highlighted one."""

    rows: tuple[Row, ...]
    at: int = 0
    typed: str = ""
    """A hint what typing text does."""
    above: QuestionList | None = None
    """The list to which Esc returns."""

    @property
    def row(self) -> Row:
        """The highlighted row."""
        return self.rows[self.at]

    def moved(self, key: str) -> QuestionList | None:
        """The list after a key that moves the highlight; None for other keys."""
        if key == "up":
            return replace(self, at=max(0, self.at - 1))
        if key == "down":
            return replace(self, at=min(len(self.rows) - 1, self.at + 1))
        if key in DIGITS and int(key) <= len(self.rows):
            return replace(self, at=int(key) - 1)
        return None

    def highlighting(self, at: int) -> QuestionList:
        """The list with the highlight on this row."""
        return replace(self, at=at)


class AnswerRow(Static):
    """One row of the list. A click highlights it and never chooses it."""

    class Clicked(Message):
        """The row was clicked."""

        def __init__(self, at: int) -> None:
            super().__init__()
            self.at = at

    def __init__(self, at: int, row: Row) -> None:
        super().__init__()
        self._at, self._row = at, row

    def show(self, *, highlighted: bool, marked: bool = True) -> None:
        """Draw the row. The highlight has no mark while Enter would not choose it."""
        self.set_class(highlighted, "-at")
        mark = HIGHLIGHT if highlighted and marked else NO_HIGHLIGHT
        self.update(Content(f"{mark} {self._at + 1} {self._row.text}"))

    def on_resize(self) -> None:
        """Scroll to the row if it has the highlight."""
        if self.has_class("-at"):
            self.come_into_sight()

    def come_into_sight(self) -> None:
        """Scroll the list to this row, or to its first line if the row is too high."""
        if isinstance(self.parent, VerticalScroll):  # a row of a list that was left has no parent
            self.scroll_visible(animate=False, top=self.size.height >= self.parent.size.height)

    def on_click(self) -> None:
        """Highlight this row."""
        self.post_message(self.Clicked(self._at))
