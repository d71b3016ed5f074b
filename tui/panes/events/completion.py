"""What may come next in a filter: names of fields, values of theirs, words. Pure, as the language is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tui.panes.events.language import FIELDS, FLAGS, SOURCES

_LAST_WORD = re.compile(r"[^\s()]*\Z")
_ASKS = re.compile(r"-?(type|kind|source)(?:!=|[=:])(?:.*,)?")
"""A field whose values are known, up to the value that is being typed."""
MAX_OPTIONS = 40


class Completion(NamedTuple):
    """How a line may go on."""

    start: int
    """Where what is replaced begins."""
    options: tuple[str, ...]

    def applied(self, line: str, option: int = 0) -> str:
        """The line with one of the options taken."""
        return line[: self.start] + self.options[option] if self.options else line


def complete(line: str, kinds: Sequence[str]) -> Completion:
    """How a line may go on at its end; `kinds` are the kinds of events that there are. Nothing inside of quotes."""
    if line.replace('\\"', "").count('"') % 2:
        return Completion(len(line), ())
    found = _LAST_WORD.search(line)
    word = found[0] if found else ""
    start = len(line) - len(word)
    asked = _ASKS.match(word)
    if asked is not None:
        values = SOURCES if asked[1] == "source" else kinds
        return _fitting(start + asked.end(), word[asked.end() :], values)
    bare = word.removeprefix("-")
    if re.search(r"[!=<>:~\"]", bare):
        return Completion(len(line), ())
    words = [*(field.typed for field in FIELDS.values()), *FLAGS, *(["or"] if line[:start].strip() else []), "not"]
    return _fitting(len(line) - len(bare), bare, words)


def _fitting(start: int, typed: str, options: Sequence[str]) -> Completion:
    begun = typed.lower()
    fitting = [option for option in options if option.startswith(begun) and option != typed]
    return Completion(start, tuple(dict.fromkeys(fitting))[:MAX_OPTIONS])
