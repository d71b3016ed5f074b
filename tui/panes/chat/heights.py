"""Heights of many blocks, so that any row finds its block in logarithmic time.

A Fenwick tree over row counts that also grows and shrinks at its end. Knows neither blocks nor rows' content.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import accumulate


class Heights:
    """Row counts of blocks 0..n-1 and their running sums."""

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
        """Add a block at the end."""
        i = len(self._tree)
        below, stop = i - 1, i - (i & -i)
        total = height
        while below > stop:
            total += self._tree[below]
            below -= below & -below
        self._heights.append(height)
        self._tree.append(total)

    def pop(self) -> None:
        """Take the last block away."""
        self._heights.pop()
        self._tree.pop()

    def top(self, index: int) -> int:
        """The row on which block `index` begins; with `index` = n, the number of all rows."""
        total = 0
        while index > 0:
            total += self._tree[index]
            index -= index & -index
        return total

    @property
    def total(self) -> int:
        """The number of all rows."""
        return self.top(len(self._heights))

    def find(self, row: int) -> tuple[int, int]:
        """The block that row `row` is in, and which row of it that is; (n, 0) or more beyond the end."""
        index, size = 0, len(self._tree)
        bit = 1 << (size - 1).bit_length()
        while bit:
            following = index + bit
            if following < size and self._tree[following] <= row:
                index = following
                row -= self._tree[following]
            bit >>= 1
        return index, row
