"""BrowserPlugin: carries out each action as one step of the worker, with a deadline and exactly one observation.

Steps run one at a time. A step that exceeds its deadline, or a browser that hangs, costs the worker its life. The
observation says so, and the next action starts another worker. Cancelling an action stops its step.

`GET /browser/stream` answers PageShown frames, one JSON object a line, until the server ends, beginning with the newest
screenshot. Screenshots are only made while somebody watches, and a slow reader skips some.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from aiohttp import web

from core.events import (
    BrowseInteractiveAction,
    BrowserOutputObservation,
    BrowseURLAction,
    FileDownloadObservation,
    Observation,
    PageShown,
)
from runtime.plugins.base import PluginContext
from runtime.plugins.browser import evaluation, observation_text
from runtime.plugins.browser.observation_text import PICTURES
from runtime.plugins.browser.worker_client import Message, WorkerClient, WorkerGoneError
from runtime.protocol import NDJSON_TYPE, encode_frame
from runtime.server.action_executor import Emit, Table


class PageStream:
    """Sends the newest screenshot to every reader. `on_watched` is called when the first comes and the last leaves."""

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
        """Publish a screenshot from the worker. Never waits."""
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
        """End all streams."""
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


log = logging.getLogger(__name__)

STEP_TIMEOUT_S = 120.0
"""V0's default for an action without a timeout."""
START_TIMEOUT_S = 30.0
"""Chromium takes one to two seconds, and many times that on a machine that swaps."""
_FRESH = "The browser had ended; this is a fresh one, without the pages and cookies of before"
_LOST = "Its pages and cookies are lost. The next action starts a fresh browser."

Trigger = Literal["browse", "browse_interactive"]


class BrowserPlugin:
    """Carries out BrowseURLAction and BrowseInteractiveAction in a worker, and starts another when it has ended."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._stream = PageStream(self._watch)
        self._worker: WorkerClient | None = None
        self._numbers = itertools.count(1)
        self._turn = asyncio.Lock()
        self.table: Table = {BrowseURLAction: self._browse, BrowseInteractiveAction: self._interact}
        self.routes = self._stream.routes

    @property
    def worker(self) -> WorkerClient | None:
        """The newest worker, which may have ended."""
        return self._worker

    async def start(self) -> None:
        """Start a worker unless one is running. Raises WorkerGoneError, EvaluationError, TimeoutError."""
        if self._worker is not None and not self._worker.is_gone:
            return
        mode = evaluation.asked_for(self._context.environ)
        command = mode.command() if mode else ()
        worker = WorkerClient(self._context.folder / f"b{next(self._numbers)}", self._on_message, command)
        async with asyncio.timeout(evaluation.START_TIMEOUT_S if mode else START_TIMEOUT_S):
            pictures = (self._context.data or self._context.folder) / "screenshots"
            await worker.begin(self._context.working_dir, {**self._context.environ, PICTURES: str(pictures)})
        self._worker = worker
        if why := worker.about.get("why_unconfined"):
            log.warning("Chromium runs without its own sandbox: %s", why)
        if self._stream.is_watched:
            self._watch(True)

    async def aclose(self) -> None:
        self._stream.close()
        if self._worker is not None:
            await self._worker.aclose()

    async def _browse(self, action: BrowseURLAction, action_id: int, emit: Emit) -> Observation:
        return await self._carry_out(action, "browse", action_id, {"url": action.url})

    async def _interact(self, action: BrowseInteractiveAction, action_id: int, emit: Emit) -> Observation:
        what = {"calls": action.browser_actions, "by_user": action.by_user, "hidden": action.hidden_text}
        return await self._carry_out(action, "browse_interactive", action_id, what)

    async def _carry_out(
        self, action: BrowseURLAction | BrowseInteractiveAction, trigger: Trigger, action_id: int, what: Message
    ) -> Observation:
        limit_s = STEP_TIMEOUT_S if action.timeout is None else action.timeout
        request = {"do": "step", "trigger": trigger, "cause": action_id, "limit_s": limit_s, "cwd": self._context.cwd()}
        request = {**request, **what, "return_axtree": action.return_axtree}
        async with self._turn:
            try:
                async with asyncio.timeout(limit_s):
                    answer = await self._answer(request)
            except TimeoutError:
                await self._end_worker()
                return _failed(
                    action, trigger, f"The browser did not finish within {limit_s:g} s and was ended. {_LOST}"
                )
            except evaluation.EvaluationError as error:
                return _failed(action, trigger, str(error))
            except WorkerGoneError as error:
                return _failed(action, trigger, f"The browser is gone: {error}. {_LOST}")
        if "evaluated" in answer:
            return await evaluation.observation(answer["evaluated"], trigger)
        return _observation(answer)

    async def _answer(self, request: Message) -> Message:
        """Return the worker's answer. If the worker ends while it opens a page, another worker opens it once more."""
        worker = await self._living()
        try:
            return await worker.ask(request)
        except WorkerGoneError:
            if request["trigger"] != "browse" or evaluation.asked_for(self._context.environ):
                raise  # opening a page again is harmless, except in an environment that counts steps
        worker = await self._living()
        return await worker.ask({**request, "notes": [_FRESH]})

    async def _living(self) -> WorkerClient:
        await self.start()
        assert self._worker is not None
        return self._worker

    async def _end_worker(self) -> None:
        if self._worker is not None:
            await self._worker.kill()

    def _watch(self, is_watched: bool) -> None:
        if self._worker is not None:
            self._worker.tell({"do": "watch", "on": is_watched})

    def _on_message(self, message: Message) -> None:
        if "page" in message:
            self._stream.show(message["page"])


def _observation(answer: dict[str, Any]) -> Observation:
    if "download" in answer:
        return FileDownloadObservation(**answer["download"])
    return BrowserOutputObservation(**answer["observation"])


def _failed(
    action: BrowseURLAction | BrowseInteractiveAction, trigger: Trigger, error: str
) -> BrowserOutputObservation:
    url = action.url if isinstance(action, BrowseURLAction) else ""
    return BrowserOutputObservation(
        content=observation_text.of_failure(trigger, url, error),
        url=url,
        trigger_by_action=trigger,
        error=True,
        last_browser_action=action.browser_actions if isinstance(action, BrowseInteractiveAction) else f'goto("{url}")',
        last_browser_action_error=error,
    )
