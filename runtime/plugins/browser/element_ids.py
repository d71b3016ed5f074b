"""Marking: every element of every frame has its bid while the trees of the page are read.

The script runs where the page's own scripts do, for only there can it see what listens for clicks. A page that has
bent the language so that the script breaks is marked from a world of its own. What a page answers is believed only in
its form: it can lie about itself, and about nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import CDPSession, Error, Frame, Page

from runtime.plugins.browser import dom_snapshot

DESCRIPTION = "handloom: marked"
"""Of an element while it is read, unless the page gives it one."""
MOST_ELEMENTS = 20_000
"""Of one frame. Chromium needs 0.1 ms for each node of an accessibility tree, and there are two or three an element."""
MOST_IN_VIEW = 2_000
"""Of a frame with more elements than that: what is told of it instead."""
VISIBILITY_PATIENCE_MS = 1_000
"""The browser tells what is in view with its next picture; a page that draws none is not waited for any longer."""

CHANGED_MEANWHILE = (
    "Frame was detached",
    "Frame has been detached",
    "Frame with the given frameId is not found",
    "Execution context was destroyed",
    "Cannot find context with specified id",
    "Target page, context or browser has been closed",
)
"""What playwright says of a page that went on while it was read."""
MALFORMED = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
_WORLD = "handloom"
_MARK, _UNMARK = (Path(__file__).with_name(name).read_text() for name in ("marking.js", "unmarking.js"))


@dataclass(slots=True)
class Marking:
    """What marking told, over all frames."""

    elements: dict[str, tuple[float, bool]] = field(default_factory=dict)
    """Visibility and membership of the set of marks, by bid."""
    focus: dict[str, str] = field(default_factory=dict)
    """The focused element of each frame, by the bid of the frame."""
    outline: list[dict[str, Any]] = field(default_factory=list)
    """Of a page with too many elements: those in view, each with bid, parent, role, name, bbox and clickable."""
    left_out: int = 0
    """Elements without a bid."""

    @property
    def focused(self) -> str:
        """The focused element of the page: where it is a frame, the one in there."""
        bid = self.focus.get("", "")
        while self.focus.get(bid):
            bid = self.focus[bid]
        return bid

    def add(self, frame: str, answer: str) -> None:
        """What one frame told. Raises one of MALFORMED where that has not the form, or speaks of another frame."""
        told = json.loads(answer)
        elements = {str(bid): (float(share), bool(marked)) for bid, share, marked in told["elements"]}
        left_out, focused = int(told["total"]) - len(elements), str(told["focused"])
        outline = [
            {**{key: str(row[key]) for key in ("bid", "parent", "role", "name")}, "clickable": bool(row["clickable"])}
            | {"bbox": [float(value) for value in row["bbox"]]}
            for row in told["outline"]
        ]
        if not all(dom_snapshot.belongs(bid, frame) for bid in elements):
            raise ValueError("a frame speaks of elements of others")
        self.elements |= elements
        self.left_out += left_out
        self.focus[frame] = focused
        if not frame:
            self.outline = outline


@asynccontextmanager
async def marked(page: Page, session: CDPSession) -> AsyncIterator[Marking]:
    """Mark the page for as long as this lasts. Raises playwright's errors."""
    marking, done = Marking(), list[Frame | int]()
    try:
        await _mark_main(page.main_frame, session, marking, done)
        if not marking.outline:
            await _mark_within(page.main_frame, marking, done)
        yield marking
    finally:
        unmarking = (_unmark(place, session) for place in done)
        await asyncio.shield(asyncio.gather(*unmarking, return_exceptions=True))


async def _mark_main(frame: Frame, session: CDPSession, marking: Marking, done: list[Frame | int]) -> None:
    done.append(frame)
    if await _was_marked(frame, "", marking):
        return
    tree = await session.send("Page.getFrameTree")
    where = {"frameId": tree["frameTree"]["frame"]["id"], "worldName": _WORLD}
    world: int = (await session.send("Page.createIsolatedWorld", where))["executionContextId"]
    done.append(world)
    marking.add("", await _call(session, world, _MARK, _asked("")))


async def _mark_within(frame: Frame, marking: Marking, done: list[Frame | int]) -> None:
    """Mark the frames in a frame that is marked; one that breaks the script is left out."""
    inner = frame.child_frames
    holders = await asyncio.gather(*map(_holder, inner))

    async def mark(child: Frame, bid: str) -> None:
        done.append(child)
        if await _was_marked(child, bid, marking):
            await _mark_within(child, marking, done)

    await asyncio.gather(*(mark(child, bid) for child, bid in zip(inner, holders, strict=True) if bid))


async def _was_marked(frame: Frame, bid: str, marking: Marking) -> bool:
    """Mark a frame; False where it breaks the script or falsifies its answer. Raises Error where the page goes on."""
    try:
        marking.add(bid, await frame.evaluate(_MARK, _asked(bid)))
    except MALFORMED:
        return False
    except Error as error:
        if any(said in error.message for said in CHANGED_MEANWHILE):
            raise
        return False
    return True


def _asked(prefix: str) -> dict[str, Any]:
    limits = {"limit": MOST_ELEMENTS, "limit_in_view": MOST_IN_VIEW, "patience_ms": VISIBILITY_PATIENCE_MS}
    return {"prefix": prefix, "description": DESCRIPTION, **limits}


async def _holder(frame: Frame) -> str:
    """The bid of the element that holds the frame; empty where the frame is not to be marked."""
    element = await frame.frame_element()
    tag, bid, sandbox = await element.evaluate(
        "element => [element.tagName, element.getAttribute('bid'), element.getAttribute('sandbox')]"
    )
    await element.dispose()
    runs_scripts = sandbox is None or "allow-scripts" in str(sandbox).split()
    return str(bid) if bid and runs_scripts and str(tag).upper() in ("IFRAME", "FRAME") else ""


async def _unmark(place: Frame | int, session: CDPSession) -> None:
    if isinstance(place, int):
        await _call(session, place, _UNMARK)
    else:
        await place.evaluate(_UNMARK)


async def _call(session: CDPSession, world: int, function: str, *arguments: Any) -> Any:
    """Call a function in a world. Raises playwright's Error where it throws."""
    asked = {"functionDeclaration": function, "executionContextId": world, "awaitPromise": True, "returnByValue": True}
    answer = await session.send(
        "Runtime.callFunctionOn", {**asked, "arguments": [{"value": value} for value in arguments]}
    )
    if "exceptionDetails" in answer:
        raise Error(answer["exceptionDetails"].get("exception", {}).get("description", "the page broke the marking"))
    return answer["result"].get("value")
