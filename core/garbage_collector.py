"""The garbage collector and what lives long: modules, and the events of open conversations.

Events are in no cycle, so the collector looks through them for nothing, and stops everything while it does: 350 ms at
100,000 events. They are freed like everything else as soon as nobody refers to them. What is in a cycle is not, and
keeps all that it holds: so what was spared is looked through now and then, once conversations have closed. The
settings are the process's.
"""

from __future__ import annotations

import gc
from itertools import count

YOUNG_OBJECTS = 10_000
"""New containers between two looks at the youngest; Python's 700 is a tenth of a burst's time."""
CLOSED = 16
"""Conversations that close between two looks at what was spared: each look takes as long as a whole collection, and
what a closed conversation leaves in cycles is small, because its events are let go of when it closes."""
_closed = count(1)


def spare() -> None:
    """Leave out of every later collection what is alive now. Costs nothing, so it may be called often."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    gc.freeze()


def look_again() -> None:
    """A conversation has closed. Once CLOSED have, free what was spared and is in cycles of nobody's."""
    if next(_closed) % CLOSED == 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
