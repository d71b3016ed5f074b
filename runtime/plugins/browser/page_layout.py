"""The visible layout of a page: texts with their positions, and the elements that can be acted on. Pure.

Built from the answer of `DOMSnapshot.captureSnapshot` with STYLES and paint order, so scripts of the page cannot
influence it. Text that is not visible is left out: outside the viewport, clipped by a scrolling element, invisible, or
covered by something painted later. Neither the content nor the length of a password field is included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

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
        layout = document["layout"]
        rows = zip(layout["nodeIndex"], layout["bounds"], strict=True)
        boxes = {node: (x + left, y + top, width, height) for node, (x, y, width, height) in rows}
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
            frame_id = snapshot["strings"][snapshot["documents"][child]["frameId"]]
            holders[document["nodes"]["backendNodeId"][node]] = str(frame_id)
    return holders


def _children(document: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
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


STYLES = ("visibility", "opacity", "background-color", "overflow-x", "overflow-y", "color", "background-image")
SNAPSHOT_PARAMETERS = {"computedStyles": list(STYLES), "includePaintOrder": True}
"""Parameters of `DOMSnapshot.captureSnapshot`."""
MAX_TEXTS, MAX_MARKS = 400, 200
MAX_TEXT_CHARS, MAX_LABEL_CHARS = 200, 80
MAX_CHARS = 16_000
"""For all texts together: a viewport of 1280x720 has room for half of that."""
MAX_COVERS = 300
"""Covering elements that are considered; a page that stacks more shows some covered text."""
SMALLEST_PX = 3
"""Text that is lower or narrower is left out."""
FIELD_LINE_PX, FIELD_INSET_PX, FIRST_LINE_PX = 18, 5, 28
DOTS = "••••••"
_SECRET_FIELDS = ("password", "one-time-code", "cc-number", "cc-csc")
_FIELDS = frozenset({"text", "search", "url", "email", "tel", "number", "date", "time", "month", "week"})
_FIELDS_ALSO = frozenset({"datetime-local", "color", "range", ""})

Look = dict[str, Any]
"""`width` and `height` of the viewport in pixels; `texts`, rows of left, top, width, height, text, text colour and
background colour, as 24-bit numbers or -1; `marks`, rows of bid, left, top, width, height, kind and label. A kind is
`link`, `button`, `text`, `secret`, `choice`, `file` or `other`. Positions are whole pixels. Texts keep a blank at
either end, so that a text that continues in the next row can be joined."""
_CHANNELS = re.compile(r"[\d.]+")


class _Rect(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def within(self, other: _Rect) -> _Rect:
        return _Rect(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )

    @property
    def is_seen(self) -> bool:
        return self.right - self.left >= SMALLEST_PX and self.bottom - self.top >= SMALLEST_PX

    def covers(self, x: float, y: float) -> bool:
        return self.left <= x < self.right and self.top <= y < self.bottom

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


def look(shot: Snapshot, width: int, height: int, marked: Set[str] | None = None) -> Look:
    """Return the visible layout of a page in a viewport of this size.

    `marked` are the bids of the elements that can be acted on; if None, all elements with a bid and a known kind.
    """
    view = _Rect(0, 0, width, height)
    texts: list[list[Any]] = []
    marks: list[list[Any]] = []
    left_over = MAX_CHARS
    for document, frame, (x, y) in documents(shot):
        page = _Page(shot, document, x, y, view)
        for words, visible, *colours in page.texts():
            kept = words[: min(MAX_TEXT_CHARS, left_over)]
            if not kept or len(texts) >= MAX_TEXTS:
                break
            left_over -= len(kept)
            texts.append([*_pixels(visible), kept, *colours])
        for bid, kind, label, visible in page.marks(frame, marked):
            if len(marks) < MAX_MARKS:
                marks.append([bid, *_pixels(visible), kind, label[:MAX_LABEL_CHARS]])
    return {"width": width, "height": height, "texts": texts, "marks": marks}


def _pixels(visible: _Rect) -> list[int]:
    return [
        round(visible.left),
        round(visible.top),
        round(visible.right - visible.left),
        round(visible.bottom - visible.top),
    ]


class _Page:
    """One document of a snapshot, with its position in the viewport."""

    def __init__(self, shot: Snapshot, document: Mapping[str, Any], left: float, top: float, view: _Rect) -> None:
        self._shot, self._document, self._view = shot, document, view
        self._strings: list[str] = shot["strings"]
        self._nodes, self._layout = document["nodes"], document["layout"]
        self._at, self._shift = {node: at for at, node in enumerate(self._layout["nodeIndex"])}, (left, top)
        self._values = {
            node: value
            for kind in ("textValue", "inputValue")
            for node, value in zip(self._nodes[kind]["index"], self._nodes[kind]["value"], strict=True)
        }
        self._orders: list[int] = self._layout.get("paintOrders", [])
        self._covers = list(islice(self._opaque(), MAX_COVERS))
        self._clips: dict[int, _Rect] = {}

    def texts(self) -> Iterator[tuple[str, _Rect, int, int]]:
        """Yield the text of each line in document order, the visible part of its box, and its two colours."""
        found: list[tuple[int, str, Box]] = []
        boxes = self._document["textBoxes"]
        for at, box, start, length in zip(
            boxes["layoutIndex"], boxes["bounds"], boxes["start"], boxes["length"], strict=True
        ):
            written = _utf16(self._string(self._layout["text"][at]), start, length)
            words = " ".join(written.split())
            if words:
                found.append((at, " " * written[0].isspace() + words + " " * written[-1].isspace(), box))
        for node, words in self._field_texts():
            at = self._at[node]
            found.append((at, words, _line_in(self._layout["bounds"][at], at_top=self._name(node) == "TEXTAREA")))
        for at, words, box in sorted(found, key=lambda each: each[0]):
            visible = self._visible_part(at, box)
            if visible is not None:
                yield words, visible, _colour(self._style(at, 5)), self._background(at)

    def _background(self, at: int) -> int:
        """Return the background colour of the nearest ancestor that has one; -1 for a background image."""
        node = self._layout["nodeIndex"][at]
        while node >= 0:
            if (at := self._at.get(node, -1)) >= 0:
                if self._style(at, 6) not in ("none", ""):
                    return -1
                if (colour := _colour(self._style(at, 2))) >= 0:
                    return colour
            node = self._nodes["parentIndex"][node]
        return 0xFFFFFF

    def marks(self, frame: str, marked: Set[str] | None) -> Iterator[tuple[str, str, str, _Rect]]:
        """Yield bid, kind, label and visible box of each element that can be acted on."""
        for node, bid in bids_of(self._shot, self._document).items():
            if node not in self._at or not belongs(bid, frame) or (marked is not None and bid not in marked):
                continue
            visible, kind = self._visible_part(self._at[node], self._layout["bounds"][self._at[node]]), self._kind(node)
            if visible is not None and (marked is not None or kind != "other"):
                yield bid, kind, self._label(node), visible

    def _field_texts(self) -> Iterator[tuple[int, str]]:
        """Yield the content of form fields, which has no text boxes; DOTS for a secret."""
        for node in self._at:
            match self._kind(node) if self._name(node) in ("INPUT", "TEXTAREA", "SELECT") else "":
                case "secret" if self._value(node):
                    yield node, DOTS
                case "text" | "choice" | "secret":
                    words = self._value(node) or self._chosen(node) or self._attributes(node).get("placeholder", "")
                    if words.strip():
                        yield node, " ".join(words.split())

    def _value(self, node: int) -> str:
        return self._string(self._values.get(node, -1))

    def _chosen(self, node: int) -> str:
        if self._name(node) != "SELECT":
            return ""
        options = [child for child in range(node + 1, len(self._nodes["nodeName"])) if self._is_option_of(child, node)][
            :MAX_MARKS
        ]
        chosen = set(self._nodes["optionSelected"]["index"])
        option = next((child for child in options if child in chosen), options[0] if options else None)
        return self._words_in(option) if option is not None else ""

    def _is_option_of(self, child: int, select: int) -> bool:
        parents = self._nodes["parentIndex"]
        return self._name(child) == "OPTION" and select in (parents[child], parents[parents[child]])

    def _words_in(self, node: int) -> str:
        """Return the text of the nodes that follow below a node."""
        parents, values = self._nodes["parentIndex"], self._nodes["nodeValue"]
        below = range(node + 1, min(node + 40, len(parents)))
        return " ".join(" ".join(self._string(values[at]) for at in below if self._is_below(at, node)).split())

    def _is_below(self, at: int, node: int) -> bool:
        parents = self._nodes["parentIndex"]
        while at > node:
            at = parents[at]
        return at == node

    def _kind(self, node: int) -> str:
        name, attributes = self._name(node), self._attributes(node)
        type_ = attributes.get("type", "").lower()
        match name:
            case "INPUT" if is_secret(attributes):
                return "secret"
            case "INPUT" if type_ in _FIELDS or type_ in _FIELDS_ALSO:
                return "text"
            case "INPUT" if type_ == "file":
                return "file"
            case "INPUT" | "BUTTON" | "SUMMARY":
                return "button"
            case "TEXTAREA":
                return "text"
            case "SELECT":
                return "choice"
            case "A":
                return "link"
        if attributes.get("contenteditable", "false").lower() in ("", "true", "plaintext-only"):
            return "text"
        return "other"

    def _label(self, node: int) -> str:
        attributes = self._attributes(node)
        labels = (attributes.get(name, "") for name in ("aria-label", "placeholder", "title", "alt", "name"))
        words = self._words_in(node) if self._name(node) != "SELECT" else ""
        return " ".join((words or next((label for label in labels if label.strip()), "")).split())

    def _visible_part(self, at: int, box: Box) -> _Rect | None:
        visibility, opacity = self._style(at, 0), self._style(at, 1)
        if visibility != "visible" or (opacity.startswith("0") and float(opacity or 0) < 0.1):
            return None
        visible = self._rect(box).within(self._clip(self._layout["nodeIndex"][at]))
        return None if not visible.is_seen or self._is_covered(at, visible) else visible

    def _rect(self, box: Box) -> _Rect:
        left, top = box[0] + self._shift[0], box[1] + self._shift[1]
        return _Rect(left, top, left + box[2], top + box[3])

    def _clip(self, node: int) -> _Rect:
        """Return the area to which the ancestors of a node clip it. Not recursive: pages can be nested deeply."""
        parents, way = self._nodes["parentIndex"], list[int]()
        above = parents[node]
        while above >= 0 and above not in self._clips:
            way.append(above)
            above = parents[above]
        clip = self._clips[above] if above >= 0 else self._view
        for above in reversed(way):
            at = self._at.get(above)
            clips = at is not None and any(self._style(at, which) not in ("visible", "") for which in (3, 4))
            if at is not None and clips and self._name(above) not in ("HTML", "BODY"):
                clip = clip.within(self._rect(self._layout["bounds"][at]))
            self._clips[above] = clip
        return clip

    def _opaque(self) -> Iterator[tuple[int, _Rect]]:
        """Yield the paint order and the box of each element with an opaque background."""
        lowest = min(self._orders, default=0)
        for at, order in enumerate(self._orders):
            ground = self._style(at, 2)
            is_text = self._nodes["nodeType"][self._layout["nodeIndex"][at]] == 3
            if order > lowest + 1 and ground.startswith("rgb(") and not is_text:
                place = self._rect(self._layout["bounds"][at]).within(self._view)
                if place.is_seen:
                    yield order, place

    def _is_covered(self, at: int, visible: _Rect) -> bool:
        order = self._orders[at] if at < len(self._orders) else 0
        return any(later > order and cover.covers(*visible.middle) for later, cover in self._covers)

    def _string(self, at: int) -> str:
        return self._strings[at] if 0 <= at < len(self._strings) else ""

    def _name(self, node: int) -> str:
        return self._string(self._nodes["nodeName"][node]).upper()

    def _style(self, at: int, which: int) -> str:
        styles = self._layout["styles"][at]
        return self._string(styles[which]) if which < len(styles) else ("visible", "1", *[""] * len(STYLES))[which]

    def _attributes(self, node: int) -> dict[str, str]:
        pairs = self._nodes["attributes"][node]
        return {
            self._string(name).lower(): self._string(value) for name, value in zip(pairs[::2], pairs[1::2], strict=True)
        }


def _line_in(box: Box, *, at_top: bool = False) -> Box:
    """Return the box of a field's text: in the vertical middle of the field, or in its first line."""
    x, y, width, height = box
    inset = max(0, (height - FIELD_LINE_PX) / 2)
    left, wide = x + FIELD_INSET_PX, width - 2 * FIELD_INSET_PX
    if at_top and inset:
        return left, y + FIELD_INSET_PX, wide, min(FIRST_LINE_PX, height - FIELD_INSET_PX)
    return left, y + inset, wide, height - 2 * inset


def is_secret(attributes: Mapping[str, str]) -> bool:
    """Whether a field with these attributes takes a password, a one-time code or card data."""
    kinds = {attributes.get("type", "").lower(), *attributes.get("autocomplete", "").lower().split()}
    return any(sign in kind for kind in kinds for sign in _SECRET_FIELDS)


def _colour(css: str) -> int:
    """Convert a colour such as `rgb(1, 2, 3)` to a number; -1 if it has another form or is mostly transparent."""
    channels = [float(value) for value in _CHANNELS.findall(css)]
    if not css.startswith("rgb") or len(channels) < 3 or (len(channels) == 4 and channels[3] < 0.5):
        return -1
    red, green, blue = (min(255, round(value)) for value in channels[:3])
    return red << 16 | green << 8 | blue


def _utf16(text: str, start: int, length: int) -> str:
    """Return a slice of a text; `start` and `length` count UTF-16 units, as Chromium does."""
    if text.isascii():
        return text[start : start + length]
    data = text.encode("utf-16-le", "surrogatepass")
    return data[2 * start : 2 * (start + length)].decode("utf-16-le", "replace")
