"""Live frames for watchers: tokens, terminal bytes, notices. Never stored, never waited for.

A Frames object belongs to one conversation. `publish` calls each watcher at once, in order, on the event loop; a
watcher that raises is dropped and logged. Watchers coalesce frames themselves: a screen marks itself dirty and draws at
its own pace.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from core.events.base import Frame

log = logging.getLogger(__name__)


class Frames:
    """The live frames of one conversation."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[Frame], None]] = []

    def watch(self, watcher: Callable[[Frame], None]) -> Callable[[], None]:
        """Call `watcher` with every frame from now on; call the returned function to stop."""
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    def publish(self, frame: Frame) -> None:
        """Pass a frame to every watcher. Never raises: a broken watcher must not stop an agent."""
        for watcher in tuple(self._watchers):
            try:
                watcher(frame)
            except Exception:
                log.exception("a watcher of live frames failed and is dropped")
                self._watchers.remove(watcher)
