"""Blocks: the things that a conversation is shown as, one after another.

A block keeps its text and no drawing: pieces and strips are caches with a limit, elsewhere. Whoever changes
a block calls `touch`, which is what tells a view to draw it anew. Text is clean when it comes in. Knows no
terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tui.chat import diffs
from tui.chat.text_pieces import BLANK, MarkdownSplitter, Piece, PieceKind, literal, markdown
from tui.i18n import counted

THOUGHT_CHARS = 90
"""A thought up to this long is shown whole, a longer one as its first line until it is unfolded."""

ROWS_OF_A_PICTURE = 12
"""A guess, until one is in sight."""


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
    """Stands for blocks that were undone."""


class Mark(StrEnum):
    """How something stands that was to be done."""

    NONE = "none"
    RUNNING = "running"
    AWAITING = "awaiting"
    """It waits for the user's consent."""
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
    """What the body is written in, by the name or the ending of a file of it."""
    path: str = ""
    """The file that it is about; the title ends in it."""
    folded: bool = True
    open: MarkdownSplitter | None = None
    """Set while the text still streams in; `text` is empty until then."""
    serial: int = 0
    """Place in the model; neighbours differ by one. Older blocks that come in later get smaller ones."""
    event_id: int = -1
    """The event that it began with; -1 where it shows none that is stored."""
    result_id: int = -1
    """The event whose result it shows; -1 where it shows none."""
    version: int = 0
    behind: tuple[Block, ...] = ()
    """The blocks that it stands for."""
    pictures: tuple[str, ...] = ()
    """References of what it shows."""
    pictures_fold: bool = False
    """Whether the pictures are folded away with the rest."""
    lines: int = 0
    """Lines that it shows, before any wrapping; with `chars`, what a height is estimated from."""
    chars: int = 0

    def touch(self) -> None:
        """Note that something changed."""
        self.version += 1
        if self.open is not None:
            self.lines, self.chars = self.open.newlines + 2, self.open.chars
        elif self.kind is Kind.TOOL and self.folded:
            shown = min(self.shown, self._line_count())
            self.lines, self.chars = shown + 2, 0
        elif self.kind is Kind.THOUGHT and self.folded:
            self.lines, self.chars = 2, 0
        elif self.kind is Kind.UNDONE:
            self.lines = 2 + (0 if self.folded else sum(block.lines for block in self.behind))
            self.chars = 0 if self.folded else sum(block.chars for block in self.behind)
        else:
            self.lines, self.chars = self._line_count() + (2 if self.title else 1), len(self.text)
        self.lines += ROWS_OF_A_PICTURE * len(self._shown_pictures)

    @property
    def can_fold(self) -> bool:
        """Whether folding makes a difference."""
        if self.kind is Kind.UNDONE:
            return bool(self.behind)
        if self.kind is Kind.TOOL:
            hides = self._line_count() > self.shown or (self.pictures_fold and bool(self.pictures))
            return hides or "\n" in self.title or len(self.title) > THOUGHT_CHARS
        return self.kind is Kind.THOUGHT and self.open is None and ("\n" in self.text or len(self.text) > THOUGHT_CHARS)

    @property
    def is_answer(self) -> bool:
        """Whether it is something that the agent says to the user."""
        return self.kind in (Kind.AGENT, Kind.FINISH) and bool(self.text)

    def plain(self) -> str:
        """All of it as text, for the clipboard."""
        behind = (block.plain() for block in self.behind)
        return "\n".join(part for part in (self.title, self.text, *behind) if part)

    def pieces(self, split: bool = False) -> list[Piece]:
        """What there is to draw, the blank line below it included; `split` has differences side by side."""
        if self.open is not None:
            return [*self.open.pieces(), BLANK]
        match self.kind:
            case Kind.TOOL:
                found = self._tool_pieces(split)
            case Kind.AGENT:
                found = markdown(self.text)
            case Kind.FINISH | Kind.ERROR:
                found = [Piece(PieceKind.TITLE_WHOLE, self.title, self.mark, meta=self.meta)]
                found += markdown(self.text) if self.kind is Kind.FINISH else self._literal(self.text.split("\n"))
            case Kind.THOUGHT if self.folded and self.can_fold:
                found = [Piece(PieceKind.TITLE, self.text.strip(), self.kind)]
            case Kind.UNDONE:
                found = [Piece(PieceKind.TITLE_WHOLE, self.title, Kind.NOTE)]
                lines = [] if self.folded else "\n\n".join(block.plain() for block in self.behind).split("\n")
                found += literal(lines, PieceKind.TEXT, Kind.THOUGHT) if lines else []
            case Kind.NOTE | Kind.STATUS | Kind.DETAIL:
                tone = self.mark if self.mark is Mark.FAILED else self.kind
                found = [Piece(PieceKind.TITLE_WHOLE, self.title, tone, meta=self.meta)]
            case _:
                found = literal(self.text.split("\n"), PieceKind.TEXT, self.kind)
        found += [Piece(PieceKind.PICTURE, picture, self.kind) for picture in self._shown_pictures]
        return [*found, BLANK]

    @property
    def _shown_pictures(self) -> tuple[str, ...]:
        return () if self.pictures_fold and self.folded else self.pictures

    def _tool_pieces(self, split: bool) -> list[Piece]:
        is_diff = self.body is PieceKind.DIFF
        kind = PieceKind.TITLE_PATH if self.path else PieceKind.TITLE
        title = Piece(kind if self.folded else PieceKind.TITLE_WHOLE, self.title, self.mark, meta=self.meta)
        found = [title._replace(wide=is_diff)]
        if not self.text:
            return found
        lines = self.text.split("\n")
        hidden = len(lines) - self.shown
        if self.folded and hidden > 0:
            lines = lines[hidden:] if self.body is PieceKind.OUTPUT else lines[: self.shown]
        body = diffs.pieces(lines, self.language, split) if is_diff else self._literal(lines)
        if not self.folded or hidden <= 0:
            return found + body
        if self.body is PieceKind.PLAN:
            return found  # its title says how far it came
        said = counted(hidden, "… {n} more line", "… {n} more lines")
        say = Piece(PieceKind.HIDDEN, said, self.kind, wide=is_diff)
        return [*found, say, *body] if self.body is PieceKind.OUTPUT else [*found, *body, say]

    def _literal(self, lines: list[str]) -> list[Piece]:
        if lines == [""]:
            return []
        return literal(lines, self.body, self.kind, self.language)

    def _line_count(self) -> int:
        return self.text.count("\n") + 1 if self.text else 0
