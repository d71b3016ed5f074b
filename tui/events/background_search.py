"""Looks through the older events for a filter, in the background, from the newest back.

One page at a time, each as long as it may be without holding up the keys; what is found is shown at once. Ends when the
filter is another one, or has seen everything. Cancelling it between two pages loses nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.events import EventSource
from core.store.reader import EventFilter

if TYPE_CHECKING:
    from tui.events.event_filter import Filter
    from tui.events.model import EventsModel
    from tui.workspace.tab import Log

SLICE_S = 0.006
"""Seconds of the event loop that a page may take: a part of a frame, so that a key hardly waits."""
MOST = 400
"""Events of a page: so many small ones take about that long."""


async def search(model: EventsModel, log: Log, tell: Callable[[], None]) -> None:
    """Show the model's filter every older event. Raises StoreError."""
    wanted, limit = model.filter, 50
    if wanted is None:
        return
    reach, where = wanted.reach, _where(wanted)
    while model.filter is wanted and model.is_searching:
        started_at = time.thread_time()
        before = min(model.searched, reach.highest + 1)
        page = await log.page(before=before, limit=limit, where=where)
        if model.filter is not wanted:
            return
        is_whole = len(page) < limit or page[0].id <= reach.lowest
        model.look_through(page, reach.lowest if is_whole else page[0].id)
        tell()
        took_s = time.thread_time() - started_at
        limit = max(1, limit // 2) if took_s > SLICE_S else min(MOST, limit * 2 if took_s < SLICE_S / 3 else limit)
        await asyncio.sleep(0)


def _where(wanted: Filter) -> EventFilter:
    """What the store leaves out by itself."""
    kinds = frozenset(f"{branch}:{kind}" for kind in wanted.reach.kinds for branch in ("action", "observation"))
    return EventFilter(kinds=kinds, sources=frozenset(EventSource(source) for source in wanted.reach.sources))
