"""Compares two results of the same action: line by line, and within a line. Pure.

Results are compared as texts: facts such as the exit code, then what the agent read. Two lines are the same, the same
after normalization, or different. Only what differs after normalization is a difference.

A rule of normalization replaces text that says when or where something ran, and nothing about its result. A rule
prefers to miss something over hiding a difference: it takes a number only if the text around it says what it is, or if
nothing else has its form. Exit codes are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import partial
from itertools import zip_longest

from core.events import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    Observation,
)

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HERE = r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):"
_ISO = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?"
EPHEMERAL = range(32768, 61000)
"""The ports that Linux chooses; any other was chosen by a person, so a different one is a difference."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of text that always differs."""

    name: str
    """For people, after `except for`."""
    pattern: re.Pattern[str]
    sign: str | Callable[[re.Match[str]], str]
    """The replacement; the group `kept` of the pattern stays before it."""

    def applied(self, line: str) -> str:
        """The line with every match replaced."""
        return self.pattern.sub(self._replaced, line)

    def _replaced(self, match: re.Match[str]) -> str:
        if not isinstance(self.sign, str):
            return self.sign(match)
        return (match.groupdict().get("kept") or "") + self.sign


def _port(match: re.Match[str]) -> str:
    return f"{match['kept']}<port>" if int(match["port"]) in EPHEMERAL else match[0]


_rule = partial(re.compile)

RULES = (
    # the date of `ls -l`, after the size; links, owner, size and name are compared
    Rule(
        "file dates",
        _rule(
            r"^(?P<kept>[-dlbcps][-rwxsStT]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+\d+(?:,\s*\d+)?\s+)"
            rf"(?:{_MONTH}\s+\d{{1,2}}\s+(?:\d{{2}}:\d{{2}}|\d{{4}})|{_ISO})"
        ),
        "<date>",
    ),
    Rule("kernel ids", _rule(rf"(?P<kept>ipykernel_|kernel-)(?:{_UUID}|\d+/\d+|\d+)"), "<id>"),
    Rule("ids", _rule(rf"\b{_UUID}\b"), "<id>"),
    Rule("temporary paths", _rule(r"(?P<kept>/tmp/(?:[\w-]+[.-])?)(?:tmp[a-z0-9_]{8}|[A-Za-z0-9]{10})(?![\w.])"),
         "<name>"),
    Rule("times", _rule(rf"\b{_DAY},?\s+(?:{_MONTH}\s+\d{{1,2}}|\d{{1,2}}\s+{_MONTH}),?(?:\s+\d{{4}})?\s+{_CLOCK}"
                        r"(?:\s+(?:[AP]M))?(?:\s+(?:[A-Z]{3,4}|[+-]\d{4}))?(?:\s+\d{4})?"), "<time>"),
    Rule("times", _rule(rf"\b\d{{1,2}}/{_MONTH}/\d{{4}}[: ]{_CLOCK}(?: [+-]\d{{4}})?"), "<time>"),
    Rule("times", _rule(rf"\b{_ISO}"), "<time>"),
    Rule("times", _rule(rf"(?<![\w:.]){_CLOCK}(?![\w:])"), "<time>"),
    Rule("durations", _rule(r"(?P<kept>^(?:real|user|sys)\s+)\d+m\d+[.,]\d+s"), "<duration>"),
    Rule("durations", _rule(r"(?<![\w.])\d+[.,]\d+ ?(?:ns|µs|us|ms|s|secs?|seconds?|minutes?)\b"), "<duration>"),
    Rule("durations", _rule(r"(?<![\w.])\d+ ?(?:ns|µs|us|ms)\b"), "<duration>"),
    Rule("durations", _rule(r"(?P<kept>\b(?:in|took|after|elapsed:?) )\d+ ?(?:s|secs?|seconds?)\b"), "<duration>"),
    Rule("process ids", _rule(r"(?P<kept>^\[\d+\]\s*[-+]?\s*)\d+(?=\s|$)"), "<pid>"),
    Rule("process ids", _rule(r"(?P<kept>\b[pP][iI][dD](?:\s*[:=#]\s*|\s+))\d+\b"), "<pid>"),
    Rule("ports", _rule(rf"(?P<kept>\b[pP]ort[ :=]+|{_HERE})(?P<port>\d{{1,5}})\b"), _port),
    Rule("addresses", _rule(r"\b0x[0-9a-f]{8,16}\b"), "<address>"),
    Rule("interpreters", _rule(r"^(?P<kept>\[Jupyter Python interpreter: )[^]]+(?=\]$)"), "<path>"),
    Rule("commits", _rule(r"(?P<kept>^commit )[0-9a-f]{40}\b"), "<commit>"),
    Rule("commits", _rule(r"(?P<kept>^\[[^\]\s]+(?: \(root-commit\))? )[0-9a-f]{7,40}(?=\] )"), "<commit>"),
)  # fmt: skip
"""In the order in which they are applied, the most specific first."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a session ran: all names of its workspace, and the name of its machine."""

    folders: tuple[str, ...] = ()
    host: str = ""

    def applied(self, line: str) -> tuple[str, set[str]]:
        """The line without what belongs to the location, and the names of what was found."""
        found = set()
        for folder in sorted(self.folders, key=len, reverse=True):
            if len(folder) > 1 and folder in line:
                replaced = re.sub(rf"(?<![\w.~-]){re.escape(folder)}(?![\w-]|\.\w)", "<workspace>", line)
                if replaced != line:
                    line = replaced
                    found.add("workspace")
        if len(self.host) >= _HOST_CHARS and self.host in line:
            replaced = re.sub(rf"(?<![\w.-]){re.escape(self.host)}(?![\w.-])", "<host>", line)
            if replaced != line:
                line = replaced
                found.add("host")
        return line, found


_HOST_CHARS = 4
"""A shorter host name is an ordinary word."""
_MAY_MATCH = re.compile(r"\d|/tmp/|^\[|[0-9a-fA-F]{8}")
"""What every line has in which a rule can find something: most lines have none."""
MAX_LINE = 4000
"""A longer line is compared unchanged."""


def normalize(line: str, place: Origin) -> tuple[str, frozenset[str]]:
    """A line without what always differs, and the names of the rules that matched."""
    if len(line) > MAX_LINE:
        return line, frozenset()
    line, names = place.applied(line)
    for rule in RULES if _MAY_MATCH.search(line) else ():
        replaced = rule.applied(line)
        if replaced != line:
            names.add(rule.name)
            line = replaced
    return line, frozenset(names)


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
    def is_match(self) -> bool:
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
        return sum(line.outcome is Outcome.DIFFERENT for line in self.lines)


def compare(
    recorded: Observation | None, new: Observation | None, then: Origin | None = None, now: Origin | None = None
) -> Comparison:
    """Compare the new result of an action with the recorded one, in these locations."""
    if recorded is None or new is None:
        one_sided = recorded or new
        only = result_lines(one_sided) if one_sided is not None else ()
        lines = tuple(_unpaired_line(line, is_new=recorded is None) for line in only)
        return Comparison(Outcome.MISSING, lines)
    left, right = _comparable(recorded, new)
    if left == right:
        return Comparison(Outcome.SAME, tuple(Line(line, line, Outcome.SAME) for line in left))
    olds = [normalize(line, then or Origin()) for line in left]
    news = [normalize(line, now or Origin()) for line in right]
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


# -- results as lines --------------------------------------------------------------------------------------------------


def result_lines(observation: Observation) -> list[str]:
    """A result as lines of text: the facts first, then what the agent read."""
    return [*_facts(observation), *_split(observation.content)]


def _comparable(recorded: Observation, new: Observation) -> tuple[list[str], list[str]]:
    """Both as lines. Two edits are compared by the resulting file, because versions describe edits differently."""
    if isinstance(recorded, FileEditObservation) and isinstance(new, FileEditObservation):
        left, right = recorded.new_content, new.new_content
        if left is not None and right is not None:
            return [f"[{recorded.path}]", *_split(left)], [f"[{new.path}]", *_split(right)]
    if type(recorded) is type(new):
        return result_lines(recorded), result_lines(new)
    return [f"[{recorded.kind}]", *result_lines(recorded)], [f"[{new.kind}]", *result_lines(new)]


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


# -- lines beside each other -------------------------------------------------------------------------------------------


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
    # ignoring frequent lines (autojunk) is faster, and they say little about the alignment
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
            yield _unpaired_line(right[j], is_new=True) if j is not None else _unpaired_line(left[i or 0], is_new=False)
        elif left[i] == right[j]:
            yield Line(left[i], right[j], Outcome.SAME)
        else:
            marked += 1
            spans = changed(left[i], right[j]) if marked <= MAX_MARKED else _whole(left[i], right[j])
            yield Line(left[i], right[j], Outcome.ALIKE if is_alike else Outcome.DIFFERENT, *spans)


def _unpaired_line(line: str, *, is_new: bool) -> Line:
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
