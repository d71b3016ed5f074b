"""The texts of a page and the elements that can be acted on, with their places in pixels of the view. Pure.

The data comes from a sandbox and its content from a page: each row is checked, cleaned and bounded, and invalid rows
are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, NamedTuple

from tui.terminal_io.sanitizer import sanitize_line

MAX_TEXTS, MAX_ELEMENTS = 400, 200
TEXT_CELLS, LABEL_CELLS = 200, 60
MAX_PX = 20_000
"""The largest coordinate that is accepted."""
KINDS = frozenset({"link", "button", "text", "secret", "choice", "file"})
LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""The home row comes first."""


class Box(NamedTuple):
    """A rectangle of the view."""

    left: int
    top: int
    width: int
    height: int

    def contains(self, x: float, y: float) -> bool:
        return self.left <= x < self.left + self.width and self.top <= y < self.top + self.height


class PageText(NamedTuple):
    """One line of text. Clean."""

    box: Box
    text: str
    """With a blank at an end if other text follows there."""
    colour: int = -1
    """24 bits; -1 if unknown."""
    background: int = -1


class PageElement(NamedTuple):
    """An element that can be acted on. All texts are clean."""

    bid: str
    box: Box
    kind: str
    """One of KINDS, or `other`."""
    label: str


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The texts and elements of one page."""

    width: int = 0
    height: int = 0
    texts: tuple[PageText, ...] = ()
    elements: tuple[PageElement, ...] = ()

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> PageLayout:
        """Read the `look` of an observation or a frame; empty if that has none."""
        width, height = _number(data.get("width")), _number(data.get("height"))
        if not width or not height:
            return NO_LAYOUT
        return cls(width, height, tuple(_texts(data.get("texts"))), tuple(_elements(data.get("marks"))))

    def element(self, bid: str) -> PageElement | None:
        return next((element for element in self.elements if element.bid == bid), None)

    def element_at(self, x: float, y: float) -> PageElement | None:
        """Return the smallest element at a place."""
        there = [element for element in self.elements if element.box.contains(x, y)]
        return min(there, key=lambda element: element.box.width * element.box.height, default=None)

    def plain_text(self) -> str:
        lines: list[list[PageText]] = []
        for text in sorted(self.texts, key=lambda each: (each.box.top, each.box.left)):
            middle = text.box.top + text.box.height / 2
            if lines and lines[-1][0].box.contains(lines[-1][0].box.left, middle):
                lines[-1].append(text)
            else:
                lines.append([text])
        return "\n".join(" ".join(" ".join(part.text for part in sorted(line)).split()) for line in lines)


NO_LAYOUT = PageLayout()


def labels(count: int) -> list[str]:
    """Return labels for so many elements, as short as possible; none is the beginning of another."""
    length = 1
    while len(LETTERS) ** length < count:
        length += 1
    return ["".join(letters) for letters in islice(product(LETTERS, repeat=length), count)]


def _number(value: Any) -> int:
    return min(value, MAX_PX) if isinstance(value, int) and value > 0 else 0


def _rows(data: Any, limit: int, length: int) -> Iterator[Sequence[Any]]:
    rows = data if isinstance(data, list) else []
    yield from (row for row in rows[:limit] if isinstance(row, list) and len(row) == length)


def _box(values: Sequence[Any]) -> Box | None:
    if not all(isinstance(value, int) and abs(value) <= MAX_PX for value in values):
        return None
    return Box(*values)


def _texts(data: Any) -> Iterator[PageText]:
    for *place, text, colour, background in _rows(data, MAX_TEXTS, 7):
        box = _box(place)
        if box is not None and isinstance(text, str) and (clean := sanitize_line(text, TEXT_CELLS)).strip():
            yield PageText(box, clean, _colour(colour), _colour(background))


def _colour(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= 0xFFFFFF else -1


def _elements(data: Any) -> Iterator[PageElement]:
    for bid, *place, kind, label in _rows(data, MAX_ELEMENTS, 7):
        box = _box(place)
        if box is None or not isinstance(bid, str) or not bid.isascii() or not bid.isalnum() or len(bid) > 20:
            continue
        known = kind if kind in KINDS else "other"
        yield PageElement(bid, box, known, sanitize_line(label, LABEL_CELLS) if isinstance(label, str) else "")
