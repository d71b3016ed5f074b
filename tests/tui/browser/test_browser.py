"""The pages that the agent saw: the newest, earlier ones, and the message if there is no picture."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from core.events import (
    BrowseInteractiveAction,
    BrowserOutputObservation,
    BrowseURLAction,
    Envelope,
    EventSource,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    PageShown,
)
from core.store.blobs import extract_pictures
from tests.store.test_blobs import png, url
from tests.tui.workspace.running_app import Running, running, until
from tui.browser.model import BrowserModel


def page(number: int, **fields: Any) -> BrowserOutputObservation:
    return BrowserOutputObservation(url=f"http://localhost:8000/{number}", trigger_by_action="browse", **fields)


def envelope(id: int, event: Any) -> Envelope:
    now = datetime(2026, 1, 1, 12, 0, id, tzinfo=UTC)
    return Envelope(conversation_id="c", id=id, timestamp=now, source=EventSource.AGENT, event=event)


def painted(it: Running) -> int:
    """How many cells have a colour of a picture's own: pure red, green or blue."""
    strips = it.app.screen._compositor.render_strips()
    pure = {(255, 0, 0), (0, 128, 0), (0, 0, 255)}
    grounds = [
        (segment.cell_length, segment.style.bgcolor.triplet)
        for strip in strips
        for segment in strip
        if segment.style and segment.style.bgcolor and segment.style.bgcolor.triplet
    ]
    return sum(length for length, triplet in grounds if tuple(triplet) in pure)


async def show(it: Running, action: Any, observation: Any) -> None:
    """Have an action and its observation said, whose pictures are in the log."""
    bare, blobs = extract_pictures(observation)
    it.session.stream.blobs.update({blob.ref.digest: blob for blob in blobs})
    cause = await it.session.stream.append(action, EventSource.AGENT)
    await it.session.stream.append(bare, EventSource.AGENT, cause.id)
    await it.settle()


def test_newest_page_is_followed_until_reader_goes_back() -> None:
    model = BrowserModel()
    for number in range(3):
        model.apply(envelope(number, page(number)))
    assert model.page is not None
    assert model.page.url.endswith("/2")
    model.go(0)
    model.apply(envelope(3, page(3)))
    assert model.page.url.endswith("/0")
    model.go(99)
    model.apply(envelope(4, page(4)))
    assert model.page.url.endswith("/4")


def test_older_pages_leave_shown_page_in_place() -> None:
    model = BrowserModel()
    model.apply(envelope(5, page(5)))
    model.apply(envelope(6, page(6)))
    model.go(0)
    model.prepend([envelope(1, page(1)), envelope(2, page(2))])
    assert model.page is not None
    assert model.page.url.endswith("/5")
    assert model.index == 2


def test_page_texts_are_sanitised() -> None:
    model = BrowserModel()
    model.apply(envelope(0, BrowserOutputObservation(url="http://a/\x1b]52;c;AAAA\x07\n", trigger_by_action="browse")))
    assert model.page is not None
    assert "\x1b" not in model.page.url
    assert "\n" not in model.page.url


@pytest.mark.every_frame
async def test_pane_shows_address_place_picture_and_error(monkeypatch: Any) -> None:
    async with running(size=(160, 48)) as it:
        assert not it.app.workspace.browser.display, "there is no page yet"
        await show(it, BrowseURLAction(url="http://localhost:8000/1"), page(1, screenshot=url(png(320, 200, "green"))))
        failed = page(2, last_browser_action_error="Timeout: no such bid", error=True)
        await show(it, BrowseInteractiveAction(browser_actions="click('9')"), failed)
        assert it.app.workspace.browser.display
        text = it.screen_text()
        assert "http://localhost:8000/2" in text
        assert "2/2" in text
        assert "No screenshot was taken." in text
        assert "Timeout: no such bid" in text
        await it.press("f5", "left")
        text = it.screen_text()
        assert "http://localhost:8000/1" in text
        assert "1/2" in text
        assert painted(it) > 300
        await it.press("u")
        assert it.app.clipboard == "http://localhost:8000/1"
        await it.press("end")
        assert "2/2" in it.screen_text()


async def test_chat_shows_plots_and_unfolded_screenshots() -> None:
    async with running(size=(90, 48)) as it:
        plot = IPythonRunCellObservation(code="plot()", content="done", image_urls=[url(png(400, 300))])
        await show(it, IPythonRunCellAction(code="plot()"), plot)
        assert painted(it) > 300
        await show(it, BrowseURLAction(url="http://a"), page(1, screenshot=url(png(400, 300, "blue"))))
        block = it.app.workspace.chat.place.column.model.blocks[-1]  # type: ignore[union-attr]
        before = painted(it)
        assert block.can_fold
        await it.press("f2", "up", "space")
        await it.settle()
        assert painted(it) > before + 300


async def test_broken_picture_is_reported() -> None:
    async with running(size=(100, 40)) as it:
        whole = url(png(300, 300))
        observation, (blob,) = extract_pictures(IPythonRunCellObservation(code="", image_urls=[whole]))
        it.session.stream.blobs[blob.ref.digest] = type(blob)(blob.ref, blob.data[:50])
        cause = await it.session.stream.append(IPythonRunCellAction(code="x"), EventSource.AGENT)
        await it.session.stream.append(observation, EventSource.AGENT, cause.id)
        await it.settle()
        assert "Cannot show the image: it is broken." in it.screen_text()


def shown(title: str, picture: bytes) -> PageShown:
    return PageShown(cause=1, url="http://localhost:8000/", title=title, data=picture, width=8, height=4)


async def test_live_page_is_watched_only_while_pane_is_visible() -> None:
    async with running((160, 48)) as it:
        assert it.session.watchers == 0
        await show(it, BrowseURLAction(url="http://localhost:8000/0"), page(0))
        it.session.pages.put_nowait(shown("Clock", png(8, 4)))
        await until(it.pilot, lambda: painted(it) > 0)
        assert "http://localhost:8000/  Clock" in it.screen_text()
        assert "live" in it.screen_text()
        await it.press("f2", "f2")  # the chat alone
        await until(it.pilot, lambda: it.session.watchers == 0)
        await it.press("f5")
        await until(it.pilot, lambda: it.session.watchers == 1)
        assert "live" not in it.screen_text()


async def test_live_page_does_not_replace_earlier_page() -> None:
    async with running((160, 48)) as it:
        for number in range(2):
            await show(it, BrowseURLAction(url=f"http://localhost:8000/{number}"), page(number))
        await it.press("f5", "left")
        it.session.pages.put_nowait(shown("Clock", png(8, 4)))
        await until(it.pilot, it.session.pages.empty)
        await it.settle()
        assert "1/2" in it.screen_text()
        await it.press("right")
        await until(it.pilot, lambda: "Clock" in it.screen_text())


async def test_broken_live_picture_is_reported() -> None:
    async with running((160, 48)) as it:
        await show(it, BrowseURLAction(url="http://localhost:8000/0"), page(0))
        it.session.pages.put_nowait(shown("Clock", b"no picture"))
        await until(it.pilot, lambda: "Cannot show the image" in it.screen_text())


def test_title_is_read_from_accessibility_tree() -> None:
    model = BrowserModel()
    model.apply(envelope(1, page(1, content="BEGIN\nRootWebArea 'Shop \x1b[31m of mine', focused\n\t[1] button")))
    assert model.page is not None
    assert "Shop" in model.page.title
    assert "\x1b" not in model.page.title
