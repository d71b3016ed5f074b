"""The browser through the server beside bare playwright: ready, a page with picture and tree, a click, memory.

Bare playwright does what a step does at least: the call, a picture of the view, the accessibility tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from core.events import BrowseInteractiveAction, BrowseURLAction, Observation
from runtime.local.local_runtime import LocalRuntime
from runtime.server.processes import descendants
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.size import sized
from tests.served import served

STARTS, ROUNDS = sized(5, 1), sized(30, 2)
READY_MS = 2_000
MEMORY_MIB = 1_150
PAGE = """<title>Shop</title><h1>Shop</h1><p>Three things.</p>
<ul><li>one <button id=b onclick="this.textContent = Math.random()">buy</button><li>two<li>three</ul>
<form><label>Name <input></label><select><option>a<option>b</select></form><a href=/>again</a>"""


def measure() -> list[Figure]:
    with served(PAGE) as url:
        return asyncio.run(_measure(url))


async def _measure(url: str) -> list[Figure]:
    from playwright.async_api import async_playwright

    ready, least_ready = [], []
    async with async_playwright() as warm:
        program = _program(warm)
    for _ in range(STARTS):
        with folder() as place:
            began = perf_counter()
            async with _browser(place):
                ready.append(milliseconds_since(began))
        began = perf_counter()
        async with _bare(program):
            least_ready.append(milliseconds_since(began))
    with folder() as place:
        async with _browser(place) as runtime:
            gotos, clicks = await _ours(runtime, url)
            memory = [_resident_mib(runtime)]
    async with _bare(program) as page:
        least_gotos, least_clicks = await _least(page, url)
    bare = "playwright: the call, picture, tree"
    return [
        Figure("browser, server's start to a page", "ms", ready, Limit("playwright", least_ready), [Target(READY_MS)]),
        Figure("goto with picture and tree", "ms", gotos, Limit(bare, least_gotos), [Target(1.3, "ratio")]),
        Figure("click with picture and tree", "ms", clicks, Limit(bare, least_clicks), [Target(1.5, "ratio")]),
        Figure("browser with a small page, resident", "MiB", memory, None, [Target(MEMORY_MIB, "max")]),
    ]


async def _ours(runtime: LocalRuntime, url: str) -> tuple[list[float], list[float]]:
    gotos, clicks = list[float](), list[float]()
    seen = await _act(runtime, f"goto('{url}')")
    button = next(line for line in seen.content.splitlines() if "] button" in line).strip()[1:].partition("]")[0]
    for samples, calls in ((gotos, f"goto('{url}')"), (clicks, f"click('{button}')")):
        for _ in range(ROUNDS):
            began = perf_counter()
            await _act(runtime, calls)
            samples.append(milliseconds_since(began))
    return gotos, clicks


async def _least(page: Any, url: str) -> tuple[list[float], list[float]]:
    gotos, clicks = list[float](), list[float]()
    session = await page.context.new_cdp_session(page)
    await page.goto(url)
    steps: list[tuple[list[float], Callable[[], Awaitable[object]]]]
    steps = [(gotos, lambda: page.goto(url)), (clicks, lambda: page.click("#b"))]
    for samples, step in steps:
        for _ in range(ROUNDS):
            began = perf_counter()
            await step()
            await page.screenshot()
            await session.send("Accessibility.getFullAXTree")
            samples.append(milliseconds_since(began))
    return gotos, clicks


async def _act(runtime: LocalRuntime, calls: str) -> Observation:
    observation = await runtime.execute(BrowseInteractiveAction(browser_actions=calls), 1, lambda frame: None)
    assert "[Action executed successfully.]" in observation.content, observation.content
    return observation


@asynccontextmanager
async def _browser(place: Path) -> AsyncIterator[LocalRuntime]:
    """A server whose browser shows its first page."""
    runtime = LocalRuntime(place, options=("--plugins", "browser"))
    await runtime.start()
    try:
        await runtime.execute(BrowseURLAction(url="about:blank"), 1, lambda frame: None)
        yield runtime
    finally:
        await runtime.aclose()


@asynccontextmanager
async def _bare(program: str) -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program)
        page = await browser.new_page()
        yield page
        await browser.close()


def _program(playwright: Any) -> str:
    from runtime.plugins.browser.chromium import find

    return find(playwright)


def _resident_mib(runtime: LocalRuntime) -> float:
    """Memory of the worker, the driver and Chromium, added up; shared memory is counted more than once."""
    assert runtime.server_pid is not None
    total = 0
    for pid in descendants(runtime.server_pid):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        if any(part in line for part in (b"chrom", b"run-driver", b"plugins.browser")):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return total / 2**20
