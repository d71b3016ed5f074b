"""References: `#123` in a message refers to event 123 of the conversation.

The text stays as typed; a bounded excerpt of the event goes with the message for the model. Imports no `core` and no
Textual.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.events import Envelope

MAX_REFERENCES = 10
EXCERPT_CHARS = 1500
"""The most of one event."""
INTRODUCTION = "[Handloom adds what the message refers to by number, from the log of this conversation:]"

_REFERENCE = re.compile(r"(?:^|(?<=[\s(]))#(\d{1,9})(?![\w#])")
_INTERNAL = frozenset(
    {"system", "recall", "null", "change_agent_state", "agent_state_changed", "condensation_request", "loop_recovery"}
)
"""Kinds that nobody refers to: messages between the controller and the memory."""


def referenced_ids(text: str) -> list[int]:
    """The event ids in a text, each once, at most MAX_REFERENCES."""
    return list(dict.fromkeys(int(number) for number in _REFERENCE.findall(text)))[:MAX_REFERENCES]


def context(events: Iterable[Envelope]) -> str:
    """What the model reads behind a message that refers to these events; empty without events."""
    excerpts = [excerpt(envelope) for envelope in events]
    return "\n\n".join([INTRODUCTION, *excerpts]) if excerpts else ""


def excerpt(envelope: Envelope) -> str:
    """The number, kind and quoted text of an event; a long text is cut in the middle."""
    text = event_text(envelope)
    if len(text) > EXCERPT_CHARS:
        half = EXCERPT_CHARS // 2
        text = f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"
    quoted = "\n".join(f"> {line}" for line in text.splitlines()) or "> (no text)"
    return f"Event #{envelope.id} ({_label(envelope)}, by the {envelope.source}):\n{quoted}"


def _label(envelope: Envelope) -> str:
    """The kind of the event, in English for the model."""
    return f"result of {envelope.event.kind}" if is_result(envelope) else envelope.event.kind


def is_result(envelope: Envelope) -> bool:
    """Whether the event is an observation, which has the kind of its action."""
    return not hasattr(envelope.event, "acts")


def event_text(envelope: Envelope) -> str:
    """The content of an event, else its summary."""
    return str(getattr(envelope.event, "content", "") or envelope.event.message)


def candidates(page: Sequence[Envelope]) -> list[Envelope]:
    """The events of a page that a message may refer to, the newest first."""
    shown = [e for e in page if e.event.kind not in _INTERNAL and not getattr(e.event, "hidden", False)]
    return shown[::-1]


def matches(envelope: Envelope, query: str) -> bool:
    """Whether an event matches the text behind the `#`: its number starts with it, or its kind or text contains it."""
    if not query:
        return True
    if query.isdigit():
        return str(envelope.id).startswith(query)
    query = query.lower()
    return query in _label(envelope) or query in event_text(envelope)[:EXCERPT_CHARS].lower()
