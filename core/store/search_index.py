"""The index for the full text of all events: what goes into it, and how a query asks it. Pure: texts and statements.

Two FTS5 tables without content, whose rows are events. `words` knows which words an event has, of every script that
puts spaces between them. `characters` knows three characters in a row where a script does not (Chinese, Japanese,
Korean). They say which events may match; whether one does is decided by its text (`Query.spans`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

FORM = 1
"""What goes into the index; another number has it made anew."""
MAX_CHARS = 200_000
"""Of one event; what is behind is not found."""
EXCERPT_CHARS = 240
MAX_TERMS = 16

ROW_SHIFT = 32
"""A row of the index is an event: the conversation's key in the upper bits, the event's id in the lower ones."""

_CJK = re.compile(r"[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3105-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
                  r"\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+")  # fmt: skip
_END = "\u3000\u3000"
"""Behind a run of characters, so that each of them begins three."""
_WORDS = re.compile(r"[^\W_]+")
_TERMS = re.compile(r'"([^"]*)"?|(\S+)')
_NOT_TEXT = frozenset({"screenshot", "set_of_marks", "image_urls", "dom_object", "axtree_object", "metadata", "tools"})
_OUTSIDE = (
    "action",
    "observation",
    "tool_call_metadata",
    "llm_metrics",
    "timestamp",
    "source",
    "id",
    "cause",
    "imported",
)


@dataclass(frozen=True, slots=True)
class Hit:
    """An event that a query found."""

    conversation_id: str
    event_id: int
    timestamp: datetime
    kind: str
    """As stored: `action:run`, ..."""
    text: str
    """What stands around the first match, in one line of 240 characters at most. Foreign: not sanitised."""
    spans: tuple[tuple[int, int], ...]
    """Where in `text` the terms are, as slices; none overlaps another."""
    row: int
    """Its place in the order of the results."""


_CORRUPT_VTAB = 267
"""SQLite's code of a virtual table that is damaged, while the pages under it are whole."""
_SAYS_SO = re.compile(r"fts5: corruption|(no such table|vtable constructor failed): (main\.)?(words|characters)")


def is_damaged(error: BaseException | None, *, deleting: bool = False) -> bool:
    """Whether a failure of the database is one of the index alone, which can be made anew.

    To one who takes something out of the index, SQLite tells its damage as that of the file.
    """
    if deleting and "malformed" in str(error):
        return True
    return getattr(error, "sqlite_errorcode", 0) == _CORRUPT_VTAB or bool(_SAYS_SO.search(str(error)))


def row_of(key: int, event_id: int) -> int:
    """The index's row of an event of the conversation with this key."""
    return key << ROW_SHIFT | event_id


def text_of(body: str) -> str:
    """What can be found of a stored event: every text in it that people or models wrote, one a line."""
    found: list[str] = []
    data = json.loads(body)
    _collect({name: value for name, value in data.items() if name not in _OUTSIDE}, found)
    text = "\n".join(found)[:MAX_CHARS]
    return text if text.isascii() else text.encode(errors="replace").decode()  # halves of pairs are no text to SQLite


def _collect(value: Any, found: list[str]) -> None:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text if text and not text.startswith(("blob:", "data:")):
                found.append(text)
            case Mapping() as fields:
                waiting += reversed([inner for name, inner in fields.items() if name not in _NOT_TEXT])
            case list() as items:
                waiting += reversed(items)


def runs_of(text: str) -> str:
    """The runs of characters of a text as `characters` takes them; empty where there are none."""
    return "".join(run + _END for run in _CJK.findall(text))


def folded(text: str) -> str:
    """A text as the index compares it: without case and accents. Of another length, at times."""
    if text.isascii():
        return text.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for: all of these terms."""

    terms: tuple[str, ...]
    """As written, without quotes and star."""
    words: str
    """For `words MATCH`; empty where none is searched for."""
    runs: tuple[str, ...]
    """Runs of characters, each of which has to be there."""

    @classmethod
    def parse(cls, text: str) -> Query:
        """The query that a text is: words that all have to be there, `begin*`, `"one after the other"`."""
        terms: list[str] = []
        words: dict[str, None] = {}
        runs: dict[str, None] = {}
        for quoted, plain in _TERMS.findall(text)[:MAX_TERMS]:
            is_begin = plain.endswith("*")
            term = quoted or (plain[:-1] if is_begin else plain)
            parts = _WORDS.findall(_CJK.sub(" ", term))
            runs.update(dict.fromkeys(_CJK.findall(term)))
            words.update(dict.fromkeys(f'"{part}"' for part in parts[:-1]))
            if parts:
                words[f'"{parts[-1]}"{"*" if is_begin else ""}'] = None
            if parts or _CJK.search(term):
                terms.append(term)
        return cls(tuple(terms), " AND ".join(words), tuple(runs))

    def spans(self, text: str) -> list[tuple[int, int]] | None:
        """Where the terms are in a text, in order and apart from each other; None where one of them is not."""
        found: list[tuple[int, int]] = []
        for term in self.terms:
            matches = [match.span() for match in re.finditer(re.escape(term), text, re.IGNORECASE)]
            if not matches and folded(term) not in folded(text):
                return None
            found += matches
        return list(_apart(sorted(found)))

    def excerpt(self, text: str) -> tuple[str, tuple[tuple[int, int], ...]] | None:
        """What stands around the first match in one line, and where the terms are in it; None where it is no match."""
        if (spans := self.spans(text)) is None:
            return None
        start = max(0, spans[0][0] - EXCERPT_CHARS // 4) if spans else 0
        line = re.sub(r"\s", " ", text[start : start + EXCERPT_CHARS])
        inside = ((begin - start, min(end - start, len(line))) for begin, end in spans if begin >= start)
        return line, tuple(span for span in inside if span[0] < span[1])

    def statement(self, row_from: int, row_to: int, limit: int) -> tuple[str, list[Any]]:
        """The newest rows in this range that may match, and the values of the statement. Only where there are terms."""
        parts: list[str] = []
        values: list[Any] = []
        if self.words:
            parts.append("SELECT rowid AS row FROM words WHERE words MATCH ?")
            values.append(self.words)
        for run in self.runs:
            if len(run) >= 3:
                parts.append("SELECT rowid AS row FROM characters WHERE characters MATCH ?")
                values.append(" AND ".join(f'"{run[place : place + 3]}"' for place in range(len(run) - 2)))
            else:
                parts.append("SELECT doc AS row FROM characters_terms WHERE term >= ? AND term < ?")
                values += [run, run + "\U0010ffff"]
        values += [row_from, row_to, limit]
        found = " INTERSECT ".join(parts)
        return f"SELECT row FROM ({found}) WHERE row >= ? AND row < ? ORDER BY row DESC LIMIT ?", values  # noqa: S608


def _apart(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    last = 0
    for begin, end in spans:
        if begin >= last:
            yield begin, end
            last = end
