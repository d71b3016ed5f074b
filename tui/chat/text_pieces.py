"""Cuts text into pieces that are cheap to draw.

A piece is drawn in a few milliseconds and without its neighbours, and does not change once the text has gone past it.
So a long answer costs what its last piece costs, whether it streams or is scrolled through. Streamed and stored text
look the same because both are cut by the same rules. Functions take clean text unless they say that they sanitise.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize

LINE_LIMIT = 4096
"""Characters of one line that are laid out: a line of 10 MB would take seconds."""
PROSE_LIMIT = 2048
"""Characters of Markdown in one piece; drawing them takes 3 ms."""
TABLE_LINES = 24
"""Lines of one table; the header is repeated after a cut."""
LIST_LINES = 16
CODE_LINES = 24
LITERAL_LINES = 32
LITERAL_LIMIT = 8192
HIGHLIGHT_LIMIT = 20_000
"""Characters of one fence that are highlighted: that costs eight times as much as drawing."""

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})[ ]*([^\s`]*)[^`]*\Z")
_FENCE_BEGUN = re.compile(r" {0,3}(`{1,}|~{2,})[\w+-]*\Z")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ ]|\Z)")
_TABLE_RULE = re.compile(r"[ ]*\|?[ ]*:?-+:?[ ]*(?:\|[ ]*:?-+:?[ ]*)*\|?[ ]*\Z")


class PieceKind(StrEnum):
    """How a piece is laid out."""

    TITLE = "title"
    """One line, cut at the right."""
    TITLE_PATH = "title_path"
    """One line that ends in a path, which is cut in its middle."""
    TITLE_WHOLE = "title_whole"
    MARKDOWN = "markdown"
    CODE = "code"
    CODE_OPEN = "code_open"
    """Code that still grows: highlighted line by line, so that only its last line costs anything."""
    TEXT = "text"
    """Literal words, wrapped."""
    OUTPUT = "output"
    DIFF = "diff"
    """Lines of a unified diff with their signs."""
    DIFF_GAP = "diff_gap"
    """Says what a diff leaves out."""
    PLAN = "plan"
    """A check list, one line a task, its glyph first."""
    HIDDEN = "hidden"
    """The line that says how much is folded."""
    PICTURE = "picture"
    """Its text is the picture's reference."""
    BLANK = "blank"


class Piece(NamedTuple):
    """One drawable part of a block."""

    kind: PieceKind
    text: str
    tone: str = ""
    """Chooses the colours: the state for a title, the kind of block for the rest."""
    gap: bool = False
    """Whether a blank line comes before it."""
    language: str = ""
    meta: str = ""
    """The dim text after a title."""
    numbers: tuple[int, int, int] | None = None
    """For a diff: the numbers of its first line in the old and the new file, and the digits of the largest number."""
    wide: bool = False
    """Whether it is part of a diff, which is wider than the reading column if shown side by side."""


BLANK = Piece(PieceKind.BLANK, "")


class MarkdownSplitter:
    """Cuts Markdown at blank lines, at fences, and before a piece grows too long.

    Takes raw text, split anywhere, and sanitises it line by line.
    """

    def __init__(self, tone: str = "") -> None:
        self.chars = 0
        self.newlines = 0
        self._raw: list[str] = []
        self._tone = tone
        self._closed: list[Piece] = []
        self._lines: list[str] = []
        self._size = 0
        self._gap = False
        self._blank = False
        self._fence = ""
        self._indent = 0
        self._language = ""
        self._fence_size = 0
        self._tail = ""

    def feed(self, raw: str) -> None:
        self._raw.append(raw)
        self.chars += len(raw)
        self.newlines += raw.count("\n")
        *whole, tail = (self._tail + raw).split("\n")
        for line in whole:
            for part in _cut(line, PROSE_LIMIT):
                self._take(part)
        *parts, self._tail = _cut(tail, PROSE_LIMIT)
        for part in parts:
            self._take(part)

    @property
    def text(self) -> str:
        return "".join(self._raw)

    def pieces(self) -> list[Piece]:
        """Return the pieces so far; every piece but the last is final."""
        tail = sanitize(self._tail.rstrip("\r"))
        lines = [*self._lines, tail] if tail and not _FENCE_BEGUN.match(tail) else self._lines
        if not lines:
            return list(self._closed)
        kind = PieceKind.CODE_OPEN if self._fence else PieceKind.MARKDOWN
        return [*self._closed, self._piece(kind, lines)]

    def finish(self) -> list[Piece]:
        """Return all pieces, when no more text follows."""
        if self._tail:
            self._take(self._tail)
            self._tail = ""
        self._close(gap=True)
        return list(self._closed)

    def _piece(self, kind: PieceKind, lines: list[str]) -> Piece:
        text = "\n".join(lines)
        language = self._language if kind in (PieceKind.CODE, PieceKind.CODE_OPEN) else ""
        return Piece(kind, text.rstrip() if kind is PieceKind.MARKDOWN else text, self._tone, self._gap, language)

    def _close(self, gap: bool) -> None:
        """End the current piece; `gap` says whether a blank line comes before the next one."""
        if self._lines:
            piece = self._piece(PieceKind.CODE if self._fence else PieceKind.MARKDOWN, self._lines)
            if self._fence or piece.text:
                self._closed.append(piece)
                self._gap = gap
            self._lines = []
        elif gap and self._closed:
            self._gap = True
        self._size = 0
        self._blank = False

    def _take(self, raw: str) -> None:
        line = sanitize(raw.removesuffix("\r"))
        if self._fence:
            self._take_code(line)
        elif (fence := _FENCE.match(line)) is not None:
            self._close(gap=True)
            self._indent, self._fence, self._language = len(fence[1]), fence[2], fence[3].lower()
            self._fence_size = 0
        else:
            self._take_prose(line)

    def _take_code(self, line: str) -> None:
        closing = line.strip()
        if closing.startswith(self._fence) and set(closing) == {self._fence[0]}:
            self._close(gap=True)
            self._fence = ""
            return
        self._fence_size += len(line) + 1
        if self._fence_size > HIGHLIGHT_LIMIT:
            self._language = ""
        if len(self._lines) >= CODE_LINES or self._size > LITERAL_LIMIT:
            self._close(gap=False)
        lead = len(line) - len(line.lstrip(" "))
        self._add(line[min(lead, self._indent) :])

    def _take_prose(self, line: str) -> None:
        is_list = bool(self._lines) and _ITEM.match(self._lines[0]) is not None
        if not line.strip():
            if is_list:
                self._blank = True
                self._add("")
            else:
                self._close(gap=True)
            return
        starts_item = _ITEM.match(line) is not None
        if self._blank and not line.startswith(" "):
            self._close(gap=True)
        elif is_list and starts_item and len(self._lines) >= LIST_LINES:
            self._close(gap=False)
        elif self._is_table() and len(self._lines) >= TABLE_LINES:
            header = self._lines[:2]
            self._close(gap=True)
            self._lines = header
        elif self._lines and self._size + len(line) > PROSE_LIMIT:
            self._close(gap=False)
        self._blank = False
        self._add(line)

    def _is_table(self) -> bool:
        return len(self._lines) > 1 and "|" in self._lines[0] and _TABLE_RULE.match(self._lines[1]) is not None

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1


def _cut(line: str, limit: int) -> list[str]:
    """Cut a line into parts of at most `limit` characters, at spaces if possible."""
    parts = []
    while len(line) > limit:
        at = line.rfind(" ", limit // 2, limit)
        at = limit if at < 0 else at + 1
        parts.append(line[:at])
        line = line[at:]
    return [*parts, line]


def markdown(text: str, tone: str = "") -> list[Piece]:
    """Cut a whole Markdown text into pieces. Sanitises."""
    splitter = MarkdownSplitter(tone)
    splitter.feed(text)
    return splitter.finish()


def fences(text: str) -> list[str]:
    """Return the code of each fence of a Markdown text that is not empty."""
    found = []
    fence, indent = "", 0
    code: list[str] = []
    for line in text.split("\n"):
        closing = line.strip()
        if fence and closing.startswith(fence) and set(closing) == {fence[0]}:
            found.append("\n".join(code))
            fence, code = "", []
        elif fence:
            code.append(line[min(len(line) - len(line.lstrip(" ")), indent) :])
        elif (begun := _FENCE.match(line)) is not None:
            indent, fence = len(begun[1]), begun[2]
    return [code for code in [*found, "\n".join(code).rstrip("\n")] if code]


def fence_of(pieces: list[Piece], number: int) -> int:
    """Return the number of the fence that a piece belongs to; long code is many pieces without gaps."""
    begun = 0
    for at, piece in enumerate(pieces[: number + 1]):
        follows = at > 0 and pieces[at - 1].kind is PieceKind.CODE and not piece.gap
        begun += piece.kind is PieceKind.CODE and not follows
    return begun - 1


def literal(lines: list[str], kind: PieceKind, tone: str = "", language: str = "") -> list[Piece]:
    """Cut lines that are shown as they are into pieces. Lines of output and code are shortened to LINE_LIMIT."""
    found: list[Piece] = []
    chunk: list[str] = []
    size = 0
    for line in lines:
        parts = _cut(line, LINE_LIMIT) if kind is PieceKind.TEXT else [shorten(line)]
        for part in parts:
            if chunk and (len(chunk) >= LITERAL_LINES or size + len(part) > LITERAL_LIMIT):
                found.append(Piece(kind, "\n".join(chunk), tone, language=language))
                chunk, size = [], 0
            chunk.append(part)
            size += len(part)
    if chunk:
        found.append(Piece(kind, "\n".join(chunk), tone, language=language))
    return found


def shorten(line: str, limit: int = LINE_LIMIT) -> str:
    """Cut a line to `limit` characters, and say how much is left out."""
    left_out = len(line) - limit
    if left_out <= 0:
        return line
    return f"{line[:limit]}… {_('{n} more characters').format(n=f'{left_out:,}')}"
