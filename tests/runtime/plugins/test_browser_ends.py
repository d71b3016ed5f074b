"""How a browser ends: hung, crashed, killed, interrupted, closed; and what of it is left, which is nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from runtime.plugins.browser import worker_client
from runtime.plugins.browser.worker_client import WorkerGoneError
from tests.runtime.conftest import has_ended
from tests.runtime.plugins.browser_server import Browser, Site, bid

pytestmark = pytest.mark.browser


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    browser = Browser(tmp_path)
    await browser.plugin.start()
    yield browser
    await browser.aclose()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site().served() as site:
        site.pages["/"] = "<h1>well</h1>"
        yield site


def processes(browser: Browser) -> set[int]:
    worker = browser.plugin.worker
    assert worker is not None
    assert worker.pid is not None
    return worker_client.worker_processes(worker.pid, worker.folder)


def killed(browser: Browser, mark: str) -> int:
    """End the browser's processes with this in their command lines, and return how many."""
    count = 0
    for pid in processes(browser):
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended already
            if mark in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"):
                os.kill(pid, signal.SIGKILL)
                count += 1
    return count


async def test_hanging_page_ends_the_step_at_its_deadline_and_the_worker(browser: Browser, site: Site) -> None:
    site.pages["/hang"] = "<button onclick='for (;;);'>b</button>"
    button = bid(await browser.act(f"goto('{site.url('/hang')}')"), "button")
    before = processes(browser)
    seen = await browser.act(f"click('{button}')", timeout=2)
    assert seen.last_browser_action_error == (
        "The browser did not finish within 2 s and was ended. "
        "Its pages and cookies are lost. The next action starts a fresh browser."
    )
    assert all(map(has_ended, before))
    assert "# well" in (await browser.browse(site.url())).content


async def test_crashed_page_is_replaced(browser: Browser, site: Site) -> None:
    await browser.browse(site.url())
    assert killed(browser, "--type=renderer")
    seen = await browser.act("scroll(0, 10)")
    assert "The page crashed and was closed" in seen.content, seen
    assert seen.url == "about:blank"
    assert "# well" in (await browser.browse(site.url())).content


def test_forked_renderer_that_has_no_name_yet_is_no_zygote(tmp_path: Path) -> None:
    code = "import os, sys; os.fork(); os.write(1, b'forked\\n'); sys.stdin.read()"
    command = [sys.executable, "-c", code, "--type=zygote", f"{tmp_path}/profile"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as zygote:
        assert zygote.stdout is not None
        assert zygote.stdout.readline() == zygote.stdout.readline() == b"forked\n"
        assert worker_client.zygotes(tmp_path) == {zygote.pid}


async def test_death_of_chromium_is_reported(browser: Browser, site: Site) -> None:
    asked, dies = asyncio.Event(), asyncio.Event()

    async def page(request: web.Request) -> web.Response:
        asked.set()
        await dies.wait()
        return web.Response(text="too late")

    site.pages["/slow"] = page
    stepping = asyncio.create_task(browser.act(f"goto('{site.url('/slow')}')"))
    await asked.wait()
    killed(browser, "--remote-debugging-pipe --")
    killed(browser, "--remote-debugging-pipe\0")
    seen = await stepping
    dies.set()
    assert seen.last_browser_action_error.startswith("The browser is gone: ")
    assert seen.last_browser_action_error.endswith("The next action starts a fresh browser.")
    assert "# well" in (await browser.browse(site.url())).content


async def test_page_is_opened_again_by_a_new_browser(browser: Browser, site: Site) -> None:
    killed(browser, "runtime.plugins.browser")
    seen = await browser.browse(site.url())
    assert "# well" in seen.content
    assert not seen.error


async def test_cancelled_step_stops_and_the_next_works(browser: Browser, site: Site) -> None:
    asked = asyncio.Event()

    async def never(request: web.Request) -> web.Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    site.pages["/never"] = never
    worker = browser.plugin.worker
    stepping = asyncio.create_task(browser.browse(site.url("/never")))
    await asked.wait()
    stepping.cancel()
    await asyncio.wait([stepping])
    assert "# well" in (await browser.browse(site.url())).content
    assert browser.plugin.worker is worker


async def test_closing_leaves_no_processes_or_files(browser: Browser, site: Site) -> None:
    await browser.browse(site.url())
    before, worker = processes(browser), browser.plugin.worker
    assert len(before) > 5
    assert worker is not None
    await browser.plugin.aclose()
    assert all(map(has_ended, before))
    assert not worker.folder.exists()
    await browser.plugin.aclose()


async def test_chromium_does_not_listen_on_a_port(browser: Browser, site: Site) -> None:
    await browser.browse(site.url())
    worker = browser.plugin.worker
    assert worker is not None
    assert worker.pid is not None
    listening = {line.split()[9] for table in ("tcp", "tcp6") for line in _listeners(table)}
    held = set[str]()
    for pid in processes(browser) - {worker.pid}:  # which is the gate
        with suppress(FileNotFoundError):  # it has ended meanwhile
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # it is closed meanwhile
                    held.add(os.readlink(file))
    assert held
    assert not held & {f"socket:[{inode}]" for inode in listening}


def _listeners(table: str) -> list[str]:
    lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    return [line for line in lines if line.split()[3] == "0A"]


async def test_each_browser_has_a_new_profile(browser: Browser, site: Site, tmp_path: Path) -> None:
    site.pages["/"] = "<script>document.title = 'was ' + document.cookie; document.cookie = 'a=1; max-age=99'</script>"
    assert "RootWebArea 'was'" in (await browser.act(f"goto('{site.url()}')")).content
    assert "RootWebArea 'was a=1'" in (await browser.act(f"goto('{site.url()}')")).content
    (tmp_path / "other").mkdir()
    other = Browser(tmp_path / "other")
    try:
        assert "RootWebArea 'was'" in (await other.act(f"goto('{site.url()}')")).content
    finally:
        await other.aclose()


async def test_missing_chromium_is_reported_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    browser = Browser(tmp_path)
    with pytest.raises(WorkerGoneError, match="Install the package `chromium`"):
        await browser.plugin.start()
    await browser.aclose()
