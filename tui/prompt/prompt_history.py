"""What was sent before: kept in order, brought in from earlier sessions once, searched. Pure; no Textual."""

from __future__ import annotations

from collections.abc import Iterable

LIMIT = 1000
"""Messages of earlier sessions that are brought in: years of most people's."""


def joined(earlier: Iterable[str], sent: list[str]) -> list[str]:
    """All of it once, the newest last. `earlier` comes newest first, and may repeat what this session sent."""
    known = set(sent)
    older: list[str] = []
    for text in earlier:
        if text.strip() and text not in known:
            known.add(text)
            older.append(text)
    return [*reversed(older), *sent]


def narrowed(sent: list[str], query: str) -> list[str]:
    """What contains the query, the newest first, each once. Case counts only where the query has a capital."""
    folds = query == query.lower()
    found = (text for text in reversed(sent) if query in (text.lower() if folds else text))
    return list(dict.fromkeys(found))
