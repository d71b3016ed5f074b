"""Observe the active page after a step: screenshot, accessibility tree, text and set of marks.

A page that was opened is read as text. A page that was acted on is read as a tree, with a second screenshot that shows
a dashed frame and the bid on each element that can be acted on. Everything is truncated here, in the worker, and the
observation says what was truncated.
"""

from __future__ import annotations

import asyncio
import base64
import io
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from playwright.async_api import CDPSession, Error, Page

from runtime.plugins.browser import observation_text
from runtime.plugins.browser.extraction import Extraction, extract, look
from runtime.plugins.browser.observation_text import PICTURES
from runtime.plugins.browser.tabs import Tabs

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

MAX_HTML_CHARS = 1_000_000
"""Limit for a page that is converted to text; html2text takes a second for that much."""
PICTURE_TRIES = 3
PICTURE_S = 4.0
"""Timeout of one try: if the rendering process has died, Chromium never answers the first one."""
NOT_DRAWN = ("Unable to capture screenshot", "Not attached to an active page")
"""Chromium's errors for a page that has just replaced another."""
NO_PICTURE = "No picture of the page could be made in time"
GLANCE_S = 1.0
"""Timeout for reading the layout of a page that was only opened."""
_SERIALISE = Path(__file__).with_name("serialising.js").read_text()
NOTHING = Extraction({"nodes": []}, {}, "")


async def observe(
    tabs: Tabs, request: dict[str, Any], *, error: str, notes: Sequence[str], patience_s: float
) -> dict[str, Any]:
    """Return the fields of a step's observation. Raises HangError, and playwright's Error if the page crashes."""
    is_browse, by_user = request["trigger"] == "browse", bool(request.get("by_user"))
    content = await tabs.answered(_read_page(tabs, is_browse, bool(request["return_axtree"]), by_user), patience_s)
    notes = [*notes, *content.truncations]
    # while the user controls the browser, they may be logging in: those screenshots are not saved
    path = await asyncio.to_thread(_save_screenshot, content.picture) if content.picture and not by_user else None
    fields: dict[str, Any] = {
        "screenshot": _as_url(content.picture),
        "screenshot_path": path,
        "set_of_marks": _as_url(content.marked),
        "focused_element_bid": content.extraction.focused_element_bid,
        "look": content.extraction.look,
    }
    url, extraction = tabs.active.url, content.extraction
    if is_browse:
        fields["content"] = observation_text.after_browsing(url, error, content.text, notes)
    else:
        tree, focused = None if by_user else content.text, extraction.focused_element_bid
        fields["content"] = observation_text.after_interacting(
            url, error, tree, notes, focused=focused, screenshot_path=path
        )
    if request["return_axtree"]:
        for name in ("axtree_object", "dom_object", "extra_element_properties"):
            fields[name] = getattr(extraction, name)
    return fields | about(tabs, request, error)


def about(tabs: Tabs, request: dict[str, Any], error: str) -> dict[str, Any]:
    """Return the fields that are known without asking the page."""
    return {
        "url": tabs.active.url,
        "trigger_by_action": request["trigger"],
        "error": bool(error),
        "open_pages_urls": tabs.urls,
        "active_page_index": tabs.active_index,
        "last_browser_action": request["calls"],
        "last_browser_action_error": error,
    }


class _PageContent(NamedTuple):
    picture: bytes
    text: str
    extraction: Extraction
    marked: bytes
    truncations: list[str]


async def _read_page(tabs: Tabs, is_browse: bool, with_dom: bool, by_user: bool) -> _PageContent:
    page, truncations = tabs.active, list[str]()
    session = await tabs.session(page)
    picture: bytes
    if is_browse:
        picture, (read, is_cut) = await asyncio.gather(_picture(tabs, page), _text(page))
        extraction = await extract(page, session, with_dom=True) if with_dom else await _read_layout(session)
        if not picture:
            truncations.append(NO_PICTURE)
        if is_cut:
            truncations.append(f"The page is truncated: only its first {MAX_HTML_CHARS} characters of HTML were read")
        return _PageContent(picture, read, extraction, b"", truncations)
    picture, extraction = await asyncio.gather(_picture(tabs, page), extract(page, session, with_dom=with_dom))
    if not picture:
        truncations.append(NO_PICTURE)
    marks = asyncio.to_thread(draw_marks, b"" if by_user else picture, extraction.extra_element_properties)
    marked, read = await asyncio.gather(marks, asyncio.to_thread(extraction.text))
    if extraction.nodes_left_out:
        truncations.append(f"The accessibility tree is truncated: {extraction.nodes_left_out} nodes are not shown")
    if extraction.elements_left_out:
        truncations.append(
            "The accessibility tree is truncated to an outline of what is in view: the page is too large, and "
            f"{extraction.elements_left_out} elements are left out. Scroll to see others"
        )
    return _PageContent(picture, read, extraction, marked, truncations)


async def _read_layout(session: CDPSession) -> Extraction:
    """Read the layout without marking the page. Returns NOTHING if that takes too long."""
    with suppress(TimeoutError, Error):
        async with asyncio.timeout(GLANCE_S):
            return replace(NOTHING, look=await look(session))
    return NOTHING


async def _picture(tabs: Tabs, page: Page) -> bytes:
    """Take a screenshot of the viewport. `optimizeForSpeed` makes the PNG a fifth larger in half the time."""
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


async def _text(page: Page) -> tuple[str, bool]:
    read = await page.evaluate(_SERIALISE, MAX_HTML_CHARS)
    return await asyncio.to_thread(observation_text.of_html, str(read["html"])), bool(read["truncated"])


def _save_screenshot(picture: bytes) -> str | None:
    """Save the screenshot with permissions for its owner only. Returns None if it cannot be written. Blocks."""
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


FONT_SIZE = 12
LINE_WIDTH = 2
TAG_MARGIN = 3
"""Space around the bid, including the border, in pixels."""
DASH, GAP = 4, 8
SMALLEST_AREA = 20
"""In square pixels: a mark on a smaller element would cover more than the element."""


def draw_marks(picture: bytes, properties: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Draw the marks of `extra_element_properties` on a PNG and return a PNG; empty if `picture` is empty.

    Takes as long as a screenshot; call it in a thread. Raises OSError if `picture` is not an image.
    """
    if not picture:
        return b""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=FONT_SIZE)
    for bid, known in properties.items():
        x, y, width, height = known["bbox"] or (0, 0, 0, 0)
        if not known["set_of_marks"] or width * height < SMALLEST_AREA:
            continue
        corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
        for at, corner in enumerate(corners):
            _dash(draw, corner, corners[(at + 1) % 4])
        left, top, right, bottom = font.getbbox(bid)
        tag_width, tag_height = right - left + 2 * TAG_MARGIN, bottom - top + 2 * TAG_MARGIN
        tag_x, tag_y = round(x), round(y - tag_height / 2 + 4)
        tag = (tag_x, tag_y, math.ceil(tag_x + tag_width - 1), math.ceil(tag_y + tag_height - 1))
        draw.rectangle(tag, fill="black", outline="white", width=1)
        draw.text((tag_x + TAG_MARGIN - left, tag_y + TAG_MARGIN - top), bid, font=font, fill="white")
    output = io.BytesIO()
    image.save(output, format="PNG", compress_level=1)
    return output.getvalue()


def _dash(draw: ImageDraw, start: tuple[float, float], end: tuple[float, float]) -> None:
    length = math.dist(start, end)
    if length == 0:
        return

    def point_at(done: float) -> tuple[int, int]:
        share = done / length
        return round(start[0] + (end[0] - start[0]) * share), round(start[1] + (end[1] - start[1]) * share)

    for at in range(0, math.ceil(length), DASH + GAP):
        draw.line([point_at(at), point_at(min(at + DASH, length))], fill="black", width=LINE_WIDTH)
