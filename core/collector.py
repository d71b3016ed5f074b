"""The garbage collector and what lives long: modules, and the events of open conversations.

Events are in no cycle, so the collector looks through them for nothing, and stops everything while it does: 350 ms at
100,000 events. They are freed like everything else as soon as nobody refers to them. The settings are the process's.
"""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 10_000
"""New containers between two looks at the youngest; Python's 700 is a tenth of a burst's time."""


def spare() -> None:
    """Leave out of every later collection what is alive now. Costs nothing, so it may be called often."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    gc.freeze()
