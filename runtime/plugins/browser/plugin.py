"""BrowserPlugin: carries out each action as one step of the worker, with a deadline and exactly one observation.

Steps run one at a time. A step that exceeds its deadline, or a browser that hangs, costs the worker its life. The
observation says so, and the next action starts another worker. Cancelling an action stops its step.

`GET /browser/stream` answers PageShown frames, one JSON object a line, until the server ends, beginning with the newest
screenshot. Screenshots are only made while somebody watches, and a slow reader skips some.

Evaluation mode: a `browsergym/*` environment instead of our own browser, with goal and rewards as in V0. It runs in a
separate Python environment (`evaluation_driver.py`) and is supervised like the worker that it replaces. The agent's
actions are the same. `GET_EVAL_GOAL` and `GET_EVAL_REWARDS`, each alone in a `browse_interactive`, are answered with
the goal and with a JSON list of the rewards so far, one for each step.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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
from runtime.plugins.browser import observation_text
from runtime.plugins.browser.observation_text import PICTURES
from runtime.plugins.browser.worker_client import Message, WorkerClient, WorkerGoneError
from runtime.protocol import NDJSON_TYPE, encode_frame
from runtime.server.action_executor import Emit, Table

ENVIRONMENT = "SANDBOX_BROWSERGYM_EVAL_ENV"
"""Names the environment, as V0's setting sandbox.browsergym_eval_env, such as `browsergym/miniwob.click-test`."""
PYTHON = "HANDLOOM_BROWSERGYM_PYTHON"
"""Names the Python interpreter that has browsergym."""
SEED = "HANDLOOM_BROWSERGYM_SEED"
EVALUATION_START_TIMEOUT_S = 200.0
"""V0's value: some environments set up whole sites."""
Trigger = Literal["browse", "browse_interactive"]
_BROWSERS = ("/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class EvaluationError(Exception):
    """The environment cannot be used; the text says what to do."""


def evaluation_command(environ: Mapping[str, str]) -> list[str]:
    """Return the command that replaces our worker; empty without an evaluation. Raises EvaluationError."""
    name = environ.get(ENVIRONMENT, "").strip()
    if not name:
        return []
    environment = name if name.startswith("browsergym/") else f"browsergym/{name}"
    python, seed = environ.get(PYTHON, "").strip(), environ.get(SEED, "").strip()
    if seed and not seed.isdecimal():
        raise EvaluationError(f"{SEED} must be a whole number, not {seed!r}")
    program = shutil.which(python) if python else None
    if program is None:
        what = f"{PYTHON} names no program: {python!r}" if python else f"{PYTHON} is not set"
        raise EvaluationError(
            f"{environment} needs browsergym in a Python environment of its own, and {what}. Make one with "
            "`python3 -m venv FOLDER && FOLDER/bin/pip install browsergym-core browsergym-miniwob miniwob`, "
            f"and set {PYTHON}=FOLDER/bin/python"
        )
    options = ["--environment", environment]
    if browser := next(filter(None, map(shutil.which, _BROWSERS)), None):
        options += ["--browser", browser]
    if seed:
        options += ["--seed", seed]
    return [program, "-P", str(Path(__file__).with_name("evaluation_driver.py")), *options]


async def _evaluated_observation(answer: dict[str, Any], trigger: Trigger) -> BrowserOutputObservation:
    """Convert the driver's answer to the observation that our own browser would give."""
    if "fields" not in answer:
        return BrowserOutputObservation(url="", trigger_by_action=trigger, **answer)
    fields = answer["fields"]
    url, error = fields["url"], fields["last_browser_action_error"]
    if trigger == "browse":
        content = observation_text.after_browsing(
            url, error, await asyncio.to_thread(observation_text.of_html, answer["html"])
        )
    else:
        focused, path = fields["focused_element_bid"], fields["screenshot_path"]
        content = observation_text.after_interacting(url, error, answer["tree"], focused=focused, screenshot_path=path)
    return BrowserOutputObservation(content=content, trigger_by_action=trigger, error=bool(error), **fields)


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


class BrowserPlugin:
    """Carries out BrowseURLAction and BrowseInteractiveAction in a worker, and starts another when it has ended."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._stream = PageStream(self._watch)
        self.worker: WorkerClient | None = None
        """The newest worker, which may have ended."""
        self._numbers = itertools.count(1)
        self._lock = asyncio.Lock()
        self.table: Table = {BrowseURLAction: self._browse, BrowseInteractiveAction: self._interact}
        self.routes = self._stream.routes

    async def start(self) -> None:
        """Start a worker unless one is running. Raises WorkerGoneError, EvaluationError, TimeoutError."""
        await self._start()

    async def _start(self) -> WorkerClient:
        if self.worker is not None and not self.worker.is_gone:
            return self.worker
        command = evaluation_command(self._context.environ)
        worker = WorkerClient(self._context.folder / f"b{next(self._numbers)}", self._on_message, command)
        async with asyncio.timeout(EVALUATION_START_TIMEOUT_S if command else START_TIMEOUT_S):
            pictures = (self._context.data or self._context.folder) / "screenshots"
            await worker.begin(self._context.working_dir, {**self._context.environ, PICTURES: str(pictures)})
        self.worker = worker
        if why := worker.about.get("why_unconfined"):
            log.warning("Chromium runs without its own sandbox: %s", why)
        if self._stream.is_watched:
            self._watch(True)
        return worker

    async def aclose(self) -> None:
        self._stream.close()
        if self.worker is not None:
            await self.worker.aclose()

    async def _browse(self, action: BrowseURLAction, action_id: int, emit: Emit) -> Observation:
        return await self._carry_out(action, "browse", action_id, {"url": action.url})

    async def _interact(self, action: BrowseInteractiveAction, action_id: int, emit: Emit) -> Observation:
        fields = {"calls": action.browser_actions, "by_user": action.by_user, "hidden": action.hidden_text}
        return await self._carry_out(action, "browse_interactive", action_id, fields)

    async def _carry_out(
        self, action: BrowseURLAction | BrowseInteractiveAction, trigger: Trigger, action_id: int, fields: Message
    ) -> Observation:
        limit_s = STEP_TIMEOUT_S if action.timeout is None else action.timeout
        request = {"do": "step", "trigger": trigger, "cause": action_id, "limit_s": limit_s, "cwd": self._context.cwd()}
        request = {**request, **fields, "return_axtree": action.return_axtree}
        async with self._lock:
            try:
                async with asyncio.timeout(limit_s):
                    answer = await self._answer(request)
            except TimeoutError:
                if self.worker is not None:
                    await self.worker.kill()
                return _failed(
                    action, trigger, f"The browser did not finish within {limit_s:g} s and was ended. {_LOST}"
                )
            except EvaluationError as error:
                return _failed(action, trigger, str(error))
            except WorkerGoneError as error:
                return _failed(action, trigger, f"The browser is gone: {error}. {_LOST}")
        if "evaluated" in answer:
            return await _evaluated_observation(answer["evaluated"], trigger)
        if "download" in answer:
            return FileDownloadObservation(**answer["download"])
        return BrowserOutputObservation(**answer["observation"])

    async def _answer(self, request: Message) -> Message:
        """Return the worker's answer. If the worker ends while it opens a page, another worker opens it once more."""
        worker = await self._start()
        try:
            return await worker.ask(request)
        except WorkerGoneError:
            if request["trigger"] != "browse" or evaluation_command(self._context.environ):
                raise  # opening a page again is harmless, except in an environment that counts steps
        worker = await self._start()
        return await worker.ask({**request, "notes": [_FRESH]})

    def _watch(self, is_watched: bool) -> None:
        if self.worker is not None:
            self.worker.send({"do": "watch", "on": is_watched})

    def _on_message(self, message: Message) -> None:
        if "page" in message:
            self._stream.show(message["page"])


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
