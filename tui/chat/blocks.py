"""The blocks of the chat: one for each thing that was said or done.

A block keeps its text and no drawing: pieces and strips are cached elsewhere. Whoever changes a block calls `touch`, so
that views draw it again. The text is clean. Knows no terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tui.chat import diffs
from tui.chat.text_pieces import BLANK, MarkdownSplitter, Piece, PieceKind, literal, markdown, shorten
from tui.i18n import counted

THOUGHT_CHARS = 90
"""A thought up to this length is shown whole, a longer one as its first line until it is unfolded."""

FOLDED_LINE_CHARS = 320
"""How much of a line a folded tool block shows: four rows of a terminal with 80 columns."""

PICTURE_ROWS_ESTIMATE = 12

MIN_HIDDEN_LINES = 3
"""A fold hides at least this many lines; fewer cost hardly more room than the line that says they are hidden."""

TITLE_CHARS = 16
"""A title up to this length, with a few words beside it, fits in a window of 40 cells; a longer one can be unfolded."""


class Kind(StrEnum):
    """What a block is."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"
    TOOL = "tool"
    ERROR = "error"
    FINISH = "finish"
    NOTE = "note"
    STATUS = "status"
    DETAIL = "detail"
    UNDONE = "undone"
    """A line in place of blocks that were undone."""


class Mark(StrEnum):
    """The state of an action."""

    NONE = "none"
    RUNNING = "running"
    AWAITING = "awaiting"
    """It waits for the user's approval."""
    OK = "ok"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    REJECTED = "rejected"


@dataclass(eq=False, slots=True)
class Block:
    """One thing said or done."""

    kind: Kind
    title: str = ""
    text: str = ""
    mark: Mark = Mark.NONE
    meta: str = ""
    """A few words beside the title: `exit 1`, `+3 −1`."""
    body: PieceKind = PieceKind.MARKDOWN
    shown: int = 4
    """Lines of the body that a folded tool block shows: the last ones of output, the first ones of a diff."""
    language: str = ""
    """The language of the body, by name or file extension."""
    path: str = ""
    folded: bool = True
    open: MarkdownSplitter | None = None
    """Set while the text streams in; `text` is empty until then."""
    serial: int = 0
    """The place in the model; neighbours differ by one. Older blocks that are loaded later get smaller ones."""
    event_id: int = -1
    """The event that it began with; -1 if that is not stored."""
    result_id: int = -1
    """The event whose result it shows; -1 if none."""
    version: int = 0
    undone: tuple[Block, ...] = ()
    """The undone blocks that it replaces."""
    pictures: tuple[str, ...] = ()
    pictures_fold: bool = False
    """Whether the pictures are folded with the rest."""
    lines: int = 0
    """Lines that it shows, before wrapping; its height is estimated from this and `chars`."""
    chars: int = 0
    live: Callable[[], str] | None = None
    """Returns what a running action has printed, its last lines. Set until its result is there; called when drawn."""

    def touch(self) -> None:
        self.version += 1
        if self.open is not None:
            self.lines, self.chars = self.open.newlines + 2, self.open.chars
        elif self.live is not None:
            self.lines, self.chars = self.shown + 2, 0
        elif self.kind is Kind.TOOL and self.folded:
            lines = self._line_count()
            self.lines, self.chars = lines - self._hidden_count(lines) + 2, 0
        elif self.kind is Kind.THOUGHT and self.folded:
            self.lines, self.chars = 2, 0
        elif self.kind is Kind.UNDONE:
            self.lines = 2 + (0 if self.folded else sum(block.lines for block in self.undone))
            self.chars = 0 if self.folded else sum(block.chars for block in self.undone)
        else:
            self.lines, self.chars = self._line_count() + (2 if self.title else 1), len(self.text)
        self.lines += PICTURE_ROWS_ESTIMATE * len(self._shown_pictures)

    @property
    def can_fold(self) -> bool:
        if self.kind is Kind.UNDONE:
            return bool(self.undone)
        if self.kind is Kind.TOOL:
            hides = self._hidden_count(self._line_count()) > 0 or (self.pictures_fold and bool(self.pictures))
            return hides or self._has_long_line() or "\n" in self.title or len(self.title) > TITLE_CHARS
        return self.kind is Kind.THOUGHT and self.open is None and ("\n" in self.text or len(self.text) > THOUGHT_CHARS)

    @property
    def is_answer(self) -> bool:
        """Whether it is a message of the agent to the user."""
        return self.kind in (Kind.AGENT, Kind.FINISH) and bool(self.text)

    def plain(self) -> str:
        """Return all of its text, for the clipboard."""
        undone = (block.plain() for block in self.undone)
        return "\n".join(part for part in (self.title, self._body, *undone) if part)

    def pieces(self, split: bool = False) -> list[Piece]:
        """Return what is to be drawn, including the blank line below; `split` shows diffs side by side."""
        if self.open is not None:
            return [*self.open.pieces(), BLANK]
        match self.kind:
            case Kind.TOOL:
                pieces = self._tool_pieces(split)
            case Kind.AGENT:
                pieces = markdown(self.text)
            case Kind.FINISH | Kind.ERROR:
                pieces = [Piece(PieceKind.TITLE_WHOLE, self.title, self.mark, meta=self.meta)]
                pieces += markdown(self.text) if self.kind is Kind.FINISH else self._literal(self.text.split("\n"))
            case Kind.THOUGHT if self.folded and self.can_fold:
                pieces = [Piece(PieceKind.TITLE, self.text.strip(), self.kind)]
            case Kind.UNDONE:
                pieces = [Piece(PieceKind.TITLE_WHOLE, self.title, Kind.NOTE)]
                lines = [] if self.folded else "\n\n".join(block.plain() for block in self.undone).split("\n")
                pieces += literal(lines, PieceKind.TEXT, Kind.THOUGHT) if lines else []
            case Kind.NOTE | Kind.STATUS | Kind.DETAIL:
                tone = self.mark if self.mark is Mark.FAILED else self.kind
                pieces = [Piece(PieceKind.TITLE_WHOLE, self.title, tone, meta=self.meta)]
            case _:
                pieces = literal(self.text.split("\n"), PieceKind.TEXT, self.kind)
        pieces += [Piece(PieceKind.PICTURE, picture, self.kind) for picture in self._shown_pictures]
        return [*pieces, BLANK]

    @property
    def _shown_pictures(self) -> tuple[str, ...]:
        return () if self.pictures_fold and self.folded else self.pictures

    @property
    def _body(self) -> str:
        return self.text if self.live is None else self.live()

    def _tool_pieces(self, split: bool) -> list[Piece]:
        is_diff = self.body is PieceKind.DIFF
        kind = PieceKind.TITLE_PATH if self.path else PieceKind.TITLE
        title = Piece(kind if self.folded else PieceKind.TITLE_WHOLE, self.title, self.mark, meta=self.meta)
        head = title._replace(wide=is_diff)
        if not (text := self._body):
            return [head]
        lines = text.split("\n")
        hidden = self._hidden_count(len(lines))
        if self.folded and hidden > 0:
            lines = lines[hidden:] if self.body is PieceKind.OUTPUT else lines[: len(lines) - hidden]
        if self.folded and not is_diff:
            lines = [shorten(line, FOLDED_LINE_CHARS) for line in lines]
        body = diffs.pieces(lines, self.language, split) if is_diff else self._literal(lines)
        if not self.folded or not hidden:
            return [head, *body]
        if self.body is PieceKind.PLAN:
            return [head]  # the title has the number of finished tasks
        more = counted(hidden, "… {n} more line", "… {n} more lines")
        rest = Piece(PieceKind.HIDDEN, more, self.kind, wide=is_diff)
        return [head, rest, *body] if self.body is PieceKind.OUTPUT else [head, *body, rest]

    def _literal(self, lines: list[str]) -> list[Piece]:
        if lines == [""]:
            return []
        return literal(lines, self.body, self.kind, self.language)

    def _has_long_line(self) -> bool:
        return self.body is not PieceKind.DIFF and any(len(line) > FOLDED_LINE_CHARS for line in self._body.split("\n"))

    def _hidden_count(self, lines: int) -> int:
        """Return how many of so many lines are hidden while it is folded."""
        hidden = lines - self.shown
        return hidden if hidden >= MIN_HIDDEN_LINES or (hidden > 0 and self.body is PieceKind.PLAN) else 0

    def _line_count(self) -> int:
        return body.count("\n") + 1 if (body := self._body) else 0
