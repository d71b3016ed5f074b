"""One bug for each row of docs/threats.md: planted, it takes the row's protection away, and a test of the row fails.

`python -m tests.mutants --threats` plants them. `old` is in its file exactly once; a short test holds that, so that a
change of the program takes its row along.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """The bug of one row. `tests` are those of the row where it names none."""

    number: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...] = ()


PLANTED: tuple[Planted, ...] = ()
