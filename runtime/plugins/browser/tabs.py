"""Tabs: the open pages, which one is active, and events that pages cause on their own.

Nothing that a page does waits for input: dialogs are dismissed, windows beyond MAX_TABS are closed, and a page that
crashed or hangs is replaced by a blank one. Each of these adds a note to the current step.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from playwright.async_api import BrowserContext, CDPSession, Dialog, Download, Error, Frame, Page, Request

from runtime.plugins.browser import network_filter

T = TypeVar("T")

MAX_TABS = 5
MAX_NOTES = 20
"""Per step."""
MAX_NOTE_CHARS = 300
ANSWER_S = 8.0
"""A page that does not answer within this time hangs. With a navigation of 30 s before, a step ends within 40 s."""
ALIVE_S = 2.0
"""Chromium's main process is never as busy as its pages."""
LOADED_WITHIN_MS = 3_000
"""BrowserGym's timeout for loading pages after a step."""
PDF_DRAWN_S = 2.0
ABORTED = "net::ERR_ABORTED"
ANY_ADDRESS = "http://localhost/"
DOWNLOAD_BEGINS_S = 0.5
MAX_ASKED = 200
"""Addresses of pages whose step is remembered until a download begins."""
_FRAME = "() => new Promise(done => { requestAnimationFrame(() => setTimeout(done)); setTimeout(done, 100); })"
"""Resolves when the page has handled its input and drawn a frame; a background tab draws none, so 100 ms suffice."""


class HangError(Exception):
    """The page does not answer."""


class Notes:
    """Notes about unrequested events in one step, limited to MAX_NOTES different lines."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._left_out = 0

    def add(self, text: str) -> None:
        text = " ".join(text.split())[:MAX_NOTE_CHARS]
        if text in self._counts or len(self._counts) < MAX_NOTES:
            self._counts[text] += 1
        else:
            self._left_out += 1

    def take(self) -> list[str]:
        """Return all notes and clear them."""
        lines = [text if count == 1 else f"{text} ({count} times)" for text, count in self._counts.items()]
        if self._left_out:
            lines.append(f"{self._left_out} more notes are left out")
        self._counts.clear()
        self._left_out = 0
        return lines


class Tabs:
    """The pages of one Chromium. Belongs to one event loop; `context` has at least one page."""

    def __init__(self, context: BrowserContext, notes: Notes) -> None:
        self.context = context
        self.notes = notes
        self.downloads: list[Download] = []
        """Downloads of this step that have not been handled yet."""
        self.late_downloads: list[Download] = []
        """Downloads that an earlier step asked for and that have not been handled yet."""
        self.step = 0
        """The number of the current step, or of the last one."""
        self._asked_in: dict[str, int] = {}
        """The steps in which pages were asked for, by their addresses."""
        self.closed = asyncio.Event()
        """Set when Chromium has ended."""
        self.changed = asyncio.Event()
        """Set when another page has become active."""
        self._sessions: dict[Page, CDPSession] = {}
        self._navigating: dict[Page, Request] = {}
        self._moved = asyncio.Event()
        self._aborted = False
        self._crash = asyncio.Event()
        """Set while the active page is a crashed one."""
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
        (self._crash.set if page in self._broken else self._crash.clear)()
        self.changed.set()

    @property
    def urls(self) -> list[str]:
        return [page.url for page in self.context.pages]

    @property
    def active_index(self) -> int:
        pages = self.context.pages
        return pages.index(self._active) if self._active in pages else -1

    async def is_alive(self) -> bool:
        """Whether Chromium's main process answers."""
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(ALIVE_S):
                await self.context.cookies(ANY_ADDRESS)
                return True
        return False

    async def session(self, page: Page) -> CDPSession:
        """Return the page's DevTools session, which is opened once. Raises playwright's Error."""
        if page not in self._sessions:
            self._sessions[page] = await self.context.new_cdp_session(page)
        return self._sessions[page]

    async def answered(self, awaitable: Awaitable[T], within_s: float = ANSWER_S) -> T:
        """Return the active page's answer. Raises HangError if it crashes or takes too long, and playwright's Error."""
        task = asyncio.ensure_future(awaitable)
        crash = asyncio.create_task(self._crash.wait())
        try:
            await asyncio.wait([task, crash], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise HangError
            return task.result()
        finally:
            task.cancel()
            crash.cancel()
            await asyncio.wait([task, crash])

    async def open(self) -> Page:
        """Open a blank page and make it active. Raises ValueError if MAX_TABS are open."""
        if len(self.context.pages) >= MAX_TABS:
            raise ValueError(f"at most {MAX_TABS} tabs are open at once; close one with tab_close() first")
        self.active = await self.context.new_page()
        return self._active

    async def settle(self) -> None:
        """Wait until the page has handled its input and a navigation that it caused has finished. Raises HangError."""
        await self.drawn()
        await self._until(lambda: self._active not in self._navigating or self._active in self._broken)
        if self._aborted:  # by the server, or because the response is a download, whose event comes a little later
            self._aborted = False
            await self._until(lambda: bool(self.downloads), DOWNLOAD_BEGINS_S)
        with suppress(Error):
            await self._active.wait_for_load_state("domcontentloaded", timeout=LOADED_WITHIN_MS)

    async def pdf_drawn(self) -> None:
        """Wait for Chromium's PDF viewer, which does not say when it has drawn the page."""
        if self._active.url.lower().endswith(".pdf"):
            await asyncio.sleep(PDF_DRAWN_S)

    async def _until(self, is_so: Callable[[], bool], within_s: float = LOADED_WITHIN_MS / 1000) -> None:
        """Wait until `is_so` holds or the time is over; checked at each navigation and download event."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not is_so():
                    self._moved.clear()
                    await self._moved.wait()

    async def drawn(self) -> None:
        """Wait until the page has drawn its current state. Raises HangError; ignores errors, which the observation
        reports."""
        with suppress(Error):
            await self.answered(self._active.evaluate(_FRAME))

    async def replace_broken(self, *, hangs: bool = False) -> str:
        """Replace the active page if it is closed, crashed or `hangs`, and return the reason, or an empty string.

        Raises TimeoutError and playwright's Error if Chromium opens no page.
        """
        page, why = self._active, ""
        if page in self._broken:
            why = "The page crashed and was closed"
        elif hangs:
            why = "The page did not respond and was closed"
        elif (refusal := network_filter.address_refusal(page.url)) and not page.url.startswith("chrome-error:"):
            why = f"The page was closed: {refusal}"
        if why or page.is_closed():
            others = [other for other in self.context.pages if other not in self._broken and other is not page]
            if others and not why:
                self.active = others[-1]
            else:
                async with asyncio.timeout(ANSWER_S):
                    self.active = await self.context.new_page()
        if why:
            self._close(page)
        return why

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
            if dialog.type == "beforeunload":  # dismissing it would cancel the navigation
                await dialog.accept()
                return
            self.notes.add(f"A dialog of the page was dismissed: {dialog.type} {dialog.message!r}")
            await dialog.dismiss()

    def _downloads(self, download: Download) -> None:
        is_late = self._asked_in.pop(download.url, self.step) < self.step
        (self.late_downloads if is_late else self.downloads).append(download)
        self._moved.set()

    def _crashed(self, page: Page) -> None:
        self._broken.add(page)
        if page is self._active:
            self._crash.set()
        self._moved.set()

    def _forget(self, page: Page) -> None:
        self._sessions.pop(page, None)
        self._navigating.pop(page, None)
        self._broken.discard(page)
        self._moved.set()
        if page is self._active and (others := self.context.pages):
            self.active = others[-1]

    def _requested(self, request: Request) -> None:
        with suppress(Error):  # the page may be gone
            if not request.is_navigation_request():
                return
            if len(self._asked_in) >= MAX_ASKED:
                self._asked_in.clear()
            self._asked_in[request.url] = self.step
            if request.frame.parent_frame is None:
                self._navigating[request.frame.page] = request

    def _failed(self, request: Request) -> None:
        """Forget an aborted navigation; after any other failure Chromium navigates to an error page."""
        page = next((page for page, navigation in self._navigating.items() if navigation is request), None)
        if page is not None and request.failure == ABORTED:
            del self._navigating[page]
            self._aborted = True
            self._moved.set()

    def _navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None:
            self._navigating.pop(frame.page, None)
            self._moved.set()


async def _closed(page: Page) -> None:
    with suppress(Error, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            await page.close()
