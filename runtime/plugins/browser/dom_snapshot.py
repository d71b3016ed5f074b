"""Read a DOM snapshot: the position of each element, and whether it has a click listener.

Pure functions of the answer of `DOMSnapshot.captureSnapshot`, which has parallel arrays for each document and refers to
strings by index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Snapshot = Mapping[str, Any]
Box = tuple[float, float, float, float]

_OWN = re.compile(r"[0-9]+|[a-z][A-Z]*")
"""What an element appends to the bid of its frame: digits, or letters if it holds a frame."""


@dataclass(frozen=True, slots=True)
class Known:
    """The properties of one element in the snapshot."""

    node: int
    """The backend id, which the accessibility tree uses too."""
    bbox: Box | None
    """Left, top, width, height in pixels, relative to the viewport; None if the element is not drawn."""
    clickable: bool


def belongs(bid: str, frame: str) -> bool:
    """Whether a bid belongs to an element in the frame with the bid `frame`, which is empty for the main frame."""
    return bid.startswith(frame) and _OWN.fullmatch(bid, len(frame)) is not None


def elements(snapshot: Snapshot) -> dict[str, Known]:
    """Return the elements of all documents by bid. Bids that do not belong to their frame are ignored.

    If several elements have the same bid the first one counts: a page can put any bid on an unmarked element.
    """
    found: dict[str, Known] = {}
    for document, frame, (left, top) in documents(snapshot):
        boxes = _boxes(document, left, top)
        clickable = set(document["nodes"]["isClickable"]["index"])
        for node, bid in bids_of(snapshot, document).items():
            if belongs(bid, frame):
                backend = document["nodes"]["backendNodeId"][node]
                found.setdefault(bid, Known(backend, boxes.get(node), node in clickable))
    return found


def bids_of(snapshot: Snapshot, document: Mapping[str, Any]) -> dict[int, str]:
    strings: list[str] = snapshot["strings"]
    attribute = strings.index("bid") if "bid" in strings else -1
    bids = {}
    for node, attributes in enumerate(document["nodes"]["attributes"]):
        for at in range(0, len(attributes), 2):
            if attributes[at] == attribute:
                bids[node] = strings[attributes[at + 1]]
                break
    return bids


def frames(snapshot: Snapshot) -> dict[int, str]:
    """Return the ids of frames by the backend id of the element that holds them."""
    holders: dict[int, str] = {}
    for document in snapshot["documents"]:
        for node, child in _children(document):
            holders[document["nodes"]["backendNodeId"][node]] = _frame_id(snapshot, child)
    return holders


def _frame_id(snapshot: Snapshot, document: int) -> str:
    at: int = snapshot["documents"][document]["frameId"]
    return str(snapshot["strings"][at])


def _children(document: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Return pairs of element and document for each frame in this document."""
    held = document["nodes"]["contentDocumentIndex"]
    return zip(held["index"], held["value"], strict=True)


def documents(snapshot: Snapshot) -> Iterator[tuple[Mapping[str, Any], str, tuple[float, float]]]:
    """Yield each document from the main one down, the bid of its frame, and the position of its origin."""
    waiting: list[tuple[int, str, float, float]] = [(0, "", 0.0, 0.0)]
    while waiting:
        index, frame, left, top = waiting.pop()
        document = snapshot["documents"][index]
        left, top = left - document["scrollOffsetX"], top - document["scrollOffsetY"]
        yield document, frame, (left, top)
        bounds = dict(zip(document["layout"]["nodeIndex"], document["layout"]["bounds"], strict=True))
        bids = bids_of(snapshot, document) if document["nodes"]["contentDocumentIndex"]["index"] else {}
        for node, child in _children(document):
            # A frame that is not drawn has no position.
            x, y = (left + bounds[node][0], top + bounds[node][1]) if node in bounds else (0.0, 0.0)
            if node in bids:
                waiting.append((child, bids[node], x, y))


def _boxes(document: Mapping[str, Any], left: float, top: float) -> dict[int, Box]:
    layout = document["layout"]
    rows = zip(layout["nodeIndex"], layout["bounds"], strict=True)
    return {node: (x + left, y + top, width, height) for node, (x, y, width, height) in rows}


def without_mark(snapshot: dict[str, Any], mark: str) -> dict[str, Any]:
    """Remove the descriptions that marking.js has added, in place, and return the snapshot."""
    strings: list[str] = snapshot["strings"]
    if mark in strings and "aria-description" in strings:
        pair = [strings.index("aria-description"), strings.index(mark)]
        for document in snapshot["documents"]:
            for attributes in document["nodes"]["attributes"]:
                at = next((at for at in range(0, len(attributes), 2) if attributes[at : at + 2] == pair), None)
                if at is not None:
                    del attributes[at : at + 2]
    return snapshot
