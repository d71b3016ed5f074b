"""Look: the words of a page and what can be acted on, where they stand. Pure.

It comes from a sandbox, and what it says from a page: each row is checked, cleaned and bounded, and one that makes no
sense is left out. Places are in pixels of the page's view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tui.terminal_io.sanitizer import sanitize_line

MAX_TEXTS, MAX_MARKS = 400, 200
TEXT_CELLS, LABEL_CELLS = 200, 60
FARTHEST = 20_000
"""Pixels of a view."""
KINDS = frozenset({"link", "button", "text", "secret", "choice", "file"})
LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""Those under the fingers come first."""


class Box(NamedTuple):
    """A place of the view."""

    left: int
    top: int
    width: int
    height: int

    def holds(self, x: float, y: float) -> bool:
        """Whether a point is in it."""
        return self.left <= x < self.left + self.width and self.top <= y < self.top + self.height


class Words(NamedTuple):
    """One line of text. Clean."""

    box: Box
    text: str
    """With a blank at an end where it goes on there."""
    ink: int = -1
    """Its colour, 24 bits; -1 where that is not known."""
    ground: int = -1


class PageMark(NamedTuple):
    """An element that can be acted on. All texts are clean."""

    bid: str
    box: Box
    kind: str
    """One of KINDS, or `other`."""
    label: str


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen of a page."""

    width: int = 0
    height: int = 0
    texts: tuple[Words, ...] = ()
    marks: tuple[PageMark, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Look:
        """What an observation or a frame tells; empty where it tells nothing."""
        width, height = _number(told.get("width")), _number(told.get("height"))
        if not width or not height:
            return NOTHING
        return cls(width, height, tuple(_texts(told.get("texts"))), tuple(_marks(told.get("marks"))))

    def mark(self, bid: str) -> PageMark | None:
        """The element with this bid."""
        return next((mark for mark in self.marks if mark.bid == bid), None)

    def mark_at(self, x: float, y: float) -> PageMark | None:
        """The smallest element at a place."""
        there = [mark for mark in self.marks if mark.box.holds(x, y)]
        return min(there, key=lambda mark: mark.box.width * mark.box.height, default=None)

    def plain(self) -> str:
        """All words, in lines as they stand, from the top."""
        lines: list[list[Words]] = []
        for words in sorted(self.texts, key=lambda each: (each.box.top, each.box.left)):
            middle = words.box.top + words.box.height / 2
            if lines and lines[-1][0].box.holds(lines[-1][0].box.left, middle):
                lines[-1].append(words)
            else:
                lines.append([words])
        return "\n".join(" ".join(" ".join(words.text for words in sorted(line)).split()) for line in lines)


NOTHING = Look()


def labels(count: int) -> list[str]:
    """Letters for so many elements, as short as can be; none is the beginning of another."""
    length = 1
    while len(LETTERS) ** length < count:
        length += 1
    found = [""]
    for _ in range(length):
        found = [begin + letter for letter in LETTERS for begin in found]
    return sorted(found, key=lambda label: [LETTERS.index(letter) for letter in label])[:count]


def _number(value: Any) -> int:
    return min(value, FARTHEST) if isinstance(value, int) and value > 0 else 0


def _rows(told: Any, most: int, length: int) -> Iterator[Sequence[Any]]:
    rows = told if isinstance(told, list) else []
    yield from (row for row in rows[:most] if isinstance(row, list) and len(row) == length)


def _box(values: Sequence[Any]) -> Box | None:
    if not all(isinstance(value, int) and abs(value) <= FARTHEST for value in values):
        return None
    return Box(*values)


def _texts(told: Any) -> Iterator[Words]:
    for *place, text, ink, ground in _rows(told, MAX_TEXTS, 7):
        box = _box(place)
        if box is not None and isinstance(text, str) and (clean := sanitize_line(text, TEXT_CELLS)).strip():
            yield Words(box, clean, _colour(ink), _colour(ground))


def _colour(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= 0xFFFFFF else -1


def _marks(told: Any) -> Iterator[PageMark]:
    for bid, *place, kind, label in _rows(told, MAX_MARKS, 7):
        box = _box(place)
        if box is None or not isinstance(bid, str) or not bid.isascii() or not bid.isalnum() or len(bid) > 20:
            continue
        known = kind if kind in KINDS else "other"
        yield PageMark(bid, box, known, sanitize_line(label, LABEL_CELLS) if isinstance(label, str) else "")
