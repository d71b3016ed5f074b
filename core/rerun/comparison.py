"""Compares two results of the same action: line by line, and within a line. Pure.

Results are compared as texts: facts such as the exit code, then what the agent read. Two lines are the same, the same
after normalization, or different. Only what differs after normalization is a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import zip_longest

from core.events import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    Observation,
)
from core.rerun.normalization import MAX_LINE, Origin, normalised

MAX_LINES = 1000
"""Lines that are aligned, between the common lines at the beginning and the end; beyond that the n-th lines are
compared."""
MAX_MARKED = 200
"""Lines in which single differences are marked."""
MAX_WORDS = 400
"""Words of a line in which single differences are marked; a longer line is marked as a whole."""
_WORD = re.compile(r"\s+|\w+|.")
Spans = tuple[tuple[int, int], ...]


class Outcome(StrEnum):
    """How a new result compares with the recorded one."""

    SAME = "same"
    ALIKE = "alike"
    """The same after normalization."""
    DIFFERENT = "different"
    MISSING = "missing"
    """One of the two is missing: nothing was recorded, or the run did not reach or carry out the action."""
    NOT_RUN = "not_run"
    """The action is not run again, so there is nothing to compare."""

    @property
    def is_good(self) -> bool:
        """Whether it is no difference."""
        return self in (Outcome.SAME, Outcome.ALIKE, Outcome.NOT_RUN)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of each side; None if that side has none."""

    recorded: str | None
    new: str | None
    outcome: Outcome
    recorded_spans: Spans = ()
    """The ranges that differ, in characters."""
    new_spans: Spans = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one action."""

    outcome: Outcome
    lines: tuple[Line, ...] = ()
    rules: frozenset[str] = frozenset()
    """The names of the rules that found something."""

    @property
    def differences(self) -> int:
        """The number of lines that differ."""
        return sum(line.outcome is Outcome.DIFFERENT for line in self.lines)


def compare(
    recorded: Observation | None, new: Observation | None, then: Origin | None = None, now: Origin | None = None
) -> Comparison:
    """Compare the new result of an action with the recorded one, in these locations."""
    if recorded is None or new is None:
        one_sided = recorded or new
        only = lines_of(one_sided) if one_sided is not None else ()
        lines = tuple(_one_sided(line, is_new=recorded is None) for line in only)
        return Comparison(Outcome.MISSING, lines)
    left, right = _comparable(recorded, new)
    if left == right:
        return Comparison(Outcome.SAME, tuple(Line(line, line, Outcome.SAME) for line in left))
    olds = [normalised(line, then or Origin()) for line in left]
    news = [normalised(line, now or Origin()) for line in right]
    pairs = list(_aligned([text for text, _ in olds], [text for text, _ in news]))
    lines = tuple(_lines(left, right, pairs, [_text(olds, i) == _text(news, j) for i, j in pairs]))
    rules = {
        name
        for line, (i, j) in zip(lines, pairs, strict=True)
        if line.outcome is Outcome.ALIKE and i is not None and j is not None
        for name in olds[i][1] | news[j][1]
    }
    found = {line.outcome for line in lines}
    worst = next((kind for kind in (Outcome.DIFFERENT, Outcome.ALIKE) if kind in found), Outcome.SAME)
    return Comparison(worst, lines, frozenset(rules))


def _text(lines: Sequence[tuple[str, frozenset[str]]], index: int | None) -> str | None:
    return lines[index][0] if index is not None else None


# -- results as lines ----------------------------------------------------------------------------------------------


def lines_of(observation: Observation) -> list[str]:
    """A result as lines of text: the facts first, then what the agent read."""
    return [*_facts(observation), *_split(observation.content)]


def _comparable(recorded: Observation, new: Observation) -> tuple[list[str], list[str]]:
    """Both as lines. Two edits are compared by the resulting file, because versions describe edits differently."""
    if isinstance(recorded, FileEditObservation) and isinstance(new, FileEditObservation):
        left, right = recorded.new_content, new.new_content
        if left is not None and right is not None:
            return [f"[{recorded.path}]", *_split(left)], [f"[{new.path}]", *_split(right)]
    if type(recorded) is type(new):
        return lines_of(recorded), lines_of(new)
    return [f"[{recorded.kind}]", *lines_of(recorded)], [f"[{new.kind}]", *lines_of(new)]


def _facts(observation: Observation) -> Iterator[str]:
    match observation:
        case CmdOutputObservation(metadata=metadata):
            yield f"[exit code {metadata.exit_code}]"
        case BrowserOutputObservation(url=url, error=error):
            yield f"[{url}]"
            if error:
                yield "[error]"
        case ErrorObservation():
            yield "[error]"


def _split(text: str) -> list[str]:
    return text.split("\n") if text else []


# -- lines beside each other ---------------------------------------------------------------------------------------


def _aligned(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """The alignment of the lines, in order."""
    start, shorter = 0, min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    yield from ((index, index) for index in range(start))
    yield from _between(left, right, (start, len(left) - end), (start, len(right) - end))
    yield from ((len(left) - at, len(right) - at) for at in range(end, 0, -1))


def _between(
    left: Sequence[str], right: Sequence[str], old: tuple[int, int], new: tuple[int, int]
) -> Iterator[tuple[int | None, int | None]]:
    if max(old[1] - old[0], new[1] - new[0]) > MAX_LINES:
        yield from zip_longest(range(*old), range(*new))
        return
    # lines that come up again and again say little about which stands beside which, and take long (autojunk)
    matcher = SequenceMatcher(None, left[slice(*old)], right[slice(*new)])
    for _, i, i_end, j, j_end in matcher.get_opcodes():
        yield from zip_longest(range(old[0] + i, old[0] + i_end), range(new[0] + j, new[0] + j_end))


def _lines(
    left: Sequence[str],
    right: Sequence[str],
    pairs: Sequence[tuple[int | None, int | None]],
    are_alike: Sequence[bool],
) -> Iterator[Line]:
    marked = 0
    for (i, j), is_alike in zip(pairs, are_alike, strict=True):
        if i is None or j is None:
            yield _one_sided(right[j], is_new=True) if j is not None else _one_sided(left[i or 0], is_new=False)
        elif left[i] == right[j]:
            yield Line(left[i], right[j], Outcome.SAME)
        else:
            marked += 1
            spans = changed(left[i], right[j]) if marked <= MAX_MARKED else _whole(left[i], right[j])
            yield Line(left[i], right[j], Outcome.ALIKE if is_alike else Outcome.DIFFERENT, *spans)


def _one_sided(line: str, *, is_new: bool) -> Line:
    whole = ((0, len(line)),)
    if is_new:
        return Line(None, line, Outcome.DIFFERENT, (), whole)
    return Line(line, None, Outcome.DIFFERENT, whole)


def changed(old: str, new: str) -> tuple[Spans, Spans]:
    """The differing ranges of both lines, by words."""
    olds, news = _WORD.findall(old[:MAX_LINE]), _WORD.findall(new[:MAX_LINE])
    if max(len(olds), len(news)) > MAX_WORDS or max(len(old), len(new)) > MAX_LINE:
        return _whole(old, new)
    marks: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    at = to = 0
    for tag, i, i_end, j, j_end in SequenceMatcher(None, olds, news, autojunk=False).get_opcodes():
        ends = at + sum(map(len, olds[i:i_end])), to + sum(map(len, news[j:j_end]))
        if tag != "equal":
            _mark(marks[0], at, ends[0])
            _mark(marks[1], to, ends[1])
        at, to = ends
    return tuple(marks[0]), tuple(marks[1])


def _whole(old: str, new: str) -> tuple[Spans, Spans]:
    return ((0, len(old)),), ((0, len(new)),)


def _mark(spans: list[tuple[int, int]], start: int, end: int) -> None:
    if start < end:
        spans.append((start, end))
