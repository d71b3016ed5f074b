"""Sharp: one pane's picture as the terminal draws it. It is made off the loop, sent once, and taken away again.

Whoever draws says with each frame what is wanted, and learns what may be shown by now: the picture itself, the one
before in its place, or nothing yet. So there is never a hole while the next one is on its way, and one that nobody
wants any more when it is ready is not sent. Pictures follow each other no faster than the terminal takes them, and no
faster than BYTES_PER_S. A pane that is not drawn wants nothing, and `clear` takes away what it had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tui.terminal_io.escapes import placed
from tui.terminal_io.graphics.graphics_support import Terminal
from tui.terminal_io.graphics.kitty import INK, placeholders, transmission
from tui.terminal_io.graphics.scaled_picture import Tile, Wanted, scaled
from tui.terminal_io.graphics.sixel import MOST_SIDE, sixels

BYTES_PER_S = 4_000_000
"""What is sent at most: some 30 pictures of a page, and what a slow terminal still draws."""
HIGHEST = 250
"""Of the highest byte of a picture's number, after which it begins at 1 again."""


class Sharp:
    """The picture of one pane. `ready` is called when another one may be shown, `spawn` begins a task."""

    def __init__(
        self, terminal: Terminal, ready: Callable[[], None], spawn: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        self._terminal = terminal
        self._ready = ready
        self._spawn = spawn
        self._wanted: Wanted | None = None
        self._shown: Wanted | None = None
        self._works = False

    def want(self, wanted: Wanted) -> bool:
        """Have this picture made, unless it is there. Answers whether there is one for its place by now."""
        self._wanted = wanted
        if not wanted.is_same(self._shown) and not self._works:
            self._works = True
            self._spawn(self._work())
        return self._shown is not None and self._shown.place == wanted.place

    def clear(self) -> None:
        """Take away what is there, and want nothing."""
        self._wanted = self._shown = None

    async def _work(self) -> None:
        try:
            while (wanted := self._wanted) is not None and not wanted.is_same(self._shown):
                made = await asyncio.to_thread(self._make, wanted)
                if self._wanted is None or self._wanted.place != wanted.place:
                    continue
                await self._put(wanted, made)
                await asyncio.sleep(sum(len(tile.drawing) for tile in made) / BYTES_PER_S)
        finally:
            self._works = False

    def _make(self, wanted: Wanted) -> list[Tile]:
        """What is written for a picture. Takes up to 100 ms, in a thread."""
        raise NotImplementedError

    async def _put(self, wanted: Wanted, made: list[Tile]) -> None:
        """Have it shown. Returns when another may be put."""
        raise NotImplementedError


class KittyPicture(Sharp):
    """By placeholders: the pane's cells say where the picture is, so whatever moves or covers them does so to it.

    Each picture has a number of its own. The one before stays until the next but one is there, for cells that are still
    to be drawn.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._high = 0
        self._alive: list[int] = []

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """What stands in the pane for the picture that `want` said is there."""
        assert self._shown is not None
        return placeholders(*self._shown.place, self._alive[-1])

    def clear(self) -> None:
        super().clear()
        while self._alive:
            self._terminal.remove(INK.number(self._alive.pop()))

    def _make(self, wanted: Wanted) -> list[Tile]:
        self._high = self._high % HIGHEST + 1
        pixels = scaled(wanted, exact=False)
        return [Tile(0, 0, transmission(pixels, INK.number(self._high), wanted.columns, wanted.rows))]

    async def _put(self, wanted: Wanted, made: list[Tile]) -> None:
        while len(self._alive) > 1:
            self._terminal.remove(INK.number(self._alive.pop(0)))
        self._alive.append(self._high)
        taken = self._terminal.send(made[0].drawing, INK.number(self._high))
        self._shown = wanted
        self._ready()
        await taken


class SixelPicture(Sharp):
    """By pixels over the pane's cells: whoever draws cells asks for it again afterwards."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._tiles: list[Tile] = []

    def drawing(self, column: int, row: int) -> str:
        """What draws it from a cell of the screen on; empty where there is none."""
        if self._shown is None:
            return ""
        across, down = self._shown.cell
        return "".join(
            placed(tile.drawing, column + tile.left // across, row + tile.top // down) for tile in self._tiles
        )

    def _make(self, wanted: Wanted) -> list[Tile]:
        across, down = wanted.cell
        return sixels(scaled(wanted, exact=True), (MOST_SIDE // across * across, MOST_SIDE // down * down))

    async def _put(self, wanted: Wanted, made: list[Tile]) -> None:
        self._shown, self._tiles = wanted, made
        self._ready()
