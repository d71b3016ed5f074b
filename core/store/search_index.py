"""The full-text index over all events: its content and its queries. Pure: texts and SQL statements.

Two contentless FTS5 tables whose rows are events. `words` has the words of scripts with spaces. `characters` has
trigrams of scripts without spaces (Chinese, Japanese, Korean). They find candidates; the text of an event decides
whether it matches (`Query.spans`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

INDEX_VERSION = 1
"""The version of the index content; the index is rebuilt when it changes."""
MAX_CHARS = 200_000
EXCERPT_CHARS = 240
MAX_TERMS = 16

ROW_SHIFT = 32
"""A row id has the conversation's key in the upper bits and the event's id in the lower ones."""

_CJK = re.compile(r"[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3105-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
                  r"\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+")  # fmt: skip
_END = "\u3000\u3000"
"""Appended to a run of characters, so that each character begins a trigram."""
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
    """An event that matches a query."""

    conversation_id: str
    event_id: int
    timestamp: datetime
    kind: str
    """As stored: `action:run`, ..."""
    text: str
    """The text around the first match, one line of at most 240 characters. Untrusted, not sanitised."""
    spans: tuple[tuple[int, int], ...]
    """The slices of `text` that are terms, without overlaps."""
    row: int
    """Its place in the order of the results."""


_CORRUPT_VTAB = 267
"""SQLite's error code for a damaged virtual table in an intact file."""
_SAYS_SO = re.compile(r"fts5: corruption|(no such table|vtable constructor failed): (main\.)?(words|characters)")


def is_damaged(error: BaseException | None, *, deleting: bool = False) -> bool:
    """Whether a database error concerns only the index, which can be rebuilt.

    For deletions from the index, SQLite reports its damage as that of the file.
    """
    if deleting and "malformed" in str(error):
        return True
    return getattr(error, "sqlite_errorcode", 0) == _CORRUPT_VTAB or bool(_SAYS_SO.search(str(error)))


def row_of(key: int, event_id: int) -> int:
    """The index's row of an event of the conversation with this key."""
    return key << ROW_SHIFT | event_id


def text_of(body: str) -> str:
    """The searchable text of a stored event: all texts that people or models wrote, one on each line."""
    return text_of_form(json.loads(body))


def text_of_form(data: Mapping[str, Any]) -> str:
    """As `text_of`, of the parsed body."""
    found: list[str] = []
    for name, value in data.items():
        if name not in _OUTSIDE and name not in _NOT_TEXT:
            _collect(value, found)
    text = "\n".join(found)[:MAX_CHARS]
    return text if text.isascii() else text.encode(errors="replace").decode()  # SQLite refuses lone surrogates


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
    """The text for `characters`: the runs of characters in scripts without spaces."""
    if text.isascii():
        return ""
    return "".join(run + _END for run in _CJK.findall(text))


def folded(text: str) -> str:
    """The text without case and accents, as the index compares it. Its length may differ."""
    if text.isascii():
        return text.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: all of these terms must match."""

    terms: tuple[str, ...]
    """As typed, without quotes and star."""
    words: str
    """The expression for `words MATCH`; empty if there is none."""
    runs: tuple[str, ...]
    """Runs of characters that must all be found."""

    @classmethod
    def parse(cls, text: str) -> Query:
        """Parse a query: words that must all match, `prefix*`, `"a phrase"`."""
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
        """The positions of the terms in a text, in order, without overlaps; None if a term is missing."""
        found: list[tuple[int, int]] = []
        for term in self.terms:
            matches = [match.span() for match in re.finditer(re.escape(term), text, re.IGNORECASE)]
            if not matches and folded(term) not in folded(text):
                return None
            found += matches
        return list(_apart(sorted(found)))

    def excerpt(self, text: str) -> tuple[str, tuple[tuple[int, int], ...]] | None:
        """The text around the first match as one line, with the terms in it; None if it does not match."""
        if (spans := self.spans(text)) is None:
            return None
        start = max(0, spans[0][0] - EXCERPT_CHARS // 4) if spans else 0
        line = re.sub(r"\s", " ", text[start : start + EXCERPT_CHARS])
        inside = ((begin - start, min(end - start, len(line))) for begin, end in spans if begin >= start)
        return line, tuple(span for span in inside if span[0] < span[1])

    def statement(self, row_from: int, row_to: int, limit: int) -> tuple[str, list[Any]]:
        """The statement for the newest candidates in a range of rows, with its values. Needs at least one term."""
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
