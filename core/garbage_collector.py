"""Settings of Python's garbage collector for long-lived objects: modules, and events of open conversations.

Events form no cycles, but the collector would scan them and pause the program: 350 ms at 100,000 events. So they are
frozen (`gc.freeze`), and still freed by reference counting. Frozen objects in cycles are collected once in a while,
after conversations have closed.
"""

from __future__ import annotations

import gc
from itertools import count

YOUNG_OBJECTS = 10_000
"""New objects between two collections of the youngest generation; Python's 700 costs a tenth of a burst's time."""
CLOSED = 16
"""Closed conversations between two collections of frozen objects: each takes as long as a full collection, and a closed
conversation leaves little behind, because it releases its events."""
_closed = count(1)


def freeze() -> None:
    """Exclude all current objects from later collections. Cheap, so it may be called often."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    gc.freeze()


def conversation_closed() -> None:
    """Note that a conversation has closed. After CLOSED of them, collect frozen objects in cycles."""
    if next(_closed) % CLOSED == 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
