"""Which panes are on the screen: a pure function of its width and of what the user looks at."""

from __future__ import annotations

from typing import NamedTuple

PANES = ("chat", "events", "terminal", "browser")
NARROW = 100
"""Columns below which there is one pane."""
WIDE = 160
"""Columns from which everything is there at once."""
SPLIT = 120
"""Columns from which two conversations fit side by side."""
SPLIT_WIDE = 200
"""Columns from which the other panes fit beside the two."""
LOW = 30
"""Rows below which what is not needed gives way."""
SMALL = 16
"""Rows below which a question takes the place of nearly everything else."""
TINY = 12
"""Rows below which only the prompt, one pane and the footer are left."""
LEAST = 7
"""Rows below which a question shows only its body and the highlighted answer."""


class Arrangement(NamedTuple):
    """What is shown."""

    visible: frozenset[str]
    tabs: bool
    """Only one pane fits, so the others are named in the tab line."""


def arrange(
    width: int, looked_at: str, side: str, maximised: bool, has_pages: bool = False, *, split: bool = False
) -> Arrangement:
    """The panes for a width: `looked_at` is the pane last chosen, `side` the last chosen beside the chat.

    The browser has a place of its own once there are pages, or where the user goes there. Of a `split`, the second
    conversation is the pane `beside`; it gives way while the user looks at something other than a chat.
    """
    if width < NARROW:
        return Arrangement(frozenset({looked_at}), tabs=True)
    if maximised:
        return Arrangement(frozenset({looked_at}), tabs=False)
    if split and width >= SPLIT and (looked_at == "chat" or width >= SPLIT_WIDE):
        rest = arrange(width, looked_at, side, maximised, has_pages).visible if width >= SPLIT_WIDE else frozenset()
        return Arrangement(frozenset({"chat", "beside"}) | rest, tabs=False)
    if width < WIDE:
        return Arrangement(frozenset({"chat", side}), tabs=False)
    unused = frozenset() if has_pages or looked_at == "browser" else frozenset({"browser"})
    return Arrangement(frozenset(PANES) - unused, tabs=False)
