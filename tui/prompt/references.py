"""References: `#123` in a message stands for event 123 of the conversation.

The text stays as it was typed; what the event was goes with the message for the model, bounded. Knows events by their
shape only, and imports no `core`. No Textual.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.events import Envelope

MAX_REFERENCES = 10
EXCERPT_CHARS = 1500
"""Of one event: what it was about, not the whole of a log."""
SHOWN_CHARS = 200
INTRODUCTION = "[Handloom adds what the message refers to by number, from the log of this conversation:]"

_REFERENCE = re.compile(r"(?:^|(?<=[\s(]))#(\d{1,9})(?![\w#])")
_SILENT = frozenset(
    {"system", "recall", "null", "change_agent_state", "agent_state_changed", "condensation_request", "loop_recovery"}
)
"""Kinds that nobody refers to: what the controller and the memory say to each other."""


def referred(text: str) -> list[int]:
    """The numbers that a text refers to, each once, at most MAX_REFERENCES."""
    return list(dict.fromkeys(int(number) for number in _REFERENCE.findall(text)))[:MAX_REFERENCES]


def context(events: Iterable[Envelope]) -> str:
    """What the model reads behind a message that refers to these; empty where there are none."""
    excerpts = [excerpt(envelope) for envelope in events]
    return "\n\n".join([INTRODUCTION, *excerpts]) if excerpts else ""


def excerpt(envelope: Envelope) -> str:
    """One event, quoted: number, kind, and as much of its text as is allowed; the middle is left out."""
    quoted = "\n".join(f"> {line}" for line in _cut(said(envelope)).splitlines()) or "> (no text)"
    return f"Event #{envelope.id} ({what(envelope)}, by the {envelope.source}):\n{quoted}"


def what(envelope: Envelope) -> str:
    """Its kind, and whether it is what came of an action of that kind; in English, for the model."""
    return f"result of {envelope.event.kind}" if is_result(envelope) else envelope.event.kind


def is_result(envelope: Envelope) -> bool:
    """Whether it is what came of an action."""
    return not hasattr(envelope.event, "acts")


def said(envelope: Envelope) -> str:
    """The text of an event: what was said, done or seen."""
    event = envelope.event
    content = getattr(event, "content", "")
    return str(content) if content else str(event.message)


def recent(page: Sequence[Envelope]) -> list[Envelope]:
    """Those of a page that somebody may refer to, the newest first."""
    shown = [e for e in page if e.event.kind not in _SILENT and not getattr(e.event, "hidden", False)]
    return shown[::-1]


def matches(envelope: Envelope, query: str) -> bool:
    """Whether an event is meant by what was typed behind the `#`: its number begins so, or its kind or text has it."""
    if not query:
        return True
    if query.isdigit():
        return str(envelope.id).startswith(query)
    query = query.lower()
    return query in what(envelope) or query in said(envelope)[:EXCERPT_CHARS].lower()


def _cut(text: str) -> str:
    if len(text) <= EXCERPT_CHARS:
        return text
    half = EXCERPT_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"
