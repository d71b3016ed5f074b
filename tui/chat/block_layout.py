"""The layout of the chat: which row shows what, while most heights are only estimates.

Heights become exact when their piece becomes visible. The reader's row is kept as an Anchor (block, piece, row), never
as a number, so a block above it that turns out higher or lower moves nothing on the screen. Costs depend on what is
visible and on the logarithm of the rest. A `Column` belongs to one model at one width; knows no widget.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from textual.strip import Strip

    from tui.chat.blocks import Block
    from tui.chat.model import ChatModel
    from tui.chat.renderer import Renderer
    from tui.chat.text_pieces import Piece


class Heights:
    """Heights of blocks 0..n-1 and their running sums: a Fenwick tree that also grows and shrinks at its end."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = array("q", heights)
        sums = [0, *accumulate(self._heights)]
        self._tree = array("q", [sums[i] - sums[i & (i - 1)] for i in range(len(sums))])

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def __setitem__(self, index: int, height: int) -> None:
        change = height - self._heights[index]
        if not change:
            return
        self._heights[index] = height
        i, size = index + 1, len(self._tree)
        while i < size:
            self._tree[i] += change
            i += i & -i

    def append(self, height: int) -> None:
        i = len(self._tree)
        below, stop = i - 1, i - (i & -i)
        total = height
        while below > stop:
            total += self._tree[below]
            below -= below & -below
        self._heights.append(height)
        self._tree.append(total)

    def pop(self) -> None:
        self._heights.pop()
        self._tree.pop()

    def top(self, index: int) -> int:
        """Return the row on which block `index` begins; for `index` = n, the number of all rows."""
        total = 0
        while index > 0:
            total += self._tree[index]
            index -= index & -index
        return total

    @property
    def total(self) -> int:
        return self.top(len(self._heights))

    def find(self, row: int) -> tuple[int, int]:
        """Return the block of a row, and the row in the block; (n, 0) or more beyond the end."""
        index, size = 0, len(self._tree)
        bit = 1 << (size - 1).bit_length()
        while bit:
            following = index + bit
            if following < size and self._tree[following] <= row:
                index = following
                row -= self._tree[following]
            bit >>= 1
        return index, row


CACHED_LAYOUTS = 512
"""Blocks whose layout is kept; a screen shows a few dozen."""


class Anchor(NamedTuple):
    """A row, in a form that survives changes of height above it."""

    serial: int
    piece: int
    row: int


class Row(NamedTuple):
    strip: Strip
    serial: int
    piece: Piece
    number: int
    at: int


class Layout:
    """The pieces of one block at one version, and their heights: estimates until they are measured."""

    def __init__(self, version: int, pieces: list[Piece], before: Layout | None, renderer: Renderer) -> None:
        """Leading pieces that are the same as in the layout `before` keep their heights."""
        same = 0
        if before is not None:
            while same < min(len(pieces), len(before.pieces)) and pieces[same] == before.pieces[same]:
                same += 1
        self.version = version
        self.pieces: list[Piece] = pieces
        self.heights: list[int] = before.heights[:same] if before is not None else []
        self.is_exact: list[bool] = before.is_exact[:same] if before is not None else []
        self.same_rows = sum(self.heights)
        self.heights += [renderer.estimate(piece) for piece in pieces[same:]]
        self.is_exact += [False] * (len(pieces) - same)
        self._ends: list[int] | None = None

    @property
    def ends(self) -> list[int]:
        """For each piece, the row after its last, counted from the block's first."""
        if self._ends is None:
            self._ends = list(accumulate(self.heights))
        return self._ends

    @property
    def height(self) -> int:
        return self.ends[-1]

    def set_height(self, piece: int, height: int) -> None:
        self.is_exact[piece] = True
        if self.heights[piece] != height:
            self.heights[piece] = height
            self._ends = None

    def find(self, row: int) -> tuple[int, int]:
        """Return the piece of a row of the block, and the row in the piece."""
        piece = min(bisect_right(self.ends, row), len(self.ends) - 1)
        return piece, max(0, min(row - self.ends[piece] + self.heights[piece], self.heights[piece] - 1))


class Column:
    """The rows of all blocks of a model at one width."""

    def __init__(self, model: ChatModel, renderer: Renderer) -> None:
        self.model = model
        self._renderer = renderer
        self._layouts: OrderedDict[Block, Layout] = OrderedDict()
        self.base = 0
        self._stored = 0
        self._tail: list[Block] = []
        self.heights = Heights()
        self._build()

    def block(self, index: int) -> Block:
        """Return the block at an index; transient ones come after stored ones."""
        return self.model.blocks[index] if index < self._stored else self._tail[index - self._stored]

    def restyle(self, renderer: Renderer) -> None:
        """Draw with another renderer; with another width, all heights are estimates again."""
        same = (renderer.width, renderer.split) == (self._renderer.width, self._renderer.split)
        self._renderer = renderer
        if not same:
            self._layouts.clear()
            self._build()

    def sync(self) -> int | None:
        """Apply what changed in the model. Returns the first row that differs; None if all may."""
        blocks = self.model.blocks
        touched, self.model.touched = self.model.touched, set()
        if self._stored and (self._moves != self.model.moves or blocks[0].serial != self.base):
            self._build()
            return None
        known = self._stored
        for _ in self._tail:
            self.heights.pop()
        if not known and blocks:
            self.base = blocks[0].serial
        dirty = []
        for block in touched:
            index = block.serial - self.base
            if 0 <= index < known:
                self.heights[index] = self._estimate(block)
                dirty.append(self.heights.top(index) + self._same_rows(block))
        self._tail = self.model.tail
        for block in (*blocks[known:], *self._tail):
            self.heights.append(self._estimate(block))
        self._stored = len(blocks)
        dirty.append(self.heights.top(known))
        if known < len(self.heights):
            dirty[-1] += self._same_rows(self.block(known))
        return min(dirty)

    def _same_rows(self, block: Block) -> int:
        return self._layouts[block].same_rows if block in self._layouts else 0

    def _build(self) -> None:
        width = self._renderer.column
        self._moves = self.model.moves
        self._tail = self.model.tail
        self._stored = len(self.model.blocks)
        self.base = self.model.blocks[0].serial if self.model.blocks else 0
        heights = [block.lines + block.chars // width for block in self.model.blocks]
        self.heights = Heights(heights + [block.lines + block.chars // width for block in self._tail])
        for block, layout in self._layouts.items():
            index = block.serial - self.base
            if 0 <= index < self._stored and self.model.blocks[index] is block and layout.version == block.version:
                self.heights[index] = layout.height

    def _estimate(self, block: Block) -> int:
        if block in self._layouts:
            return self._layout(block).height
        return block.lines + block.chars // self._renderer.column

    def _layout(self, block: Block) -> Layout:
        """Return the layout of a block; pieces that did not change since the last version keep their height."""
        layout = self._layouts.get(block)
        if layout is not None and layout.version == block.version:
            self._layouts.move_to_end(block)
            return layout
        layout = Layout(block.version, block.pieces(self._renderer.split), layout, self._renderer)
        self._layouts[block] = layout
        if len(self._layouts) > CACHED_LAYOUTS:
            self._layouts.popitem(last=False)
        return layout

    def _measure(self, index: int, piece: int) -> int:
        layout = self._layout(self.block(index))
        if not layout.is_exact[piece]:
            layout.set_height(piece, len(self._renderer.strips(layout.pieces[piece])))
        return layout.heights[piece]

    def _settle_height(self, index: int) -> None:
        self.heights[index] = self._layout(self.block(index)).height

    def anchor(self, row: int) -> Anchor:
        index, within = self.heights.find(max(0, row))
        if index >= len(self.heights):
            return Anchor(self.base + len(self.heights), 0, 0)
        layout = self._layout(self.block(index))
        self._settle_height(index)
        return Anchor(self.base + index, *layout.find(within))

    def row(self, anchor: Anchor) -> int:
        index = anchor.serial - self.base
        if not 0 <= index < len(self.heights):
            return 0 if index < 0 else self.heights.total
        layout = self._layout(self.block(index))
        self._settle_height(index)
        piece = min(anchor.piece, len(layout.heights) - 1)
        within = layout.ends[piece] - layout.heights[piece] + min(anchor.row, max(0, layout.heights[piece] - 1))
        return self.heights.top(index) + within

    def settle(self, anchor: Anchor | None, height: int) -> int:
        """Measure what is visible, and return the row that is then on top.

        `anchor` is the row to be on top; None keeps the end at the bottom.
        """
        if anchor is not None:
            seen = -anchor.row
            for index, piece in self._forward(anchor.serial - self.base, anchor.piece):
                seen += self._measure(index, piece)
                if seen >= height:
                    self._settle_height(index)
                    return self.row(anchor)
        seen = 0
        for index, piece in self._backward():
            seen += self._measure(index, piece)
            if seen >= height:
                self._settle_height(index)
                break
        return max(0, self.heights.total - height)

    def _forward(self, index: int, piece: int) -> Iterator[tuple[int, int]]:
        index = max(0, index)
        while index < len(self.heights):
            count = len(self._layout(self.block(index)).pieces)
            for place in range(min(piece, count - 1), count):
                yield index, place
            self._settle_height(index)
            index, piece = index + 1, 0

    def _backward(self) -> Iterator[tuple[int, int]]:
        for index in range(len(self.heights) - 1, -1, -1):
            for place in range(len(self._layout(self.block(index)).pieces) - 1, -1, -1):
                yield index, place
            self._settle_height(index)

    def strip(self, row: int) -> Row | None:
        """Return what a row shows; None beyond the end."""
        index, within = self.heights.find(row)
        if index >= len(self.heights):
            return None
        layout = self._layout(self.block(index))
        place, at = layout.find(within)
        piece = layout.pieces[place]
        strips = self._renderer.strips(piece)
        at = min(at, len(strips) - 1)
        return Row(strips[at], self.base + index, piece, place, at)

    def pieces(self, serial: int) -> list[Piece]:
        return self._layout(self.block(serial - self.base)).pieces

    def rows_of(self, piece: Piece) -> list[Strip]:
        return self._renderer.strips(piece)

    def extent(self, serial: int) -> tuple[int, int]:
        """Return the first row of a block and the row after its last."""
        index = serial - self.base
        top = self.heights.top(index)
        return top, top + self.heights[index]
