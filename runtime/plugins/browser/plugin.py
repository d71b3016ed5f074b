"""BrowserPlugin: each action one step of the worker, with a deadline and exactly one observation.

One step at a time. A step that takes too long costs the worker its life, and so does a browser that hangs; whatever
ended it, the observation says so and the next action starts another. Cancelling an action stops its step.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any, Literal

from core.events import (
    BrowseInteractiveAction,
    BrowserOutputObservation,
    BrowseURLAction,
    FileDownloadObservation,
    Observation,
)
from runtime.plugins.base import Place
from runtime.plugins.browser import evaluation, observation_text
from runtime.plugins.browser.observation_text import PICTURES
from runtime.plugins.browser.page_stream import PageStream
from runtime.plugins.browser.worker_client import Message, WorkerGoneError, WorkerLink
from runtime.server.action_executor import Emit, Table

log = logging.getLogger(__name__)

STEP_TIMEOUT_S = 120.0
"""V0's, for an action that names none."""
START_TIMEOUT_S = 30.0
"""Chromium takes one to two seconds, on a machine that swaps many times that."""
_FRESH = "The browser had ended; this is a fresh one, without the pages and cookies of before"
_LOST = "Its pages and cookies are lost. The next action starts a fresh browser."

Trigger = Literal["browse", "browse_interactive"]


class BrowserPlugin:
    """Supervises one worker and carries out its actions."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._stream = PageStream(self._watch)
        self._worker: WorkerLink | None = None
        self._numbers = itertools.count(1)
        self._turn = asyncio.Lock()
        self.table: Table = {BrowseURLAction: self._browse, BrowseInteractiveAction: self._interact}
        self.routes = self._stream.routes

    @property
    def worker(self) -> WorkerLink | None:
        """The worker that was started last; it may be gone."""
        return self._worker

    async def start(self) -> None:
        """Start a worker unless one lives. Raises WorkerGoneError, EvaluationError, TimeoutError."""
        if self._worker is not None and not self._worker.is_gone:
            return
        mode = evaluation.asked_for(self._place.environ)
        command = mode.command() if mode else ()
        worker = WorkerLink(self._place.folder / f"b{next(self._numbers)}", self._on_message, command)
        async with asyncio.timeout(evaluation.START_TIMEOUT_S if mode else START_TIMEOUT_S):
            pictures = (self._place.data or self._place.folder) / "screenshots"
            await worker.begin(self._place.working_dir, {**self._place.environ, PICTURES: str(pictures)})
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
        request = {"do": "step", "trigger": trigger, "cause": action_id, "limit_s": limit_s, "cwd": self._place.cwd()}
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
        """What the worker answers. A page is opened a second time, by another worker, where the first one's is gone."""
        worker = await self._living()
        try:
            return await worker.ask(request)
        except WorkerGoneError:
            if request["trigger"] != "browse" or evaluation.asked_for(self._place.environ):
                raise  # to open a page again harms nothing, but for an environment that counts steps
        worker = await self._living()
        return await worker.ask({**request, "notes": [_FRESH]})

    async def _living(self) -> WorkerLink:
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
