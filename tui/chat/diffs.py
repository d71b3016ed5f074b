"""Unified diffs: refined, cut into pieces, and compared line by line and word by word.

A piece of a diff holds whole runs of changes if they are short, so that removed lines stay with the lines that replace
them, and knows the numbers of its first lines, so it is drawn without its neighbours. Everything is bounded: runs that
are too long to compare are shown as they are. Clean text in, pure functions; knows no terminal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from tui.chat.text_pieces import LITERAL_LIMIT, Piece, PieceKind, shorten
from tui.i18n import counted

CONTEXT_LINES = 3
"""Unchanged lines that are kept around a change in a refined diff."""
PIECE_LINES = 32
RUN_LINES = 96
"""Lines of a run of changes that are kept in one piece."""
MAX_REFINED_LINES = 1500
"""A longer run is not searched for unchanged lines: that would block the screen."""
MAX_COMPARED_PAIRS = 400
"""Pairs of removed and added lines that are compared at most; with more, lines are paired in order."""
MAX_MARKED_WORDS = 80
"""In a longer line no words are marked: comparing takes up to a millisecond by then."""
SIMILAR = 0.5
"""The share of words that similar lines have in common."""
MIN_UNCHANGED = 0.4
"""The share of a line that must be unchanged for single words to be marked."""

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)\Z")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Pair = tuple[int | None, int | None]
Spans = list[tuple[int, int]]


class _Run(NamedTuple):
    """Lines of a diff with their signs: unchanged ones, or those of one change."""

    same: list[str]
    removed: list[str]
    added: list[str]
    hunk: re.Match[str] | None = None
    """The header of a new hunk; the rest is empty then."""


def _named(lines: Sequence[str]) -> Iterator[str]:
    """The lines, with the headers of further files in one diff as lines with their names."""
    at = 0
    while at < len(lines):
        line = lines[at]
        is_header = line.startswith("--- ") and "".join(lines[at + 1 : at + 2]).startswith("+++ ")
        if is_header and "".join(lines[at + 2 : at + 3]).startswith("@@ "):
            yield f" {lines[at + 1][4:]}"
            at += 2
        else:
            yield line
            at += 1


def _runs(lines: Sequence[str]) -> Iterator[_Run]:
    same: list[str] = []
    removed: list[str] = []
    added: list[str] = []
    for line in _named(lines):
        sign = line[:1]
        if sign == "+":
            into = added
        elif sign == "-":
            if added:
                yield _Run([], removed, added)
                removed, added = [], []
            into = removed
        elif sign == "\\" and (removed or added):
            into = added or removed
        elif sign == "@" and (hunk := _HUNK.match(line)) is not None:
            if same or removed or added:
                yield _Run(same, removed, added)
                same, removed, added = [], [], []
            yield _Run([], [], [], hunk)
            continue
        else:
            if removed or added:
                yield _Run([], removed, added)
                removed, added = [], []
            into = same
        if into is not same and same:
            yield _Run(same, [], [])
            same = []
        into.append(line)
    if same or removed or added:
        yield _Run(same, removed, added)


def refined(lines: Sequence[str]) -> list[str]:
    """Show lines that are on both sides of a change as unchanged, and leave out long stretches of them.

    The runtime reports a change from its first line to its last; people want to see the lines that differ.
    """
    lines = [line or " " for line in lines]
    found: list[str] = []
    for run in _runs(lines):
        if run.hunk is not None:
            found.append(run.hunk.string)
        elif run.same:
            found += run.same
        elif run.removed and run.added and 2 < len(run.removed) + len(run.added) <= MAX_REFINED_LINES:
            found += _refined_run(run.removed, run.added)
        else:
            found += [*run.removed, *run.added]
    return _regrouped(found) if len(found) != len(lines) else lines


def _refined_run(removed: list[str], added: list[str]) -> list[str]:
    from difflib import SequenceMatcher  # not needed for the first frame

    olds, news = _with_ends(removed), _with_ends(added)
    found = []
    matcher = SequenceMatcher(None, [line[1:] for line in olds], [line[1:] for line in news])
    for tag, old, old_end, new, new_end in matcher.get_opcodes():
        if tag == "equal":
            found += [" " + line[1:] for line in olds[old:old_end]]
        else:
            found += [*olds[old:old_end], *news[new:new_end]]
    return [line for whole in found for line in whole.split("\n")]


def _with_ends(lines: list[str]) -> list[str]:
    """Join lines without a newline with the line that says so, because they differ by it."""
    found: list[str] = []
    for line in lines:
        if line.startswith("\\"):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


def _regrouped(lines: list[str]) -> list[str]:
    """Make new hunks, each with at most CONTEXT_LINES unchanged lines around its changes."""
    found: list[str] = []
    old = new = 0
    hunk: list[str] = []
    section = ""

    def close() -> None:
        if any(not line.startswith(" ") for line in hunk):
            olds, news = (sum(line[:1] in (" ", sign) for line in hunk) for sign in "-+")
            found.append(f"@@ -{old - olds},{olds} +{new - news},{news} @@ {section}".rstrip())
            found.extend(hunk)

    for run in _runs(lines):
        if run.hunk is not None:
            close()
            hunk, section = [], run.hunk[5]
            old, new = int(run.hunk[1]), int(run.hunk[3])
            continue
        changed = [*run.removed, *run.added]
        if run.same and len(run.same) > 2 * CONTEXT_LINES and hunk:
            head, rest = run.same[:CONTEXT_LINES], run.same[CONTEXT_LINES:]
            hunk += head
            old, new = old + len(head), new + len(head)
            close()
            hunk, section = rest[-CONTEXT_LINES:], ""
            old, new = old + len(rest), new + len(rest)
        else:
            hunk += run.same or changed
            old += sum(line[:1] in " -" for line in run.same or changed)
            new += sum(line[:1] in " +" for line in run.same or changed)
    close()
    return found


class _Cutter:
    """Puts lines into pieces and counts the lines of both files."""

    def __init__(self, language: str, digits: int) -> None:
        self.pieces: list[Piece] = []
        self._language = language
        self._digits = digits
        self._old = self._new = 0
        self._lines: list[str] = []
        self._size = 0

    def jump(self, hunk: re.Match[str]) -> None:
        """Continue at a new hunk, and show how much is left out before it."""
        self.close()
        old, new = int(hunk[1]), int(hunk[3])
        left_out = old - max(1, self._old) if old else 0
        self._old, self._new = old, new
        if left_out > 0 or hunk[5]:
            words = [counted(left_out, "{n} unchanged line", "{n} unchanged lines")] if left_out > 0 else []
            text = "  ".join(["⋯", *words, *([hunk[5]] if hunk[5] else [])])
            self.pieces.append(Piece(PieceKind.DIFF_GAP, text, wide=True))

    def add(self, lines: Sequence[str]) -> None:
        """Add lines that should stay together, as far as possible."""
        if self._lines and len(self._lines) + len(lines) > PIECE_LINES:
            self.close()
        for line in lines:
            short = shorten(line)
            if self._lines and (len(self._lines) >= RUN_LINES or self._size + len(short) > LITERAL_LIMIT):
                self.close()
            self._lines.append(short)
            self._size += len(short)

    def close(self) -> None:
        if not self._lines:
            return
        text = "\n".join(self._lines)
        numbers = (self._old, self._new, self._digits)
        self.pieces.append(
            Piece(PieceKind.DIFF, text, language=self._language, numbers=numbers if self._digits else None, wide=True)
        )
        signs = Counter(line[:1] for line in self._lines)
        both = len(self._lines) - signs["-"] - signs["+"] - signs["\\"]
        self._old += both + signs["-"]
        self._new += both + signs["+"]
        self._lines, self._size = [], 0


def pieces(lines: Sequence[str], language: str, split: bool) -> list[Piece]:
    """Cut a diff into pieces; with `split`, long runs are cut so that both sides go on together."""
    last = 0
    for line in lines:
        if line.startswith("@@") and (hunk := _HUNK.match(line)) is not None:
            last = max(last, int(hunk[1]) + int(hunk[2] or 1), int(hunk[3]) + int(hunk[4] or 1))
    cutter = _Cutter(language, len(str(last)) if last else 0)
    for run in _runs(lines):
        if run.hunk is not None:
            cutter.jump(run.hunk)
        elif run.same:
            for at in range(0, len(run.same), PIECE_LINES):
                cutter.add(run.same[at : at + PIECE_LINES])
        elif split and len(run.removed) + len(run.added) > RUN_LINES:
            cutter.close()
            for at in range(0, max(len(run.removed), len(run.added)), PIECE_LINES):
                cutter.add([*run.removed[at : at + PIECE_LINES], *run.added[at : at + PIECE_LINES]])
                cutter.close()
        else:
            cutter.add([*run.removed, *run.added])
    cutter.close()
    return cutter.pieces


def paired(removed: Sequence[str], added: Sequence[str]) -> list[Pair]:
    """Pair removed and added lines in order; a line without a partner has None beside it."""
    found: list[Pair] = []
    old = new = 0
    if len(removed) != len(added) and len(removed) * len(added) <= MAX_COMPARED_PAIRS:
        for index, line in enumerate(removed):
            match = next((at for at in range(new, len(added)) if _is_similar(line, added[at])), None)
            if match is not None:
                found += zip_longest(range(old, index), range(new, match))
                found.append((index, match))
                old, new = index + 1, match + 1
    return [*found, *zip_longest(range(old, len(removed)), range(new, len(added)))]


def _is_similar(one: str, other: str) -> bool:
    words, others = Counter(_words(one)), Counter(_words(other))
    return (words & others).total() * 2 >= SIMILAR * (words.total() + others.total()) > 0


def _words(line: str) -> list[str]:
    return [word for word in _WORD.findall(line) if not word.isspace()]


def changed_words(old: str, new: str) -> tuple[Spans, Spans] | None:
    """Return the characters of both lines that differ; None if they have too little in common, or are too long."""
    from difflib import SequenceMatcher

    olds, news = _WORD.findall(old), _WORD.findall(new)
    if max(len(olds), len(news)) > MAX_MARKED_WORDS:
        return None
    marks: tuple[Spans, Spans] = ([], [])
    unchanged = at = to = 0
    for tag, i, i_end, j, j_end in SequenceMatcher(None, olds, news, autojunk=False).get_opcodes():
        left, right = sum(map(len, olds[i:i_end])), sum(map(len, news[j:j_end]))
        if tag == "equal":
            unchanged += sum(len(word) for word in olds[i:i_end] if not word.isspace())
        else:
            same = _common_blanks(old[at : at + left], new[to : to + right])
            _mark(marks[0], at + same, at + left, old)
            _mark(marks[1], to + same, to + right, new)
        at, to = at + left, to + right
    most = max(sum(map(len, _words(old))), sum(map(len, _words(new))))
    return marks if unchanged >= MIN_UNCHANGED * most else None


def _common_blanks(one: str, other: str) -> int:
    """Count the leading blanks that two texts share: of an indented line, only the step is a change."""
    count = min(len(one) - len(one.lstrip()), len(other) - len(other.lstrip()))
    return count if one[:count] == other[:count] else 0


def _mark(spans: Spans, start: int, end: int, line: str) -> None:
    """Add a span; join it to the one before if only blanks are between."""
    if start == end:
        return
    if spans and not line[spans[-1][1] : start].strip():
        spans[-1] = (spans[-1][0], end)
    else:
        spans.append((start, end))
