"""Tabs: the open pages, which of them is the active one, and what happens on them by itself.

Nothing that a page does waits for somebody: dialogs are dismissed, windows beyond MAX_TABS are closed, a page that
crashed or hangs is replaced by a blank one. All of it is noted for the step in which it happened.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, Error, Frame, Page, Request

from runtime.plugins.browser import addresses

T = TypeVar("T")

MAX_TABS = 5
MAX_NOTES = 20
"""Of a step; 1,000 alerts say no more than the first ones."""
MAX_NOTE_CHARS = 300
ANSWER_S = 8.0
"""A page that does not answer a question for so long hangs. With a navigation of 30 s before, a step ends in 40."""
ALIVE_S = 2.0
"""Chromium itself is never as busy as its pages."""
LOADED_WITHIN_MS = 3_000
"""BrowserGym's patience with pages that load, after a step."""
ABORTED = "net::ERR_ABORTED"
ANY_ADDRESS = "http://localhost/"
DOWNLOAD_BEGINS_S = 0.5
_FRAME = "() => new Promise(done => { requestAnimationFrame(() => setTimeout(done)); setTimeout(done, 100); })"
"""Resolves once what was handed to the page was handled and drawn; a tab that is out of sight draws nothing."""


class HangError(Exception):
    """The page does not answer."""


class Notes:
    """What happened in one step beyond what was asked for, a bounded number of lines."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._left_out = 0

    def add(self, text: str) -> None:
        text = " ".join(text.split())[:MAX_NOTE_CHARS]
        if text in self._counts or len(self._counts) < MAX_NOTES:
            self._counts[text] += 1
        else:
            self._left_out += 1

    def add_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.add(text)

    def take(self) -> list[str]:
        """All of them, and begin anew."""
        lines = [text if count == 1 else f"{text} ({count} times)" for text, count in self._counts.items()]
        if self._left_out:
            lines.append(f"{self._left_out} more notes are left out")
        self._counts.clear()
        self._left_out = 0
        return lines


class Tabs:
    """The pages of one Chromium. Belongs to one loop; `context` has one page at least."""

    def __init__(self, context: BrowserContext, notes: Notes) -> None:
        self.context = context
        self.notes = notes
        self.downloads: list[Download] = []
        """That began since they were taken last."""
        self.closed = asyncio.Event()
        """Set when Chromium is gone."""
        self.changed = asyncio.Event()
        """Set when another page became the active one."""
        self._sessions: dict[Page, CDPSession] = {}
        self._navigating: dict[Page, Request] = {}
        self._moved = asyncio.Event()
        self._aborted = False
        self._broken: set[Page] = set()
        self._closing: set[asyncio.Task[None]] = set()
        context.on("page", self._opened)
        context.on("dialog", self._dismiss)
        context.on("close", lambda _: self.closed.set())
        context.set_default_timeout(ANSWER_S * 1000)
        for page in context.pages:
            self._follow(page)
        self._active = context.pages[0]

    @property
    def active(self) -> Page:
        """The page that functions act on."""
        return self._active

    @active.setter
    def active(self, page: Page) -> None:
        self._active = page
        self.changed.set()

    @property
    def urls(self) -> list[str]:
        return [page.url for page in self.context.pages]

    @property
    def active_index(self) -> int:
        pages = self.context.pages
        return pages.index(self._active) if self._active in pages else -1

    async def is_alive(self) -> bool:
        """Whether Chromium itself answers, whatever its pages do."""
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(ALIVE_S):
                await self.context.cookies(ANY_ADDRESS)
                return True
        return False

    async def session(self, page: Page) -> CDPSession:
        """The page's own line to Chromium. Raises playwright's Error."""
        if page not in self._sessions:
            self._sessions[page] = await self.context.new_cdp_session(page)
        return self._sessions[page]

    async def answered(self, question: Awaitable[T], within_s: float = ANSWER_S) -> T:
        """What the active page answers. Raises HangError where it does not in time, and playwright's Error."""
        try:
            async with asyncio.timeout(within_s):
                return await question
        except TimeoutError:
            raise HangError from None

    async def open(self) -> Page:
        """A new page, which becomes the active one. Raises ValueError where there are MAX_TABS."""
        if len(self.context.pages) >= MAX_TABS:
            raise ValueError(f"at most {MAX_TABS} tabs are open at once; close one with tab_close() first")
        self.active = await self.context.new_page()
        return self._active

    async def settle(self) -> None:
        """Wait until the page has handled what it was given, and until what it navigates to is there.

        Raises HangError.
        """
        await self.drawn()
        await self._until(lambda: self._active not in self._navigating or self._active in self._broken)
        if self._aborted:  # by the server's own wish, or because what came is a file, which is told a little later
            self._aborted = False
            await self._until(lambda: bool(self.downloads), DOWNLOAD_BEGINS_S)
        with suppress(Error):
            await self._active.wait_for_load_state("domcontentloaded", timeout=LOADED_WITHIN_MS)

    async def _until(self, is_so: Callable[[], bool], within_s: float = LOADED_WITHIN_MS / 1000) -> None:
        """Wait until that is so, or for so long: looked at whenever a navigation or a download moves on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not is_so():
                    self._moved.clear()
                    await self._moved.wait()

    async def drawn(self) -> None:
        """Wait until the page has drawn what it knows of. Raises HangError; an error shows when it is looked at."""
        with suppress(Error):
            await self.answered(self._active.evaluate(_FRAME))

    async def mend(self, *, hangs: bool = False) -> str:
        """Put a blank page in the place of the active one where that is closed, broken, or `hangs`; the answer says
        why, and is empty where it is well. Raises TimeoutError and playwright's Error where Chromium opens none."""
        page, why = self._active, ""
        if hangs:
            why = "The page did not respond and was closed"
        elif page in self._broken:
            why = "The page crashed and was closed"
        elif why_not := addresses.why_not(page.url):
            why = f"The page was closed: {why_not}" if not _is_inner(page.url) else ""
        if why or page.is_closed():
            others = [other for other in self.context.pages if other not in self._broken and other is not page]
            self.active = others[-1] if others and not why else await self._blank()
        if why:
            self._close(page)
        return why

    async def _blank(self) -> Page:
        async with asyncio.timeout(ANSWER_S):
            return await self.context.new_page()

    def _follow(self, page: Page) -> None:
        page.on("crash", self._crashed)
        page.on("close", self._forget)
        page.on("download", self._downloads)
        page.on("request", self._requested)
        page.on("requestfailed", self._failed)
        page.on("framenavigated", self._navigated)

    def _opened(self, page: Page) -> None:
        if len(self.context.pages) > MAX_TABS:
            self.notes.add(f"A window that the page opened was closed: at most {MAX_TABS} tabs are open at once")
            self._close(page)
            return
        self._follow(page)
        self.active = page

    def _close(self, page: Page) -> None:
        closing = asyncio.create_task(_closed(page))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _dismiss(self, dialog: Dialog) -> None:
        with suppress(Error):
            if dialog.type == "beforeunload":  # to dismiss it would be to stay
                await dialog.accept()
                return
            self.notes.add(f"A dialog of the page was dismissed: {dialog.type} {dialog.message!r}")
            await dialog.dismiss()

    def _downloads(self, download: Download) -> None:
        self.downloads.append(download)
        self._moved.set()

    def _crashed(self, page: Page) -> None:
        self._broken.add(page)
        self._moved.set()

    def _forget(self, page: Page) -> None:
        self._sessions.pop(page, None)
        self._navigating.pop(page, None)
        self._broken.discard(page)
        self._moved.set()
        if page is self._active and (others := self.context.pages):
            self.active = others[-1]

    def _requested(self, request: Request) -> None:
        with suppress(Error):  # of a page that is gone
            if request.is_navigation_request() and request.frame.parent_frame is None:
                self._navigating[request.frame.page] = request

    def _failed(self, request: Request) -> None:
        """One that was aborted leads nowhere; after any other failure Chromium navigates to a page that says so."""
        page = next((page for page, navigation in self._navigating.items() if navigation is request), None)
        if page is not None and request.failure == ABORTED:
            del self._navigating[page]
            self._aborted = True
            self._moved.set()

    def _navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None:
            self._navigating.pop(frame.page, None)
            self._moved.set()


def _is_inner(url: str) -> bool:
    """Whether Chromium shows this in the place of a page that it could not open."""
    return url.startswith("chrome-error:")


async def _closed(page: Page) -> None:
    with suppress(Error, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            await page.close()
