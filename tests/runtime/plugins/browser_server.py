"""A browser for tests, and a site for it: pages that a test writes, served on loopback."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from core.events import BrowseInteractiveAction, BrowserOutputObservation, BrowseURLAction, Observation
from runtime.plugins.browser.plugin import BrowserPlugin
from tests.runtime.conftest import Watcher, place

SHORT = "/tmp"
"""Chromium puts a socket there, whose path may not be long."""
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    """Answers each path with HTML of `pages`, or with the result of a function."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self.pages: dict[str, str | Answer] = {}
        self.asked: list[str] = []
        """The requested paths."""
        self._port = 0

    def url(self, path: str = "/") -> str:
        return f"http://{self._host}:{self._port}{path}"

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Site]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, self._host, 0).start()
        self._port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        page = self.pages.get(request.path)
        if page is None:
            raise web.HTTPNotFound
        return web.Response(text=page, content_type="text/html") if isinstance(page, str) else await page(request)


class Browser:
    """A BrowserPlugin and how a test uses it."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.private = Path(tempfile.mkdtemp(prefix="hb", dir=SHORT))
        where = place(self.private, cwd=lambda: str(self.workspace))
        self.plugin = BrowserPlugin(_at(where, self.workspace))
        self.watcher = Watcher()

    async def aclose(self) -> None:
        await self.plugin.aclose()
        shutil.rmtree(self.private)

    async def browse(self, url: str, **fields: Any) -> BrowserOutputObservation:
        """Open a page by BrowseURLAction."""
        return _page(await self._carry_out(BrowseURLAction(url=url, **fields)))

    async def act(self, calls: str, **fields: Any) -> BrowserOutputObservation:
        """Carry out a step of calls that gives a page."""
        return _page(await self.step(calls, **fields))

    async def step(self, calls: str, **fields: Any) -> Observation:
        return await self._carry_out(BrowseInteractiveAction(browser_actions=calls, **fields))

    async def _carry_out(self, action: BrowseURLAction | BrowseInteractiveAction) -> Observation:
        async with asyncio.timeout(60):
            return await self.plugin.table[type(action)](action, 7, self.watcher.emit)


def bid(observation: BrowserOutputObservation, element: str) -> str:
    """The bid of the element that the tree calls so, such as `button 'Send'`."""
    for line in observation.content.splitlines():
        number, found, rest = line.strip().removeprefix("[").partition("] ")
        if found and rest.startswith(element):
            return number
    raise AssertionError(f"no {element!r} in:\n{observation.content}")


def _page(observation: Observation) -> BrowserOutputObservation:
    assert isinstance(observation, BrowserOutputObservation), observation
    return observation


def _at(where: Any, workspace: Path) -> Any:
    from dataclasses import replace

    return replace(where, working_dir=str(workspace))
