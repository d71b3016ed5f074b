"""What a DOM snapshot tells of each element: where it is and whether something listens for clicks on it.

Pure functions of the answer of `DOMSnapshot.captureSnapshot`: parallel arrays for each document, strings by index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Snapshot = Mapping[str, Any]
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Known:
    """What the snapshot knows of one element."""

    node: int
    """Its backend id, by which the accessibility tree names it."""
    bbox: Box | None
    """Left, top, width, height in pixels from the upper left corner of the view; None where it is not drawn."""
    clickable: bool


def elements(snapshot: Snapshot) -> dict[str, Known]:
    """What is known of each element that has a bid, by bid, over all documents that belong to the page.

    Where several claim one bid the first counts: an element that was not marked can say what it likes.
    """
    strings: list[str] = snapshot["strings"]
    attribute = strings.index("bid") if "bid" in strings else -1
    found: dict[str, Known] = {}
    for index, (left, top) in _corners(snapshot):
        document = snapshot["documents"][index]
        boxes = _boxes(document, left, top)
        clickable = set(document["nodes"]["isClickable"]["index"])
        for node, attributes in enumerate(document["nodes"]["attributes"]):
            for at in range(0, len(attributes), 2):
                if attributes[at] == attribute:
                    backend = document["nodes"]["backendNodeId"][node]
                    known = Known(backend, boxes.get(node), node in clickable)
                    found.setdefault(strings[attributes[at + 1]], known)
                    break
    return found


def frames(snapshot: Snapshot) -> dict[int, str]:
    """The id of the frame that an element holds, by the backend id of the element."""
    holders: dict[int, str] = {}
    for document in snapshot["documents"]:
        for node, child in _children(document):
            holders[document["nodes"]["backendNodeId"][node]] = _frame_id(snapshot, child)
    return holders


def _frame_id(snapshot: Snapshot, document: int) -> str:
    at: int = snapshot["documents"][document]["frameId"]
    return str(snapshot["strings"][at])


def _children(document: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Element and document for each frame in this one."""
    held = document["nodes"]["contentDocumentIndex"]
    return zip(held["index"], held["value"], strict=True)


def _corners(snapshot: Snapshot) -> Iterator[tuple[int, tuple[float, float]]]:
    """Each document from the main one down, and where its own origin is in the view."""
    waiting: list[tuple[int, float, float]] = [(0, 0.0, 0.0)]
    while waiting:
        index, left, top = waiting.pop()
        document = snapshot["documents"][index]
        left, top = left - document["scrollOffsetX"], top - document["scrollOffsetY"]
        yield index, (left, top)
        bounds = dict(zip(document["layout"]["nodeIndex"], document["layout"]["bounds"], strict=True))
        for node, child in _children(document):
            # A frame that is not drawn has no place of its own.
            x, y = (left + bounds[node][0], top + bounds[node][1]) if node in bounds else (0.0, 0.0)
            waiting.append((child, x, y))


def _boxes(document: Mapping[str, Any], left: float, top: float) -> dict[int, Box]:
    layout = document["layout"]
    rows = zip(layout["nodeIndex"], layout["bounds"], strict=True)
    return {node: (x + left, y + top, width, height) for node, (x, y, width, height) in rows}


def without_mark(snapshot: dict[str, Any], mark: str) -> dict[str, Any]:
    """The snapshot as the page is without the descriptions that marking.js gave it."""
    strings: list[str] = snapshot["strings"]
    if mark in strings and "aria-description" in strings:
        pair = [strings.index("aria-description"), strings.index(mark)]
        for document in snapshot["documents"]:
            for attributes in document["nodes"]["attributes"]:
                at = next((at for at in range(0, len(attributes), 2) if attributes[at : at + 2] == pair), None)
                if at is not None:
                    del attributes[at : at + 2]
    return snapshot
