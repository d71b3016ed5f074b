"""What is seen of the active page after a step: picture, tree, text, marks. Each is made once, and only as needed.

A page that was opened is read as text; one that was acted on as a tree, with a picture that has the elements' marks.
All of it is cut to size here, in the worker, and what was cut is said.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from playwright.async_api import CDPSession, Error, Page

from runtime.plugins.browser import observation_text, set_of_marks
from runtime.plugins.browser.extraction import Extraction, extract, look
from runtime.plugins.browser.observation_text import PICTURES
from runtime.plugins.browser.tabs import Tabs

MAX_HTML_CHARS = 1_000_000
"""Of a page that becomes text; html2text takes a second for it."""
PICTURE_TRIES = 3
PICTURE_S = 4.0
"""For one try: where the process that draws has died, Chromium never answers the first one."""
NOT_DRAWN = ("Unable to capture screenshot", "Not attached to an active page")
"""What Chromium says of a page that has just taken the place of another."""
NO_PICTURE = "No picture of the page could be made in time"
GLANCE_S = 1.0
"""For the words of a page that is only opened."""
NOTHING = Extraction({"nodes": []}, {}, "")


async def observe(
    tabs: Tabs, asked: dict[str, Any], *, error: str, notes: Sequence[str], patience_s: float
) -> dict[str, Any]:
    """The fields of the observation of a step. Raises HangError, and playwright's Error where the page breaks."""
    is_browse, by_user = asked["trigger"] == "browse", bool(asked.get("by_user"))
    seen = await tabs.answered(_look(tabs, is_browse, bool(asked["return_axtree"]), by_user), patience_s)
    notes = [*notes, *seen.cuts]
    # what the user sees while they log in is not for files of the workspace
    path = await asyncio.to_thread(_keep, seen.picture) if seen.picture and not by_user else None
    fields: dict[str, Any] = {
        "screenshot": _as_url(seen.picture),
        "screenshot_path": path,
        "set_of_marks": _as_url(seen.marked),
        "focused_element_bid": seen.extraction.focused_element_bid,
        "look": seen.extraction.look,
    }
    if is_browse:
        fields["content"] = observation_text.after_browsing(tabs.active.url, error, seen.text, notes)
    else:
        fields["content"] = observation_text.after_interacting(
            tabs.active.url,
            error,
            None if by_user else seen.text,
            notes,
            focused=seen.extraction.focused_element_bid,
            screenshot_path=path,
        )
    if asked["return_axtree"]:
        fields["axtree_object"] = seen.extraction.axtree_object
        fields["dom_object"] = seen.extraction.dom_object
        fields["extra_element_properties"] = seen.extraction.extra_element_properties
    return fields | about(tabs, asked, error)


def about(tabs: Tabs, asked: dict[str, Any], error: str) -> dict[str, Any]:
    """What is known without asking the page."""
    return {
        "url": tabs.active.url,
        "trigger_by_action": asked["trigger"],
        "error": bool(error),
        "open_pages_urls": tabs.urls,
        "active_page_index": tabs.active_index,
        "last_browser_action": asked["calls"],
        "last_browser_action_error": error,
    }


class _Seen:
    def __init__(self, picture: bytes, text: str, extraction: Extraction, marked: bytes, cuts: list[str]) -> None:
        self.picture, self.text, self.extraction, self.marked, self.cuts = (
            picture,
            text,
            extraction,
            marked,
            cuts,
        )


async def _look(tabs: Tabs, is_browse: bool, with_dom: bool, by_user: bool) -> _Seen:
    page, cuts = tabs.active, list[str]()
    session = await tabs.session(page)
    picture: bytes
    if is_browse:
        picture, (read, is_cut) = await asyncio.gather(_picture(tabs, page), _text(page))
        extraction = await extract(page, session, with_dom=True) if with_dom else await _glance(session)
        if not picture:
            cuts.append(NO_PICTURE)
        if is_cut:
            cuts.append(f"The page is truncated: only its first {MAX_HTML_CHARS} characters of HTML were read")
        return _Seen(picture, read, extraction, b"", cuts)
    picture, extraction = await asyncio.gather(_picture(tabs, page), extract(page, session, with_dom=with_dom))
    if not picture:
        cuts.append(NO_PICTURE)
    marked = asyncio.to_thread(_marked, b"" if by_user else picture, extraction)
    with_marks, read = await asyncio.gather(marked, asyncio.to_thread(extraction.text))
    if extraction.nodes_left_out:
        cuts.append(f"The accessibility tree is truncated: {extraction.nodes_left_out} nodes are not shown")
    if extraction.elements_left_out:
        cuts.append(
            "The accessibility tree is truncated to an outline of what is in view: the page is too large, and "
            f"{extraction.elements_left_out} elements are left out. Scroll to see others"
        )
    return _Seen(picture, read, extraction, with_marks, cuts)


async def _glance(session: CDPSession) -> Extraction:
    """What a reader sees, without a mark on the page; nothing of a page that takes too long for that."""
    with suppress(TimeoutError, Error):
        async with asyncio.timeout(GLANCE_S):
            return replace(NOTHING, look=await look(session))
    return NOTHING


async def _picture(tabs: Tabs, page: Page) -> bytes:
    """What is in view, 1280x720, as Chromium encodes it when it is in a hurry: a fifth larger, in half the time."""
    session = await tabs.session(page)
    for _ in range(PICTURE_TRIES):
        try:
            async with asyncio.timeout(PICTURE_S):
                shot = await session.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
        except TimeoutError:
            continue
        except Error as error:
            if not any(said in error.message for said in NOT_DRAWN):
                raise
            await tabs.drawn()
        else:
            return base64.b64decode(shot["data"])
    return b""


def _marked(picture: bytes, extraction: Extraction) -> bytes:
    return set_of_marks.with_marks(picture, extraction.extra_element_properties) if picture else b""


async def _text(page: Page) -> tuple[str, bool]:
    read = await page.evaluate(_script("serialising.js"), MAX_HTML_CHARS)
    return await asyncio.to_thread(observation_text.of_html, str(read["html"])), bool(read["truncated"])


def _keep(picture: bytes) -> str | None:
    """Write the picture beside the session's data, for its owner alone; None where it cannot be written. Blocks."""
    if not (place := os.environ.get(PICTURES)):
        return None
    folder = Path(place)
    path = folder / f"screenshot_{datetime.now():%Y%m%d_%H%M%S_%f}.png"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(file, "wb") as written:
            written.write(picture)
    except OSError:
        return None
    return str(path)


def _as_url(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}" if picture else ""


@cache
def _script(name: str) -> str:
    return Path(__file__).with_name(name).read_text()
