"""What always differs between two runs of the same command: named rules, and the folder of the workspace. Pure.

A rule replaces text that says when or where something ran, and nothing about its result. A rule prefers to miss
something over hiding a difference: it takes a number only if the text around it says what it is, or if nothing else has
its form. Exit codes are never changed. The recorded workspace folder is replaced in every text of an action that a
sandbox acts upon, also in file contents and commands, so that a rerun in a copy does not reach the original. Paths that
a program builds itself are not found; the sandbox blocks those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from core.events import Action

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
    """For people, after `same but for`."""
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
    # the date of `ls -l`, which stands behind the size; links, owner, size and name are compared
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


def normalised(line: str, place: Origin) -> tuple[str, frozenset[str]]:
    """A line without what always differs, and the names of the rules that found something."""
    if len(line) > MAX_LINE:
        return line, frozenset()
    line, names = place.applied(line)
    for rule in RULES if _MAY_MATCH.search(line) else ():
        replaced = rule.applied(line)
        if replaced != line:
            names.add(rule.name)
            line = replaced
    return line, frozenset(names)


_MOVED = ("path", "command", "code", "cwd", "file_text", "old_str", "new_str", "content")
"""The fields of actions that name files. Messages and thoughts stay unchanged."""
_SHORTEST = 2
"""Of the name of a folder: `/` alone begins every path."""


class Folders:
    """Replaces recorded folders by the new one. `home` is that of the user, which a shell writes as `~`."""

    def __init__(self, recorded: Sequence[str], new: str, home: str = "") -> None:
        self.new = new.rstrip("/") or "/"
        names = {folder.rstrip("/") for folder in recorded}
        names = {name for name in names if len(name) >= _SHORTEST and name != self.new}
        self.recorded = tuple(sorted(names, key=len, reverse=True))
        short = [
            start + name.removeprefix(home)
            for name in self.recorded
            if len(home) >= _SHORTEST and name.startswith(home + "/")
            for start in ("~", "$HOME", "${HOME}")
        ]
        known = "|".join(map(re.escape, (*self.recorded, *short)))
        # not within a longer name: neither /srv/workspace nor /workspace2 nor /workspace.bak is /workspace
        self._pattern = re.compile(rf"(?<![\w.~-])(?:{known})(?![\w-]|\.\w)") if known else None

    def moved(self, text: str) -> str:
        """The text with the new folder in the place of each recorded one."""
        return self._pattern.sub(lambda _: self.new, text) if self._pattern else text

    def moved_action(self, action: Action) -> Action:
        """The action for the new folder."""
        update = {
            name: text
            for name in _MOVED
            if isinstance(value := getattr(action, name, None), str) and (text := self.moved(value)) != value
        }
        return action.model_copy(update=update) if update else action
