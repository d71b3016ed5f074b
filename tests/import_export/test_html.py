"""The page replays in a real Chromium: it plays, steps, seeks, asks for nothing, and runs its own script only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from core.events import Event, EventSource, MessageAction
from core.import_export.exporter import export
from core.store.recordings import RecordedFrame
from tests.import_export.conversations import (
    HOSTILE,
    HOSTILE_TEXT,
    HOSTILE_TITLE,
    ORDINARY,
    RECORDING,
    home_with,
    recorded,
)
from tests.pages import reading

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

LAST = len(ORDINARY) - 1


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with reading.browser() as started:
        yield started


@asynccontextmanager
async def opened(
    browser: Browser,
    folder: Path,
    events: tuple[tuple[Event, EventSource, int | None], ...] = ORDINARY,
    recording: tuple[RecordedFrame, ...] = RECORDING,
    *,
    title: str = "A task",
    script: bool = True,
    link: str = "",
    refusals: int = 0,
) -> AsyncIterator[Page]:
    """The page of a conversation. Leaving it checks that it asked for nothing and that nothing went wrong.

    Where `refusals` are expected, the browser has to tell of so many.
    """
    file = folder / "page.html"
    async with home_with(folder, events, recording=recording, title=title) as home:
        await export(home, "c", "html", file)
    context = await browser.new_context(java_script_enabled=script, viewport={"width": 1360, "height": 820})
    context.set_default_timeout(5000)
    page = await context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if not request.url.startswith("data:") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    await page.goto(f"{file.as_uri()}{link}")
    if script:
        await page.wait_for_selector("html[data-ready]")
    try:
        yield page
        assert asked == [f"{file.as_uri()}"]
        assert len(wrong) >= refusals
        assert [text for text in wrong if not (refusals and "Content Security Policy" in text)] == []
    finally:
        await context.close()


async def place(page: Page) -> int:
    """The event at which the replay is."""
    return int((await page.inner_text("#place")).split(" / ")[0]) - 1


async def visible(page: Page) -> list[int]:
    """The events that have happened, according to the chat."""
    ids: list[str] = await page.eval_on_selector_all("#chat article.shown", "all => all.map(one => one.id)")
    return [int(id[1:]) for id in ids]


async def test_page_opens_with_all_events(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path) as page:
        assert await visible(page) == list(range(LAST + 1))
        await expect(page.locator("#state")).to_have_text("finished")
        await expect(page.locator("#cost")).to_have_text("$0.0500")
        assert (await page.inner_text("#terminal .screen")).splitlines() == [
            *("$ pytest -q", "F.", "E   assert 7 == 6", "1 failed, ✓ 1 passed", "work 100%"),
            *("$ pytest -q", "..", "2 passed"),
        ]
        assert await page.locator("#browser img").get_attribute("src")
        assert await page.locator("article.user").first.inner_text() != ""


async def test_keys_step_by_event_and_turn_and_to_both_ends(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path) as page:
        for key, there in (
            ("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Shift+ArrowRight", 10),
            ("ArrowLeft", 9), ("Shift+ArrowLeft", 1), ("Shift+ArrowLeft", 0), ("ArrowLeft", 0), ("End", LAST),
        ):  # fmt: skip
            await page.keyboard.press(key)
            assert await place(page) == there, key
            assert await visible(page) == list(range(there + 1)), key


async def test_all_panes_show_the_position(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path, link="#e3") as page:
        assert await place(page) == 3
        await expect(page.locator("#state")).to_have_text("running")
        await expect(page.locator("#cost")).to_have_text("$0.0123")
        await expect(page.locator("#browser img")).to_be_hidden()
        assert await page.inner_text("#terminal .screen") == ""
        await page.keyboard.press("ArrowRight")
        assert "work 100%" in await page.inner_text("#terminal .screen")
        assert await page.locator("#terminal .f1.bold").inner_text() == "E   assert 7 == 6"


WATCH = """() => {
    const root = document.documentElement;
    window.stopped = new Promise((done) => {
        let played = false;
        new MutationObserver(() => {
            if (root.classList.contains("playing")) played = true;
            else if (played) done();
        }).observe(root, {attributes: true});
    });
}"""
"""From then on the page can be asked when it has played and stopped."""


async def test_page_plays_to_the_end_and_restarts(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path) as page:
        for _ in range(6):
            await page.keyboard.press("+")
        await expect(page.locator("#speed")).to_have_text("64×")
        await page.evaluate(WATCH)
        await page.keyboard.press("Space")
        await page.evaluate("() => window.stopped")  # it stops by itself
        assert await place(page) == LAST


async def test_page_pauses_and_bounds_the_speed(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path) as page:
        for _ in range(9):
            await page.keyboard.press("-")
        await expect(page.locator("#speed")).to_have_text("0.25×")
        for _ in range(4):
            await page.keyboard.press("+")
        await page.keyboard.press("Home")
        await page.keyboard.press("Space")
        await expect(page.locator("#place")).not_to_have_text(f"1 / {LAST + 1}")
        await page.keyboard.press("Space")
        await expect(page.locator("html")).to_have_class("live")
        there = await place(page)
        assert 0 < there < LAST
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert await place(page) == there


async def test_page_seeks_by_digit_slider_and_row(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path) as page:
        await page.keyboard.press("5")
        middle = await place(page)
        assert 0 < middle < LAST
        await page.locator("#seek").evaluate("seek => { seek.value = 0; seek.dispatchEvent(new Event('input')); }")
        assert await place(page) == 0
        await page.locator(".row[data-event='4']").click()
        assert await place(page) == 4
        await expect(page.locator(".row.current")).to_have_attribute("data-event", "4")
        assert await page.locator(".row.ahead").count() > 0


async def test_waits_can_be_played_in_full(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path) as page:
        short = float(await page.get_attribute("#seek", "max") or 0)
        await page.keyboard.press("w")
        assert float(await page.get_attribute("#seek", "max") or 0) > short


async def test_events_are_found_by_text(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path) as page:
        await page.keyboard.press("/")
        await page.keyboard.type("failed")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Escape")
        assert await place(page) == 4


async def test_page_is_readable_without_script(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path, script=False) as page:
        text = await page.inner_text("main")
        assert "Done: total is right now." in text
        await expect(page.locator("#transport")).to_be_hidden()
        await page.locator("#e4 summary").click()
        assert "assert 7 == 6" in await page.inner_text("#e4 pre")


async def test_hostile_text_is_shown_and_not_run(browser: Browser, tmp_path: Path) -> None:
    recording = (recorded(4, 5, HOSTILE_TEXT.encode("utf-8", "replace") + b"\x1b[31m</script>red\x1b[0m\x1b]8;;x\x07"),)
    async with opened(browser, tmp_path, HOSTILE, recording, title=HOSTILE_TITLE) as page:
        for _ in range(len(HOSTILE)):
            await page.keyboard.press("ArrowLeft")
        await page.keyboard.press("a")
        await page.keyboard.press("End")
        for summary in await page.query_selector_all("summary"):
            await summary.evaluate("one => one.click()")
        assert await page.evaluate("window.hit") is None
        for selector, count in (
            ("article :is(script, iframe, svg, style, base, meta, a[href^=j])", 0),
            ("script:not([type])", 2),
            ("style", 1),
            ("base, iframe", 0),
        ):
            assert await page.locator(selector).count() == count, selector
        assert await page.locator("article").count() == len(HOSTILE)
        assert "<script>window.hit = 1</script>" in (await page.text_content("#e0") or "")
        assert "</script>red" in await page.inner_text("#terminal .screen")
        text = await page.evaluate("document.documentElement.textContent")
        assert not set(text) & set("\u202e\u2066\u200b\x00\x1b\ufeff")


async def test_content_policy_refuses_other_scripts_and_all_connections(browser: Browser, tmp_path: Path) -> None:
    async with opened(browser, tmp_path, refusals=2) as page:
        hit, refused = await page.evaluate(
            """async () => {
                const script = document.createElement("script");
                script.textContent = "window.hit = 1";
                document.body.append(script);
                const refused = await fetch("data:text/plain,x").then(() => false, () => true);
                return [window.hit ?? null, refused];
            }"""
        )
        assert (hit, refused) == (None, True)


async def test_long_conversation_opens_and_seeks_quickly(browser: Browser, tmp_path: Path) -> None:
    events = tuple((MessageAction(content=f"message {n}"), EventSource.AGENT, None) for n in range(4000))
    async with opened(browser, tmp_path, events, ()) as page:
        assert await page.locator(".row").count() < 100
        await page.keyboard.press("Home")
        assert await visible(page) == [0]
        await page.keyboard.press("End")
        assert await visible(page) == list(range(3600, 4000))
        await page.click("#earlier")
        assert await visible(page) == list(range(3200, 4000))
        await page.keyboard.press("9")
        assert 3500 < await place(page) < 3700
        await expect(page.locator("#terminal")).to_be_hidden()
