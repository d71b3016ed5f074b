"""PageStream: who watches the page. Pictures are made only while somebody does, and a slow reader skips some.

`GET /browser/stream` answers PageShown frames, one JSON object a line, until the server ends. The last picture comes
first.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from core.events import PageShown
from runtime.protocol import NDJSON_TYPE, encode_frame


class PageStream:
    """Hands the newest picture to every reader. `on_watched` is told when the first comes and the last goes."""

    def __init__(self, on_watched: Callable[[bool], None]) -> None:
        self._on_watched = on_watched
        self._newest: PageShown | None = None
        self._readers: set[asyncio.Event] = set()
        self._is_closed = False
        self.routes: Sequence[web.RouteDef] = [web.get("/browser/stream", self._serve, allow_head=False)]

    @property
    def is_watched(self) -> bool:
        return bool(self._readers)

    def show(self, page: dict[str, Any]) -> None:
        """A picture as the worker sends it. Never waits."""
        self._newest = PageShown(
            cause=page["cause"],
            url=page["url"],
            title=page["title"],
            data=base64.b64decode(page["data"]),
            width=page["width"],
            height=page["height"],
            look=page.get("look", {}),
        )
        for changed in self._readers:
            changed.set()

    def close(self) -> None:
        """Nothing more will be shown: readers come to an end."""
        self._is_closed = True
        for changed in self._readers:
            changed.set()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE})
        await response.prepare(request)
        changed, shown = asyncio.Event(), None
        self._readers.add(changed)
        if len(self._readers) == 1:
            self._on_watched(True)
        try:
            while not self._is_closed:
                if self._newest is not None and self._newest is not shown:
                    shown = self._newest
                    await response.write(encode_frame(shown) + b"\n")
                    continue
                changed.clear()
                await changed.wait()
        finally:
            self._readers.discard(changed)
            if not self._readers:
                self._newest = None
                self._on_watched(False)
        await response.write_eof()
        return response
