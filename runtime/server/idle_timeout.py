"""When nobody is there any more: the server ends by itself, and its container with it.

Who has shown the key is there for as long as his connection is. A launcher that was killed closes its connections with
it, so nobody has to come back to clean up. Strangers do not count: they could keep a server alive for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Absence:
    """Calls `leave` once nobody has been there for `patience_s`; never where that is None. Belongs to one loop."""

    def __init__(self, patience_s: float | None) -> None:
        self._patience_s = patience_s
        self._leave: Callable[[], None] | None = None
        self._present: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, leave: Callable[[], None]) -> None:
        """Begin to wait for somebody."""
        self._leave = leave
        self._wait()

    def came(self, connection: asyncio.Task[None]) -> None:
        """Somebody who knows the key is there, until the task of his connection is done."""
        if self._timer is not None:
            self._timer.cancel()
        self._present.add(connection)
        connection.add_done_callback(self._went)

    def _went(self, connection: asyncio.Task[None]) -> None:
        self._present.discard(connection)
        if not self._present:
            self._wait()

    def _wait(self) -> None:
        if self._patience_s is not None and self._leave is not None:
            self._timer = asyncio.get_running_loop().call_later(self._patience_s, self._leave)
