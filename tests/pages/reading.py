"""Handloom's side: each page at the start and after each step, in the form of BrowserGym's side."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Error, Page, Route, ViewportSize, async_playwright

from runtime.plugins.browser import chromium
from runtime.plugins.browser.extraction import extract, find

FOLDER = Path(__file__).parent
NAMES = sorted(page.stem for page in FOLDER.glob("*.html"))
ADDRESS = "http://pages.test/"
VIEW: ViewportSize = {"width": 1280, "height": 720}
ACTION_TIMEOUT_MS = 500

_STEPS: dict[str, list[list[Any]]] = json.loads((FOLDER / "steps.json").read_text())
_FILES = {page.name: page.read_text() for page in FOLDER.glob("*.html")}
_ELEMENTS = (FOLDER / "elements.js").read_text()


async def program() -> str:
    """The Chromium that the browser plugin starts. Raises NoChromiumError."""
    async with async_playwright() as playwright:
        return chromium.find(playwright)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """A browser of its own that finds elements by bid."""
    async with async_playwright() as playwright:
        playwright.selectors.set_test_id_attribute("bid")
        started = await playwright.chromium.launch(executable_path=chromium.find(playwright), chromium_sandbox=False)
        try:
            yield started
        finally:
            await started.close()


@asynccontextmanager
async def opened(started: Browser, name: str) -> AsyncIterator[Page]:
    """One of the pages, at the same address on every machine, answered from its file."""
    context = await started.new_context(viewport=VIEW)
    context.set_default_timeout(5000)

    async def answer(route: Route) -> None:
        body = _FILES.get(route.request.url.removeprefix(ADDRESS).partition("#")[0])
        await route.fulfill(body=body, content_type="text/html", status=404 if body is None else 200)

    await context.route(f"{ADDRESS}**", answer)
    page = await context.new_page()
    await page.goto(f"{ADDRESS}{name}.html")
    try:
        yield page
    finally:
        await context.close()


async def read(started: Browser, name: str) -> dict[str, Any]:
    """The page, and the page after each of its steps."""
    async with opened(started, name) as page:
        states = [{"step": None, "error": "", **await told(page)}]
        for step in _STEPS.get(name, []):
            error = await do(page, step)
            states.append({"step": step, "error": error, **await told(page)})
    return {"chromium": started.version, "states": states}


async def told(page: Page) -> dict[str, Any]:
    """One extraction."""
    session = await page.context.new_cdp_session(page)
    extraction = await extract(page, session)
    await session.detach()
    named: dict[str, str] = {}
    for frame in page.frames:
        named |= await frame.evaluate(_ELEMENTS)
    return {
        "focused": extraction.focused_element_bid,
        "text": extraction.text().split("\n"),
        "elements": named,
        "properties": extraction.extra_element_properties,
    }


async def do(page: Page, step: list[Any]) -> str:
    """Carry out one action on an element. Returns the error in BrowserGym's wording, or an empty text."""
    name, bid, *arguments = step
    try:
        element = await find(page, bid)
        if name == "drag_and_drop":
            await element.hover(timeout=ACTION_TIMEOUT_MS)
            await page.mouse.down()
            await (await find(page, arguments[0])).hover(timeout=ACTION_TIMEOUT_MS)
            await page.mouse.up()
        elif name in ("click", "dblclick") and arguments:
            await getattr(element, name)(button=arguments[0], modifiers=arguments[1], timeout=ACTION_TIMEOUT_MS)
        else:
            await getattr(element, name)(*arguments, timeout=ACTION_TIMEOUT_MS)
    except (Error, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
