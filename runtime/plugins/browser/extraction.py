"""Read a page for an agent: its accessibility tree with the bids of the elements, and the properties of each element.

Each step takes as few round trips as possible: a script marks every element of every frame with its bid, the trees are
read while the marks are there, and the marks in ARIA attributes are always removed again. Names and meanings are those
of BrowserGym's observation.

The script runs in the page's own world, because only there can it see click listeners. If a page has changed built-in
objects so that the script fails, it runs in an isolated world. Answers of a page are hostile input: they are
checked for their form, and a frame can only make statements about its own elements.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import CDPSession, Error, Frame, Locator, Page

from runtime.plugins.browser import axtree, page_layout
from runtime.plugins.browser.chromium import VIEWPORT

DESCRIPTION = "handloom: marked"
"""The ARIA description of an element while the page is read, unless the page has given it one."""
MOST_ELEMENTS = 20_000
"""Per frame. Chromium needs 0.1 ms for each accessibility node, and an element has two or three nodes."""
MOST_IN_VIEW = 2_000
"""A frame with more than MOST_ELEMENTS is reduced to an outline of this many elements in view."""
VISIBILITY_PATIENCE_MS = 1_000
"""The browser reports visibility with its next frame; a page that draws none is not waited for any longer."""

CHANGED_MEANWHILE = (
    "Frame was detached",
    "Frame has been detached",
    "Frame with the given frameId is not found",
    "Execution context was destroyed",
    "Cannot find context with specified id",
    "Target page, context or browser has been closed",
)
"""Playwright's errors for a page that navigated while it was read."""
MALFORMED = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
_WORLD = "handloom"
_MARK, _UNMARK = (Path(__file__).with_name(name).read_text() for name in ("marking.js", "unmarking.js"))


@dataclass(slots=True)
class Marking:
    """The results of the marking script, of all frames."""

    elements: dict[str, tuple[float, bool]] = field(default_factory=dict)
    """By bid: the visibility (0 to 1), and whether the element belongs to the set of marks."""
    focus: dict[str, str] = field(default_factory=dict)
    """The focused element of each frame, by the bid of the frame."""
    outline: list[dict[str, Any]] = field(default_factory=list)
    """For a page with too many elements: those in view, each with bid, parent, role, name, bbox and clickable."""
    left_out: int = 0
    """How many elements have no bid."""

    @property
    def focused(self) -> str:
        """The focused element of the page; if that is a frame, the focused element in the frame."""
        bid = self.focus.get("", "")
        while self.focus.get(bid):
            bid = self.focus[bid]
        return bid

    def add(self, frame: str, answer: str) -> None:
        """Add the script's answer from one frame. Raises one of MALFORMED if it is invalid or about another frame."""
        found = json.loads(answer)
        elements = {str(bid): (float(share), bool(marked)) for bid, share, marked in found["elements"]}
        left_out, focused = int(found["total"]) - len(elements), str(found["focused"])
        outline = [
            {**{key: str(row[key]) for key in ("bid", "parent", "role", "name")}, "clickable": bool(row["clickable"])}
            | {"bbox": [float(value) for value in row["bbox"]]}
            for row in found["outline"]
        ]
        if not all(page_layout.belongs(bid, frame) for bid in elements):
            raise ValueError("a frame names elements of another frame")
        self.elements |= elements
        self.left_out += left_out
        self.focus[frame] = focused
        if not frame:
            self.outline = outline


@asynccontextmanager
async def marked_elements(page: Page, session: CDPSession) -> AsyncIterator[Marking]:
    """Mark the elements of the page while the context is open. Raises playwright's errors."""
    marking, done = Marking(), list[Frame | int]()
    try:
        await _mark_main(page.main_frame, session, marking, done)
        if not marking.outline:
            await _mark_within(page.main_frame, marking, done)
        yield marking
    finally:
        unmarking = (_unmark(frame_or_world, session) for frame_or_world in done)
        await asyncio.shield(asyncio.gather(*unmarking, return_exceptions=True))


async def _mark_main(frame: Frame, session: CDPSession, marking: Marking, done: list[Frame | int]) -> None:
    done.append(frame)
    if await _try_mark(frame, "", marking):
        return
    tree = await session.send("Page.getFrameTree")
    where = {"frameId": tree["frameTree"]["frame"]["id"], "worldName": _WORLD}
    world: int = (await session.send("Page.createIsolatedWorld", where))["executionContextId"]
    done.append(world)
    marking.add("", await _call(session, world, _MARK, _arguments("")))


async def _mark_within(frame: Frame, marking: Marking, done: list[Frame | int]) -> None:
    """Mark the child frames of a marked frame; a frame in which the script fails is left out."""
    inner = frame.child_frames
    holders = await asyncio.gather(*map(_holder, inner))

    async def mark(child: Frame, bid: str) -> None:
        done.append(child)
        if await _try_mark(child, bid, marking):
            await _mark_within(child, marking, done)

    await asyncio.gather(*(mark(child, bid) for child, bid in zip(inner, holders, strict=True) if bid))


async def _try_mark(frame: Frame, bid: str, marking: Marking) -> bool:
    """Mark a frame. Returns False if the script fails or its answer is invalid. Raises Error if the page navigates."""
    try:
        marking.add(bid, await frame.evaluate(_MARK, _arguments(bid)))
    except MALFORMED:
        return False
    except Error as error:
        if any(text in error.message for text in CHANGED_MEANWHILE):
            raise
        return False
    return True


def _arguments(prefix: str) -> dict[str, Any]:
    limits = {"limit": MOST_ELEMENTS, "limit_in_view": MOST_IN_VIEW, "patience_ms": VISIBILITY_PATIENCE_MS}
    return {"prefix": prefix, "description": DESCRIPTION, **limits}


async def _holder(frame: Frame) -> str:
    """Return the bid of the element that holds the frame; empty if the frame must not be marked."""
    element = await frame.frame_element()
    tag, bid, sandbox = await element.evaluate(
        "element => [element.tagName, element.getAttribute('bid'), element.getAttribute('sandbox')]"
    )
    await element.dispose()
    runs_scripts = sandbox is None or "allow-scripts" in str(sandbox).split()
    return str(bid) if bid and runs_scripts and str(tag).upper() in ("IFRAME", "FRAME") else ""


async def _unmark(frame_or_world: Frame | int, session: CDPSession) -> None:
    if isinstance(frame_or_world, int):
        await _call(session, frame_or_world, _UNMARK)
    else:
        await frame_or_world.evaluate(_UNMARK)


async def _call(session: CDPSession, world: int, function: str, *arguments: Any) -> Any:
    """Call a JavaScript function in an execution context. Raises playwright's Error if it throws."""
    call = {"functionDeclaration": function, "executionContextId": world, "awaitPromise": True, "returnByValue": True}
    call["arguments"] = [{"value": value} for value in arguments]
    answer = await session.send("Runtime.callFunctionOn", call)
    if "exceptionDetails" in answer:
        raise Error(answer["exceptionDetails"].get("exception", {}).get("description", "the page broke the marking"))
    return answer["result"].get("value")


TRIES = 5
"""How often a page is read that changes while it is read."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """A page as an agent reads it. Field names are BrowserGym's where it has the field."""

    axtree_object: dict[str, Any]
    """`{"nodes": [...]}` with all frames merged; nodes of elements with a bid have it as `browsergym_id`."""
    extra_element_properties: dict[str, dict[str, Any]]
    """By bid: visibility (0 to 1), bbox ([left, top, width, height] in pixels of the viewport, or None), clickable and
    set_of_marks."""
    focused_element_bid: str
    """Empty if nothing is focused."""
    dom_object: dict[str, Any] = field(default_factory=dict)
    """The DOM snapshot; empty unless requested."""
    nodes_left_out: int = 0
    """How many accessibility nodes were cut off by the limit."""
    elements_left_out: int = 0
    """How many elements have no bid. If not 0, the page is too large and the tree is an outline of those in view."""
    look: page_layout.Look = field(default_factory=dict)
    """The visible layout; empty if the page is too large."""

    def text(self) -> str:
        """Return the tree as OpenHands V0 shows it to its agents."""
        return axtree.flatten(self.axtree_object, self.extra_element_properties)


async def extract(page: Page, session: CDPSession, *, with_dom: bool = False) -> Extraction:
    """Mark the page and read it. `session` is a DevTools session of this page and can be reused.

    Raises playwright's errors if the page is gone or keeps changing. If cancelled, removes the marks first.
    """
    for _ in range(TRIES - 1):
        try:
            return await _extract(page, session, with_dom)
        except Error as error:
            if not any(text in error.message for text in CHANGED_MEANWHILE):
                raise
    return await _extract(page, session, with_dom)


async def _extract(page: Page, session: CDPSession, with_dom: bool) -> Extraction:
    async with marked_elements(page, session) as marking:
        if marking.outline:
            return _outlined(marking, await page.title())
        shot, main = await asyncio.gather(
            session.send(
                "DOMSnapshot.captureSnapshot", {**page_layout.SNAPSHOT_PARAMETERS, "includeDOMRects": with_dom}
            ),
            session.send("Accessibility.getFullAXTree"),
        )
        holders = page_layout.frames(shot)
        trees = {"": main["nodes"]}
        within = await asyncio.gather(*(_tree_of(session, frame) for frame in holders.values()))
        trees |= {frame: nodes for frame, nodes in zip(holders.values(), within, strict=True) if nodes}
    return _compose(marking, shot, trees, holders, with_dom)


async def look(session: CDPSession) -> page_layout.Look:
    """Read the visible layout of the page, with the elements that had a bid. Does not change the page. Raises Error."""
    shot = await session.send("DOMSnapshot.captureSnapshot", page_layout.SNAPSHOT_PARAMETERS)
    return await asyncio.to_thread(page_layout.look, shot, *VIEWPORT)


def _compose(
    marking: Marking, shot: dict[str, Any], trees: dict[str, list[axtree.Node]], holders: dict[int, str], with_dom: bool
) -> Extraction:
    known = {bid: of for bid, of in page_layout.elements(shot).items() if bid in marking.elements}
    bids = {of.node: bid for bid, of in known.items()}
    for nodes in trees.values():
        axtree.name_bids(nodes, bids, DESCRIPTION)
    nodes = axtree.merge(trees, holders)
    kept = axtree.cut(nodes)
    properties = {
        bid: _properties(marking, bid, None if of.bbox is None else list(of.bbox), of.clickable)
        for bid, of in known.items()
    }
    return Extraction(
        axtree_object={"nodes": kept},
        extra_element_properties=properties,
        focused_element_bid=marking.focused,
        dom_object=page_layout.without_mark(shot, DESCRIPTION) if with_dom else {},
        nodes_left_out=len(nodes) - len(kept),
        elements_left_out=marking.left_out,
        look=page_layout.look(shot, *VIEWPORT, {bid for bid, known in properties.items() if known["set_of_marks"]}),
    )


def _outlined(marking: Marking, title: str) -> Extraction:
    return Extraction(
        axtree_object={"nodes": axtree.outlined(title, marking.outline)},
        extra_element_properties={
            row["bid"]: _properties(marking, row["bid"], row["bbox"], row["clickable"]) for row in marking.outline
        },
        focused_element_bid=marking.focused,
        elements_left_out=marking.left_out,
    )


def _properties(marking: Marking, bid: str, bbox: list[float] | None, clickable: bool) -> dict[str, Any]:
    visibility, marked = marking.elements[bid]
    return {"visibility": visibility, "bbox": bbox, "clickable": clickable, "set_of_marks": marked}


async def _tree_of(session: CDPSession, frame: str) -> list[axtree.Node]:
    """Return the nodes of one frame; none if it is gone or runs in another process, as in BrowserGym."""
    try:
        answer = await session.send("Accessibility.getFullAXTree", {"frameId": frame})
    except Error:
        return []
    nodes: list[axtree.Node] = answer["nodes"]
    return nodes


async def find(page: Page, bid: str) -> Locator:
    """Return the element with this bid, following its frames. Raises ValueError with BrowserGym's text."""
    if not isinstance(bid, str):
        raise ValueError(f"expected a string, got {bid!r}")
    within: Any = page
    for frame in _frames_on_the_way(bid):
        holder = within.get_by_test_id(frame)
        if not await holder.count():
            raise ValueError(f'Could not find element with bid "{bid}"')
        within = holder.frame_locator(":scope")
    element: Locator = within.get_by_test_id(bid)
    if not await element.count():
        raise ValueError(f'Could not find element with bid "{bid}"')
    return element


def _frames_on_the_way(bid: str) -> list[str]:
    """Return the bids of the frames around an element: for `abC12` these are `a` and `abC`.

    The letters of a frame are a lower-case letter followed by capitals.
    """
    frames, at = [], 0
    while bid[at:] and not bid[at:].isnumeric():
        at += 1
        while bid[at:] and bid[at].isalpha() and bid[at].isupper():
            at += 1
        if bid[:at] != bid:
            frames.append(bid[:at])
    return frames
