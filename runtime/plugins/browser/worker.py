"""The worker: requests in, one answer each, in order; pictures in between while somebody watches.

It ends when its standard input ends, and at once when Chromium does: whoever waits for an answer learns by that end
that there will be none.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Error, async_playwright

from runtime.plugins.browser import (
    addresses,
    call_parser,
    chromium,
    functions,
    observation_text,
    page_downloads,
    page_observation,
    process_tree,
    user_input,
)
from runtime.plugins.browser.network_filter import Gate, allowed_in, upstream_of
from runtime.plugins.browser.screencast import Screencast
from runtime.plugins.browser.tabs import HangError, Notes, Tabs
from runtime.server import processes

NAVIGATION_MS = 30_000
STEP_S = 36.0
"""That a step takes, with a page of any size: what a navigation leaves of it is for looking at the page."""
LOOK_S = 5.0
"""That looking at a page may take at least, however long the way to it took."""
SHARE_OF_LIMIT = 0.7
"""Of an action's time that a navigation may take: what is left is for looking at what is there."""
CUT_OFF = ("net::ERR_ABORTED", "net::ERR_FAILED", "net::ERR_NETWORK_CHANGED", "is interrupted by another navigation")
"""What a navigation says that something else ended: a part of Chromium that died, or the page before."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024

Message = dict[str, Any]
Say = Callable[[Message], None]


class Worker:
    """Carries out requests on one Chromium."""

    def __init__(self, tabs: Tabs, gate: Gate, notes: Notes, workspace: Path, say: Say) -> None:
        self._tabs, self._gate, self._notes, self._workspace, self._say = tabs, gate, notes, workspace, say
        self._cause = -1
        self._requests: asyncio.Queue[Message] = asyncio.Queue()
        self._current: tuple[int, asyncio.Task[Message]] | None = None
        self._screencast = Screencast(tabs, lambda page: say({"page": {**page, "cause": self._cause}}))

    async def run(self, lines: asyncio.StreamReader, needed: set[int]) -> None:
        """Work until `lines` end, or Chromium does, or one of the processes without which it is of no use."""
        ends = [
            asyncio.create_task(self._take_all(lines)),
            asyncio.create_task(self._work()),
            asyncio.create_task(self._screencast.run()),
            asyncio.create_task(self._tabs.closed.wait()),
            *(asyncio.create_task(processes.gone(pid)) for pid in needed),
        ]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _take_all(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            request = json.loads(line)
            match request["do"]:
                case "step":
                    self._requests.put_nowait(request)
                case "watch":
                    self._screencast.switch(request["on"])
                case "cancel" if self._current is not None and self._current[0] == request["id"]:
                    self._current[1].cancel()

    async def _work(self) -> None:
        while True:
            request = await self._requests.get()
            self._cause = request["cause"]
            step = asyncio.create_task(self._step(request))
            self._current = (request["id"], step)
            try:
                await asyncio.wait([step])
            finally:
                step.cancel()
            self._current = None
            if step.cancelled():
                continue
            answer = step.result()
            if answer.get("observation", {}).get("error") and not await self._tabs.is_alive():
                return  # Chromium is gone, and the end of this process says so
            self._say({**answer, "id": request["id"]})

    async def _step(self, request: Message) -> Message:
        """Carry out what is asked, wait until the page has settled, and look at it."""
        tabs, said, began = self._tabs, list[str](), time.monotonic()
        request["calls"] = request.get("calls") or f'goto("{addresses.completed(request["url"])}")'
        tabs.context.set_default_navigation_timeout(min(NAVIGATION_MS, request["limit_s"] * 1000 * SHARE_OF_LIMIT))
        self._gate.refused.clear()
        self._notes.add_all(request.get("notes", ()))
        if broken := await tabs.mend():  # since the last step
            self._notes.add(broken)
        os.chdir(request["cwd"])  # where relative paths of files to upload begin
        error = await self._performed(request, said)
        broken = await tabs.mend()
        is_cut_off = broken or (not tabs.downloads and any(sign in error for sign in CUT_OFF))
        if is_cut_off and request["trigger"] == "browse":  # to open a page again harms nothing
            self._notes.add(f"{broken or 'Its way here was cut off'}, and the page was opened again")
            error, broken = await self._performed(request, said), await tabs.mend()
        if tabs.downloads:
            return await self._downloaded(request["calls"])
        error = "\n".join(filter(None, [error, broken])) or self._gate.refused.get(
            urlsplit(tabs.active.url).hostname or "", ""
        )
        patience_s = max(LOOK_S, STEP_S - (time.monotonic() - began))
        return {"observation": await self._seen(request, error, said, patience_s)}

    async def _performed(self, request: Message, said: list[str]) -> str:
        """Carry out the calls and let the page settle; the answer is what went wrong, in BrowserGym's form."""
        error = ""
        try:
            asked = call_parser.parse(request["calls"])
            if request.get("by_user"):
                await user_input.perform(self._tabs, asked, said.append, request["hidden"])
            else:
                await functions.perform(self._tabs, asked, said.append)
        except Exception as failure:  # noqa: BLE001  # the boundary to pages and to what a model wrote
            error = user_input.without(f"{type(failure).__name__}: {failure}", request.get("hidden", ""))
        if "Timeout" not in error and (error or request["trigger"] != "browse"):
            with suppress(HangError):  # which shows again when the page is looked at
                await self._tabs.settle()
        return error

    async def _seen(self, request: Message, error: str, said: list[str], patience_s: float) -> Message:
        notes = [*(f"Message to the user: {message}" for message in said), *self._notes.take()]
        try:
            return await page_observation.observe(self._tabs, request, error=error, notes=notes, patience_s=patience_s)
        except (HangError, Error) as failure:
            broken = await self._tabs.mend(hangs=isinstance(failure, HangError)) or str(failure)
            error = f"{error}\n{broken}" if error else broken
            fields = page_observation.about(self._tabs, request, error)
            return {**fields, "content": observation_text.of_failure(request["trigger"], fields["url"], error)}

    async def _downloaded(self, what: str) -> Message:
        begun, self._tabs.downloads[:] = list(self._tabs.downloads), []
        kept, lost = list[str](), list[str]()
        for download in begun:
            try:
                kept.append(await page_downloads.keep(download, self._workspace))
            except page_downloads.DownloadError as failure:
                lost.append(f"[{failure}]")
        content = f"Execution of the previous action {what} resulted in a file download. "
        content += f"The downloaded file is saved at location: {', '.join(kept)}" if kept else "No file was kept."
        content = "\n".join([content, *lost, *(f"[{note}]" for note in self._notes.take())])
        return {"download": {"content": content, "file_path": kept[0] if kept else ""}}


async def serve(folder: Path, workspace: Path, why_unconfined: str, lines: asyncio.StreamReader, say: Say) -> None:
    """Start Chromium, say so, and work until the end of `lines` or of Chromium. Raises NoChromiumError, Error.

    Ends the process: the server kills what is left of Chromium with it, and to close it would take its time, and for
    ever where the driver has died.
    """
    notes = Notes()
    gate = Gate(upstream_of(os.environ), notes.add, allowed_in(os.environ))
    await gate.start()
    async with async_playwright() as playwright:
        drivers = await asyncio.to_thread(processes.descendants, os.getpid())
        try:
            context = await chromium.launch(playwright, folder, gate.address, is_confined=not why_unconfined)
        except Error as error:
            if why_unconfined:
                raise
            why_unconfined = error.message.strip().partition("\n")[0]
            context = await chromium.launch(playwright, folder, gate.address, is_confined=False)
        needed = drivers | await asyncio.to_thread(process_tree.zygotes, folder)
        worker = Worker(Tabs(context, notes), gate, notes, workspace, say)
        say({"ready": {"why_unconfined": why_unconfined}})
        try:
            await worker.run(lines, needed)
        except BaseException:
            traceback.print_exc()  # into the server's log; nobody is left to raise it to
            raise
        finally:
            os._exit(0)
