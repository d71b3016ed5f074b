"""Screencast: screenshots of the active page while somebody watches, at most five a second.

Chromium sends a screenshot when the page is redrawn, and the next one only after the last was acknowledged. So a static
page costs nothing, and the rate of an animated one is limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from playwright.async_api import CDPSession, Error

from runtime.plugins.browser import extraction
from runtime.plugins.browser.tabs import Tabs

PERIOD_S = 0.2
JPEG_QUALITY = 60
MAX_TITLE_CHARS, MAX_URL_CHARS = 1_000, 10_000
LOOK_S = 0.3
"""Timeout for reading the layout; a small page takes a hundredth of that."""


class Screencast:
    """Follows the active page. `show` gets `url`, `title`, `data` (JPEG in base64), `width` and `height`."""

    def __init__(self, tabs: Tabs, show: Callable[[dict[str, Any]], None]) -> None:
        self._tabs = tabs
        self._show = show
        self._wanted = asyncio.Event()
        self._unwanted = asyncio.Event()

    def switch(self, is_on: bool) -> None:
        """Start or stop. Never waits."""
        (self._wanted if is_on else self._unwanted).set()
        (self._unwanted if is_on else self._wanted).clear()

    async def run(self) -> None:
        """Cast while switched on, until cancelled."""
        while True:
            await self._wanted.wait()
            self._tabs.changed.clear()
            with suppress(Error):
                await self._cast()
            await asyncio.sleep(PERIOD_S)  # do not retry a failing page in a busy loop

    async def _cast(self) -> None:
        """Cast one page until another becomes active or nobody watches."""
        page = self._tabs.active
        session = await self._tabs.context.new_cdp_session(page)
        frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()  # Chromium sends two or three before it waits

        def take(frame: dict[str, Any]) -> None:  # a function, because playwright sets attributes on the handler
            frames.put_nowait(frame)

        session.on("Page.screencastFrame", take)
        await session.send("Page.startScreencast", {"format": "jpeg", "quality": JPEG_QUALITY})
        ends = [asyncio.create_task(self._tabs.changed.wait()), asyncio.create_task(self._unwanted.wait())]
        showing = asyncio.create_task(self._show_all(session, frames))
        try:
            await asyncio.wait([*ends, showing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ends, showing):
                task.cancel()
            await asyncio.gather(*ends, showing, return_exceptions=True)
            with suppress(Error):
                await session.detach()

    async def _show_all(self, session: CDPSession, frames: asyncio.Queue[dict[str, Any]]) -> None:
        url, is_slow = "", False  # once reading a page's layout took too long, it is not read again
        while True:
            received = [await frames.get()]
            while not frames.empty():
                received.append(frames.get_nowait())
            frame, page = received[-1], self._tabs.active
            view, layout = frame["metadata"], dict[str, Any]()
            is_slow = is_slow and page.url == url
            url = page.url
            if not is_slow:
                try:
                    async with asyncio.timeout(LOOK_S):
                        layout = await extraction.look(session)
                except TimeoutError:
                    is_slow = True
            self._show(
                {
                    "url": page.url[:MAX_URL_CHARS],
                    "title": (await page.title())[:MAX_TITLE_CHARS],
                    "data": frame["data"],
                    "width": round(view["deviceWidth"]),
                    "height": round(view["deviceHeight"]),
                    "look": layout,
                }
            )
            await asyncio.sleep(PERIOD_S)
            for seen in received:
                await session.send("Page.screencastFrameAck", {"sessionId": seen["sessionId"]})
