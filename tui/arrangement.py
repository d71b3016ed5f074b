"""Which panes are on the screen: a pure function of its width and of what the user looks at."""

from __future__ import annotations

from typing import NamedTuple

PANES = ("chat", "events", "terminal", "browser")
NARROW = 100
"""Columns below which there is one pane."""
WIDE = 160
"""Columns from which everything is there at once."""
LOW = 30
"""Rows below which what is not needed gives way."""
TINY = 12
"""Rows below which only the prompt, one pane and the footer are left."""


class Arrangement(NamedTuple):
    """What is shown."""

    visible: frozenset[str]
    tabs: bool
    """Only one pane fits, so the others are named in the tab line."""


def arrange(width: int, looked_at: str, side: str, maximised: bool, has_pages: bool = False) -> Arrangement:
    """The panes for a width: `looked_at` is the pane last chosen, `side` the last chosen beside the chat.

    The browser has a place of its own once there are pages, or where the user goes there.
    """
    if width < NARROW:
        return Arrangement(frozenset({looked_at}), tabs=True)
    if maximised:
        return Arrangement(frozenset({looked_at}), tabs=False)
    if width < WIDE:
        return Arrangement(frozenset({"chat", side}), tabs=False)
    unused = frozenset() if has_pages or looked_at == "browser" else frozenset({"browser"})
    return Arrangement(frozenset(PANES) - unused, tabs=False)
