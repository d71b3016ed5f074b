"""Draws pieces as strips, for one width and one theme.

The reading column is at most 100 cells wide and in the middle; the cell to its left is free for the mark of the block
cursor. Styles come from the theme by role. The text is clean already; a strip is exactly as wide as the view. Strips
are cached within a limit, so memory does not grow with what was scrolled past.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from io import StringIO
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from tui.chat.diff_view import DiffLines, wrapped
from tui.chat.overlays import GUTTER
from tui.chat.text_pieces import Piece, PieceKind
from tui.i18n import _
from tui.terminal_io.glyphs import GLYPHS
from tui.terminal_io.graphics.picture_cells import Pixels, describe_size, drawn, size_in_cells
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.store.blobs import BlobRef
    from tui.terminal_io.graphics.picture_cells import Pictures


ROLES = (
    "text", "muted", "user", "bar", "title", "running", "awaiting", "ok", "failed", "accent", "heading", "code",
    "link", "string", "number", "name", "added", "removed", "added-word", "removed-word", "output", "hit", "hit-here",
    "chip", "cursor",
)  # fmt: skip
"""What a style is for. Each is a component class `chat--ROLE` of the view; `text` has no rule."""
MARKS = {
    "running": ("•", "running"),
    "awaiting": ("◇", "awaiting"),
    "ok": ("✓", "ok"),
    "failed": ("✕", "failed"),
    "interrupted": ("■", "awaiting"),
    "rejected": ("✕", "awaiting"),
    "note": ("■", "muted"),
    "status": ("→", "muted"),
    "detail": ("·", "muted"),
    "thought": ("≡", "muted"),
}
"""The glyph of a title and the glyph's role, by the tone of the title. One glyph, one meaning, one cell."""
QUIET = frozenset({"note", "status", "detail", "thought"})
"""Tones of titles that are not emphasised."""

CACHED_STRIPS = 2000
"""About 8 MB without what Textual caches in them, and 40 screens."""
RECENT_STRIPS = 200
"""Four screens; with what Textual caches in them they take no more than all others."""


class StripCache:
    """The strips of pieces, the most recently used ones last.

    Textual caches in a strip whatever it made of it: cut at other widgets' edges, filtered, selected. That is dozens of
    strips for each one, so only recent strips keep it; the others are replaced by copies without.
    """

    def __init__(self) -> None:
        self._all: OrderedDict[Piece, list[Strip]] = OrderedDict()
        self._recent: OrderedDict[Piece, None] = OrderedDict()
        self._count = self._recent_count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, piece: Piece) -> list[Strip] | None:
        strips = self._all.get(piece)
        if strips is not None:
            self._all.move_to_end(piece)
            self._use(piece, strips)
        return strips

    def put(self, piece: Piece, strips: list[Strip]) -> None:
        """Add the strips of a piece that is not cached, and drop the least recently used ones."""
        self._all[piece] = strips
        self._count += len(strips)
        self._use(piece, strips)
        while self._count > CACHED_STRIPS and len(self._all) > 1:
            old, dropped = self._all.popitem(last=False)
            self._count -= len(dropped)
            if old in self._recent:
                del self._recent[old]
                self._recent_count -= len(dropped)

    def _use(self, piece: Piece, strips: list[Strip]) -> None:
        if piece in self._recent:
            self._recent.move_to_end(piece)
            return
        self._recent[piece] = None
        self._recent_count += len(strips)
        while self._recent_count > RECENT_STRIPS and len(self._recent) > 1:
            old, _none = self._recent.popitem(last=False)
            self._recent_count -= len(self._all[old])
            self._all[old] = [Strip(list(strip), strip.cell_length) for strip in self._all[old]]


COLUMN = 100
"""Cells of the reading column, unless the settings say otherwise; longer lines are hard to read."""
MIN_COLUMN = 8
"""Below this nothing can be laid out; what does not fit is cut off."""
PICTURE_COLUMNS, PICTURE_ROWS = 80, 24
"""Cells of a picture in the chat at most; about half a screen."""
WIDE_COLUMN = 200
"""Cells of diffs side by side: two reading columns."""
BAR = "▌"
ONE_ROW = frozenset({PieceKind.TITLE, PieceKind.TITLE_PATH, PieceKind.HIDDEN, PieceKind.DIFF_GAP, PieceKind.BLANK})
TASK_ROLES = {"✓": "muted", "→": "title"}
"""The role of a task of a plan, by its glyph."""
Line = list[Segment]


class Renderer:
    """Draws pieces at one width with one set of styles."""

    def __init__(self, width: int, styles: Mapping[str, Style], column: int = COLUMN, *, split: bool = False) -> None:
        """`split` draws diffs side by side, wider than the reading column if there is room."""
        self.width = width
        self.split = split
        self.column = max(MIN_COLUMN, min(column or width, width - 2))
        self.left = max(0, (width - self.column) // 2)
        wide = max(MIN_COLUMN, min(WIDE_COLUMN, width - 2)) if split else self.column
        self._wide_left = max(0, (width - wide) // 2)
        self.renders = 0
        """The number of pieces that were drawn, without cached ones."""
        self._styles = dict(styles)
        self._cache = StripCache()
        self._console = Console(file=StringIO(), width=width, legacy_windows=False)
        self._markdown_console: Console | None = None
        self._margins = [Segment(" " * left, self._styles["text"] + GUTTER) for left in (self.left, self._wide_left)]
        self._indent = Segment("  ", self._styles["text"] + GUTTER)
        self._blank = self._strip([])
        self._diff = DiffLines(self._styles, wide, split)
        self._draw: dict[PieceKind, Callable[[Piece], Iterable[Line]]] = {
            PieceKind.TITLE: self._title,
            PieceKind.TITLE_PATH: self._title_path,
            PieceKind.TITLE_WHOLE: self._title_whole,
            PieceKind.MARKDOWN: self._markdown,
            PieceKind.CODE: self._code,
            PieceKind.CODE_OPEN: self._code,
            PieceKind.TEXT: self._text,
            PieceKind.OUTPUT: self._output,
            PieceKind.DIFF: self._diff.lines,
            PieceKind.DIFF_GAP: self._diff.gap,
            PieceKind.PLAN: self._plan,
            PieceKind.HIDDEN: self._output,
            PieceKind.PICTURE: self._picture,
        }
        self.pictures: Pictures | None = None
        """The pictures of the conversation; without it, only their room is drawn."""

    def strips(self, piece: Piece) -> list[Strip]:
        """Draw the rows of a piece; at least one, unless it is empty Markdown."""
        if piece.kind is PieceKind.BLANK:
            return [self._blank]
        cached = self._cache.get(piece)
        if cached is not None:
            return cached
        self.renders += 1
        strips = [self._strip(line, piece.wide) for line in self._draw[piece.kind](piece)]
        if piece.kind is PieceKind.PICTURE and GLYPHS.pictures_are_drawn and self._pixels(piece) is None:
            return strips  # it has yet to come
        if piece.gap:
            strips.insert(0, self._blank)
        self._cache.put(piece, strips)
        return strips

    def estimate(self, piece: Piece) -> int:
        """Estimate the number of rows of a piece; cheap, and never 0."""
        if piece.kind in ONE_ROW:
            return 1
        if piece.kind is PieceKind.PICTURE:
            return self._cells(piece)[1]
        return piece.text.count("\n") + 1 + len(piece.text) // self.column + piece.gap

    def left_of(self, piece: Piece) -> int:
        return self._wide_left if piece.wide else self.left

    def _strip(self, line: Line, wide: bool = False) -> Strip:
        margin = self._margins[wide]
        segments = [margin, *line] if margin.text else line
        return Strip(segments).adjust_cell_length(self.width, margin.style)

    def _wrap(self, text: str, width: int) -> list[str]:
        """Wrap a line to rows of at most `width` cells, between words if possible."""
        if len(text) <= width and (text.isascii() or cell_len(text) <= width):
            return [text]
        return [row.plain for row in Text(text, end="").wrap(self._console, max(1, width), overflow="fold")]

    def _filled(self, text: str, width: int) -> list[str]:
        """Wrap a line, cutting a long word such as a path that would leave a row half empty."""
        rows = self._wrap(text, width)
        if any(cell_len(row) * 2 < width for row in rows[:-1]):
            return ["".join(part.text for part in row) for row in wrapped([(Style(), text)], width)]
        return rows

    def _title(self, piece: Piece) -> Iterable[Line]:
        head, _newline, rest = piece.text.partition("\n")
        room = self._title_room(piece)
        title = sanitize_line(head + " …" if rest and piece.tone != "thought" else head, max(4, room))
        yield self._headline(piece, title)

    def _title_path(self, piece: Piece) -> Iterable[Line]:
        """Cut a path in its middle: its ends are what identifies it."""
        room = max(4, self._title_room(piece))
        title = sanitize_line(piece.text, len(piece.text) * 2)
        if cell_len(title) > room:
            title = f"{set_cell_size(title, room // 2).rstrip()}…{_last_cells(title, room - room // 2 - 1)}"
        yield self._headline(piece, title)

    def _title_room(self, piece: Piece) -> int:
        """Return the cells of a title: at least half of the line, so that the meta text is cut first."""
        row = self.column - 2
        return max(row // 2, row - (cell_len(piece.meta) + 2 if piece.meta else 0))

    def _title_whole(self, piece: Piece) -> Iterable[Line]:
        rows = [row for line in piece.text.split("\n") for row in self._filled(line, self.column - 2)]
        meta_fits = "\n" not in piece.meta and cell_len(rows[-1]) + cell_len(piece.meta) + 4 <= self.column
        style = self._title_style(piece)
        for index, row in enumerate(rows):
            if index == 0:
                yield self._headline(piece if meta_fits and len(rows) == 1 else piece._replace(meta=""), row)
            elif meta_fits and index == len(rows) - 1:
                yield [self._indent, Segment(row, style), *self._meta(piece, self.column - 4 - cell_len(row))]
            else:
                yield [self._indent, Segment(row, style)]
        if not meta_fits:
            for line in piece.meta.split("\n"):
                for row in self._wrap(line, self.column - 2):
                    yield [self._indent, Segment(row, self._styles["muted"])]

    def _headline(self, piece: Piece, title: str) -> Line:
        glyph, role = MARKS.get(piece.tone, ("·", "muted"))
        return [
            Segment(glyph + " ", self._styles[role] + GUTTER),
            Segment(title, self._title_style(piece)),
            *self._meta(piece, self.column - 4 - cell_len(title)),
        ]

    def _title_style(self, piece: Piece) -> Style:
        return self._styles["muted" if piece.tone in QUIET else "title"]

    def _meta(self, piece: Piece, room: int) -> Line:
        if not piece.meta or room < 1:
            return []
        role = "failed" if piece.tone == "failed" else "muted"
        return [Segment("  " + sanitize_line(piece.meta, room), self._styles[role])]

    def _markdown(self, piece: Piece) -> Iterable[Line]:
        from tui.chat.markdown_view import markdown_lines, theme_console

        if self._markdown_console is None:
            self._markdown_console = theme_console(self._styles)
        style = self._styles["muted" if piece.tone == "thought" else "text"]
        lines = markdown_lines(self._markdown_console, piece.text, self.column, style)
        return lines or self._text(piece)  # a piece that is empty as Markdown is shown as it is written

    def _code(self, piece: Piece) -> Iterable[Line]:
        lines = piece.text.split("\n")
        if not piece.language:
            return self._coloured([("code", line)] for line in lines)
        from tui.chat.syntax_colors import coloured_line, coloured_lines

        if piece.kind is PieceKind.CODE_OPEN:
            return self._coloured(coloured_line(line, piece.language) for line in lines)
        return self._coloured(coloured_lines(piece.text, piece.language))

    def _coloured(self, lines: Iterable[Iterable[tuple[str, str]]]) -> Iterable[Line]:
        """Draw lines of code on their own background, indented by two, wrapping long lines."""
        background = self._styles["code"]
        room = max(1, self.column - 4)
        for line in lines:
            parts = [(self._styles[role] + background.background_style, text) for role, text in line if text]
            if sum(cell_len(text) for _style, text in parts) <= room:
                rows = [[Segment(text, style) for style, text in parts]]
            else:
                whole = Text.assemble(*((text, style) for style, text in parts), end="")
                rows = [list(row.render(self._console)) for row in whole.wrap(self._console, room, overflow="fold")]
            for row in rows:
                used = sum(segment.cell_length for segment in row)
                pad = Segment(" " * (self.column - 2 - used), background + GUTTER)
                yield [Segment("  ", background + GUTTER), *row, pad]

    def _text(self, piece: Piece) -> Iterable[Line]:
        user = piece.tone == "user"
        style = self._styles["user" if user else "muted" if piece.tone == "thought" else "text"]
        for line in piece.text.split("\n"):
            for row in self._wrap(line, self.column - 2):
                pad = " " * (self.column - 2 - cell_len(row)) if user else ""
                yield [
                    Segment(f"{BAR} ", self._styles["bar"] + GUTTER) if user else self._indent,
                    Segment(row, style),
                    Segment(pad, style + GUTTER),
                ]

    def _output(self, piece: Piece) -> Iterable[Line]:
        style = self._styles["muted" if piece.kind is PieceKind.HIDDEN else "output"]
        for line in piece.text.split("\n"):
            for row in self._wrap(line, self.column - 2):
                yield [self._indent, Segment(row, style)]

    def _plan(self, piece: Piece) -> Iterable[Line]:
        """Draw a check list: finished tasks are muted, the current one is emphasised."""
        for line in piece.text.split("\n"):
            role = TASK_ROLES.get(line[:1], "text")
            glyph = "ok" if line[:1] == "✓" else "accent" if line[:1] == "→" else "muted"
            for number, row in enumerate(self._wrap(line[2:], self.column - 4)):
                mark = Segment(line[:2], self._styles[glyph]) if number == 0 else self._indent
                yield [self._indent, mark, Segment(row, self._styles[role])]

    def _picture(self, piece: Piece) -> Iterable[Line]:
        """Draw a picture in cells, or room for it and why it is missing."""
        ref = _ref(piece)
        if ref is not None and not GLYPHS.pictures_are_drawn:
            yield [Segment("  " + describe_size(ref.width, ref.height), self._styles["muted"])]
            return
        columns, rows = self._cells(piece)
        pixels = self._pixels(piece)
        if isinstance(pixels, Pixels):
            for line in drawn(pixels, columns, rows):
                yield [Segment("  "), *line]
            return
        text = _("Cannot show the image: {why}.").format(why=pixels) if pixels else "…"
        yield [Segment("  " + sanitize_line(text, self.column - 2), self._styles["muted"])]
        yield from ([] for _row in range(rows - 1))

    def _cells(self, piece: Piece) -> tuple[int, int]:
        ref = _ref(piece)
        if ref is None or not GLYPHS.pictures_are_drawn:
            return 1, 1
        return size_in_cells(ref.width, ref.height, min(self.column - 2, PICTURE_COLUMNS), PICTURE_ROWS)

    def _pixels(self, piece: Piece) -> Pixels | str | None:
        ref = _ref(piece)
        if ref is None:
            return _("it is not stored here")
        return self.pictures.get(ref) if self.pictures is not None else None


def _last_cells(text: str, cells: int) -> str:
    return set_cell_size(text[::-1], cells)[::-1].lstrip()


def _ref(piece: Piece) -> BlobRef | None:
    from core.store.blobs import BlobRef

    return BlobRef.parse(piece.text)
