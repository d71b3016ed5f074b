"""The worker process: answers requests in order, one answer each, and sends screenshots while somebody watches.

It ends when its standard input ends, and immediately when Chromium ends, which tells the client that pending requests
will get no answer.

`python -m runtime.plugins.browser.worker` is only started by BrowserPlugin. Requests are read from standard input.
Answers go to a duplicate of standard output, so that a stray print cannot corrupt them.

Downloads of pages are saved in one folder of the workspace, under a safe name and with a size limit. They are never
opened and never overwrite an existing file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Download, Error, async_playwright

from runtime.plugins.browser import (
    chromium,
    functions,
    network_filter,
    observation_text,
    page_observation,
    worker_client,
)
from runtime.plugins.browser.network_filter import NetworkFilter, allowed_in, upstream_of
from runtime.plugins.browser.screencast import Screencast
from runtime.plugins.browser.tabs import HangError, Notes, Tabs
from runtime.server import processes

FOLDER = ".downloads"
"""In the workspace; hidden, so that downloads are not mistaken for part of the project."""
MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_NAME_CHARS = 100
FINISHED_WITHIN_S = 60.0


class DownloadError(Exception):
    """A file was not saved; the text says why."""


async def keep_download(download: Download, workspace: Path) -> str:
    """Wait for the file, move it into the workspace and return its path. Raises DownloadError."""
    name = safe_name(download.suggested_filename)
    try:
        async with asyncio.timeout(FINISHED_WITHIN_S):
            arrived = await download.path()
    except TimeoutError:
        with suppress(Error):
            await download.cancel()
        raise DownloadError(f"{name} did not finish within {FINISHED_WITHIN_S:.0f} s and was cancelled") from None
    except Error as error:
        raise DownloadError(f"{name} could not be downloaded: {error.message}") from error
    try:
        return await asyncio.to_thread(_move, Path(arrived), workspace / FOLDER, name)
    except OSError as error:
        raise DownloadError(f"{name} could not be saved: {error.strerror or error}") from error


def safe_name(suggested: str) -> str:
    """Turn the name that a page suggests into a single path component, visible, printable and not too long. Pure."""
    name = re.sub(r"[^\w.+@ -]", "_", suggested.replace("\\", "/").rpartition("/")[2])
    stem, dot, ending = name.strip(" .").rpartition(".")
    if not stem:
        stem, dot, ending = ending, "", ""
    return f"{stem[:MAX_NAME_CHARS]}{dot}{ending[:20]}" or "file"


def _move(arrived: Path, folder: Path, name: str) -> str:
    size_bytes = arrived.stat().st_size
    if size_bytes > MAX_FILE_BYTES:
        arrived.unlink()
        raise DownloadError(f"{name} has {size_bytes} bytes, and the limit is {MAX_FILE_BYTES}")
    folder.mkdir(mode=0o700, exist_ok=True)
    stem, dot, ending = name.rpartition(".")
    for number in range(1, 1000):
        path = folder / (name if number == 1 else f"{stem or ending}-{number}{dot and dot + ending}")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        except FileExistsError:
            continue
        with arrived.open("rb") as source, path.open("wb") as saved:
            while piece := source.read(1024 * 1024):
                saved.write(piece)
        arrived.unlink()
        return str(path)
    raise DownloadError(f"there are 999 files called {name} already. Remove some from {folder}")


NAVIGATION_MS = 30_000
STEP_S = 36.0
"""Time for a step with a page of any size: what the navigation leaves of it is for observing the page."""
LOOK_S = 5.0
"""Minimum time for observing a page, however long the navigation took."""
SHARE_OF_LIMIT = 0.7
"""Share of an action's timeout that a navigation may use; the rest is for observing the page."""
CUT_OFF = ("net::ERR_ABORTED", "net::ERR_FAILED", "net::ERR_NETWORK_CHANGED", "is interrupted by another navigation")
"""Errors of a navigation that was interrupted by the previous page or by the death of a Chromium process."""
LATE_S = 1.0
"""How long the answer of a step waits for the file of a download that an earlier step caused."""
SHOWN_CALLS_CHARS = 200
MAX_REQUEST_BYTES = 16 * 1024 * 1024

Message = dict[str, Any]
Say = Callable[[Message], None]


class Worker:
    """Carries out requests on one Chromium."""

    def __init__(self, tabs: Tabs, network: NetworkFilter, notes: Notes, workspace: Path, say: Say) -> None:
        self._tabs, self._network, self._notes, self._workspace, self._say = tabs, network, notes, workspace, say
        self._cause = -1
        self._last_calls = ""
        self._late: list[tuple[str, asyncio.Task[str]]] = []
        """Downloads of earlier steps: the calls of the step, and the task that saves the file."""
        self._requests: asyncio.Queue[Message] = asyncio.Queue()
        self._current: tuple[int, asyncio.Task[Message]] | None = None
        self._screencast = Screencast(tabs, lambda page: say({"page": {**page, "cause": self._cause}}))

    async def run(self, lines: asyncio.StreamReader, needed: set[int]) -> None:
        """Work until `lines` end, Chromium ends, or one of the `needed` processes ends."""
        ends = [
            asyncio.create_task(self._take_all(lines)),
            asyncio.create_task(self._work()),
            asyncio.create_task(self._screencast.run()),
            asyncio.create_task(self._tabs.closed.wait()),
            *(asyncio.create_task(processes.wait_until_gone(pid)) for pid in needed),
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
                return  # Chromium is gone; the end of this process reports it
            self._say({**answer, "id": request["id"]})

    async def _step(self, request: Message) -> Message:
        tabs, messages, began = self._tabs, list[str](), time.monotonic()
        request["calls"] = request.get("calls") or f'goto("{network_filter.with_scheme(request["url"])}")'
        tabs.context.set_default_navigation_timeout(min(NAVIGATION_MS, request["limit_s"] * 1000 * SHARE_OF_LIMIT))
        self._network.refused.clear()
        tabs.step += 1
        tabs.late_downloads += tabs.downloads  # since the last step
        tabs.downloads.clear()
        for note in request.get("notes", ()):
            self._notes.add(note)
        if broken := await tabs.replace_broken():  # since the last step
            self._notes.add(broken)
        os.chdir(request["cwd"])  # relative paths of uploads are resolved against it
        error = await self._perform_and_settle(request, messages)
        broken = await tabs.replace_broken()
        is_cut_off = broken or (not tabs.downloads and any(sign in error for sign in CUT_OFF))
        if is_cut_off and request["trigger"] == "browse":  # opening a page again does no harm
            self._notes.add(f"{broken or 'The navigation was interrupted'}, and the page was opened again")
            error, broken = await self._perform_and_settle(request, messages), await tabs.replace_broken()
        if is_passive := functions.is_passive(request["calls"]):
            tabs.late_downloads += tabs.downloads
            tabs.downloads.clear()
        await self._note_late_downloads()
        if not is_passive:
            self._last_calls = request["calls"]
        if tabs.downloads:
            return await self._download_answer(request["calls"])
        error = "\n".join(filter(None, [error, broken])) or self._network.refused.get(
            urlsplit(tabs.active.url).hostname or "", ""
        )
        patience_s = max(LOOK_S, STEP_S - (time.monotonic() - began))
        return {"observation": await self._observe(request, error, messages, patience_s)}

    async def _perform_and_settle(self, request: Message, messages: list[str]) -> str:
        """Carry out the calls and let the page settle. Returns the error in BrowserGym's format, or an empty string."""
        error = ""
        try:
            asked = functions.parse(request["calls"])
            if request.get("by_user"):
                await functions.perform_as_user(self._tabs, asked, messages.append, request["hidden"])
            else:
                await functions.perform(self._tabs, asked, messages.append)
        except Exception as failure:  # noqa: BLE001  # boundary: pages and calls written by a model
            error = functions.hide_text(f"{type(failure).__name__}: {failure}", request.get("hidden", ""))
        if "Timeout" not in error and (error or request["trigger"] != "browse"):
            with suppress(HangError):  # the observation of the page reports it
                await self._tabs.settle()
        await self._tabs.pdf_drawn()
        return error

    async def _observe(self, request: Message, error: str, messages: list[str], patience_s: float) -> Message:
        notes = [*(f"Message to the user: {message}" for message in messages), *self._notes.take()]
        try:
            return await page_observation.observe(self._tabs, request, error=error, notes=notes, patience_s=patience_s)
        except (HangError, Error) as failure:
            broken = await self._tabs.replace_broken(hangs=isinstance(failure, HangError)) or str(failure)
            error = f"{error}\n{broken}" if error else broken
            fields = page_observation.about(self._tabs, request, error)
            return {**fields, "content": observation_text.of_failure(request["trigger"], fields["url"], error)}

    async def _note_late_downloads(self) -> None:
        """Save the downloads that an earlier step caused, and note them; one that takes long is noted later."""
        for download in self._tabs.late_downloads:
            saving = asyncio.create_task(keep_download(download, self._workspace))
            self._late.append((self._last_calls[:SHOWN_CALLS_CHARS], saving))
        self._tabs.late_downloads.clear()
        if not self._late:
            return
        await asyncio.wait([saving for _, saving in self._late], timeout=LATE_S)
        for calls, saving in [late for late in self._late if late[1].done()]:
            self._late.remove((calls, saving))
            try:
                self._notes.add(f"The earlier action {calls} resulted in a file download, saved at: {saving.result()}")
            except DownloadError as failure:
                self._notes.add(f"The earlier action {calls} resulted in a file download. {failure}")

    async def _download_answer(self, what: str) -> Message:
        begun, self._tabs.downloads[:] = list(self._tabs.downloads), []
        saved, failed = list[str](), list[str]()
        for download in begun:
            try:
                saved.append(await keep_download(download, self._workspace))
            except DownloadError as failure:
                failed.append(f"[{failure}]")
        content = f"Execution of the previous action {what} resulted in a file download. "
        content += f"The downloaded file is saved at location: {', '.join(saved)}" if saved else "No file was saved."
        content = "\n".join([content, *failed, *(f"[{note}]" for note in self._notes.take())])
        return {"download": {"content": content, "file_path": saved[0] if saved else ""}}


async def serve(folder: Path, workspace: Path, why_unconfined: str, lines: asyncio.StreamReader, say: Say) -> None:
    """Start Chromium, send `ready`, and work until `lines` or Chromium end. Raises NoChromiumError, Error.

    Exits the process without closing Chromium, which can take forever if playwright's driver has died; the server
    kills the rest.
    """
    notes = Notes()
    network = NetworkFilter(upstream_of(os.environ), notes.add, allowed_in(os.environ))
    await network.start()
    async with async_playwright() as playwright:
        drivers = await asyncio.to_thread(processes.descendants, os.getpid())
        try:
            context = await chromium.launch(playwright, folder, network.address, is_confined=not why_unconfined)
        except Error as error:
            if why_unconfined:
                raise
            why_unconfined = error.message.strip().partition("\n")[0]
            context = await chromium.launch(playwright, folder, network.address, is_confined=False)
        needed = drivers | await asyncio.to_thread(worker_client.zygotes, folder)
        worker = Worker(Tabs(context, notes), network, notes, workspace, say)
        say({"ready": {"why_unconfined": why_unconfined}})
        try:
            await worker.run(lines, needed)
        except BaseException:
            traceback.print_exc()  # into the server's log, because os._exit discards it
            raise
        finally:
            os._exit(0)


def main() -> int:
    """Work until standard input ends. Exit status 1: Chromium could not be started or has ended."""
    parser = argparse.ArgumentParser(prog="python -m runtime.plugins.browser.worker")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--workspace", type=Path, required=True)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    why_unconfined = chromium.why_unconfined()

    def say(message: dict[str, Any]) -> None:
        line = memoryview(json.dumps(message).encode() + b"\n")
        while line:  # a write to a pipe may be partial
            line = line[answers.write(line) :]

    try:
        asyncio.run(_serve(options, why_unconfined, say))
    except (chromium.NoChromiumError, Error) as error:
        say({"failed": _first_and_fatal_line(str(error))})
        return 1
    return 0


def _first_and_fatal_line(why: str) -> str:
    """Return the first line and Chromium's last fatal message; its command line alone fills a screen."""
    lines = [line.strip() for line in why.splitlines()]
    fatal = [line for line in lines if ":FATAL:" in line or "error while loading" in line]
    return ": ".join([*lines[:1], *fatal[-1:]])


async def _serve(options: argparse.Namespace, why_unconfined: str, say: Say) -> None:
    lines = asyncio.StreamReader(limit=MAX_REQUEST_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
    await serve(options.folder, options.workspace, why_unconfined, lines, say)


if __name__ == "__main__":
    sys.exit(main())
