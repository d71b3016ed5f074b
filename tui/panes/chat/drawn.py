"""What was drawn and may be wanted again: the strips of pieces, within a limit.

A strip keeps whatever was ever made of it for the screen: cut at other widgets' edges, filtered, selected. That is
dozens of strips for each one, so only strips of late are kept with it; the others are kept bare.
"""

from __future__ import annotations

from collections import OrderedDict

from textual.strip import Strip

from tui.panes.chat.pieces import Piece

CACHED_STRIPS = 2000
"""About 8 MB while they are bare, and 40 screens."""
LATE_STRIPS = 200
"""Four screens; with what is made of them they take no more than all that are bare."""


class Drawn:
    """The strips of pieces, the latest ones last."""

    def __init__(self) -> None:
        self._all: OrderedDict[Piece, list[Strip]] = OrderedDict()
        self._late: OrderedDict[Piece, None] = OrderedDict()
        self._count = self._late_count = 0

    def __len__(self) -> int:
        """How many strips there are."""
        return self._count

    def get(self, piece: Piece) -> list[Strip] | None:
        """The strips of a piece; None where they have to be drawn."""
        strips = self._all.get(piece)
        if strips is not None:
            self._all.move_to_end(piece)
            self._use(piece, strips)
        return strips

    def put(self, piece: Piece, strips: list[Strip]) -> None:
        """Keep the strips of a piece, which has none here, and forget what was not wanted for longest."""
        self._all[piece] = strips
        self._count += len(strips)
        self._use(piece, strips)
        while self._count > CACHED_STRIPS and len(self._all) > 1:
            old, gone = self._all.popitem(last=False)
            self._count -= len(gone)
            if old in self._late:
                del self._late[old]
                self._late_count -= len(gone)

    def _use(self, piece: Piece, strips: list[Strip]) -> None:
        if piece in self._late:
            self._late.move_to_end(piece)
            return
        self._late[piece] = None
        self._late_count += len(strips)
        while self._late_count > LATE_STRIPS and len(self._late) > 1:
            old, _none = self._late.popitem(last=False)
            self._late_count -= len(self._all[old])
            self._all[old] = [Strip(list(strip), strip.cell_length) for strip in self._all[old]]
