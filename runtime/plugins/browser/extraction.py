"""What an agent is told of a page: the accessibility tree with the bids of its elements, and what is known of each.

Once a step, in as few round trips as can be: the elements are marked, the trees are read at the same time, and the
marks in ARIA attributes are taken off again, whatever happens. Names and meaning are BrowserGym's; the fields are those
of its observation. Everything that comes back is the page's own text and as such hostile.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import CDPSession, Error, Locator, Page

from runtime.plugins.browser import axtree, dom_snapshot, page_layout
from runtime.plugins.browser.chromium import VIEWPORT
from runtime.plugins.browser.element_ids import CHANGED_MEANWHILE, DESCRIPTION, Marking, marked

TRIES = 5
"""A page may change while it is read."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """A page as an agent reads it. Fields that BrowserGym has carry its names."""

    axtree_object: dict[str, Any]
    """`{"nodes": [...]}`, the frames merged, each node with its `browsergym_id` where it has one."""
    extra_element_properties: dict[str, dict[str, Any]]
    """By bid: visibility (0 to 1), bbox ([left, top, width, height] in pixels of the view, or None), clickable and
    set_of_marks."""
    focused_element_bid: str
    """Empty where nothing is focused."""
    dom_object: dict[str, Any] = field(default_factory=dict)
    """The DOM snapshot; empty unless asked for."""
    nodes_left_out: int = 0
    """Of the accessibility tree, by the cap."""
    elements_left_out: int = 0
    """Without a bid: the page has too many for a tree, which is an outline of those in view instead."""
    look: page_layout.Look = field(default_factory=dict)
    """What a reader sees of it (`looks`); empty where the page is too large."""

    def text(self, *, visible_only: bool = False) -> str:
        """The tree as OpenHands V0 shows it to its agents."""
        style = axtree.Style(with_clickable=True, skip_generic=False, filter_visible_only=visible_only)
        return axtree.flatten(self.axtree_object, self.extra_element_properties, style)


async def extract(page: Page, session: CDPSession, *, with_dom: bool = False) -> Extraction:
    """Mark the page and read it. `session` is a DevTools session of this page, which may be used for many steps.

    Raises playwright's errors where the page is gone or keeps changing. Cancelled, it takes its marks off first.
    """
    for _ in range(TRIES - 1):
        try:
            return await _extract(page, session, with_dom)
        except Error as error:
            if not any(said in error.message for said in CHANGED_MEANWHILE):
                raise
    return await _extract(page, session, with_dom)


async def _extract(page: Page, session: CDPSession, with_dom: bool) -> Extraction:
    async with marked(page, session) as marking:
        if marking.outline:
            return _outlined(marking, await page.title())
        shot, main = await asyncio.gather(
            session.send(
                "DOMSnapshot.captureSnapshot",
                {**page_layout.ASKED, "includeDOMRects": with_dom},
            ),
            session.send("Accessibility.getFullAXTree"),
        )
        holders = dom_snapshot.frames(shot)
        trees = {"": main["nodes"]}
        within = await asyncio.gather(*(_tree_of(session, frame) for frame in holders.values()))
        trees |= {frame: nodes for frame, nodes in zip(holders.values(), within, strict=True) if nodes}
    return _compose(marking, shot, trees, holders, with_dom)


async def look(session: CDPSession) -> page_layout.Look:
    """What a reader sees of the page, with the elements that have had a bid. Changes nothing on it. Raises Error."""
    shot = await session.send("DOMSnapshot.captureSnapshot", page_layout.ASKED)
    return await asyncio.to_thread(page_layout.look, shot, *VIEWPORT)


def _compose(
    marking: Marking, shot: dict[str, Any], trees: dict[str, list[axtree.Node]], holders: dict[int, str], with_dom: bool
) -> Extraction:
    known = {bid: of for bid, of in dom_snapshot.elements(shot).items() if bid in marking.elements}
    bids = {of.node: bid for bid, of in known.items()}
    for nodes in trees.values():
        axtree.name_bids(nodes, bids, DESCRIPTION)
    nodes = axtree.merge(trees, holders)
    kept = axtree.cut(nodes)
    properties = {}
    for bid, of in known.items():
        visibility, marked = marking.elements[bid]
        properties[bid] = {
            "visibility": visibility,
            "bbox": None if of.bbox is None else list(of.bbox),
            "clickable": of.clickable,
            "set_of_marks": marked,
        }
    return Extraction(
        axtree_object={"nodes": kept},
        extra_element_properties=properties,
        focused_element_bid=marking.focused,
        dom_object=dom_snapshot.without_mark(shot, DESCRIPTION) if with_dom else {},
        nodes_left_out=len(nodes) - len(kept),
        elements_left_out=marking.left_out,
        look=page_layout.look(shot, *VIEWPORT, {bid for bid, known in properties.items() if known["set_of_marks"]}),
    )


def _outlined(marking: Marking, title: str) -> Extraction:
    properties = {}
    for row in marking.outline:
        visibility, marked = marking.elements[row["bid"]]
        properties[row["bid"]] = {
            "visibility": visibility,
            "bbox": row["bbox"],
            "clickable": row["clickable"],
            "set_of_marks": marked,
        }
    return Extraction(
        axtree_object={"nodes": axtree.outlined(title, marking.outline)},
        extra_element_properties=properties,
        focused_element_bid=marking.focused,
        elements_left_out=marking.left_out,
    )


async def _tree_of(session: CDPSession, frame: str) -> list[axtree.Node]:
    """The nodes of one frame; none where it is gone or lives in a process of its own, as in BrowserGym."""
    try:
        answer = await session.send("Accessibility.getFullAXTree", {"frameId": frame})
    except Error:
        return []
    nodes: list[axtree.Node] = answer["nodes"]
    return nodes


async def find(page: Page, bid: str) -> Locator:
    """The element with this bid, through the frames that its letters name. Raises ValueError in BrowserGym's words."""
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
    """The bids of the frames around an element: of `abC12` these are `a` and `abC`.

    A frame's letters begin with a small one and go on with capitals.
    """
    frames, at = [], 0
    while bid[at:] and not bid[at:].isnumeric():
        at += 1
        while bid[at:] and bid[at].isalpha() and bid[at].isupper():
            at += 1
        if bid[:at] != bid:
            frames.append(bid[:at])
    return frames
