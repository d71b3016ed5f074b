"""The lines between Handloom and its model host: one JSON object each, in both directions.

    to the host
    {"type": "complete", "id": 7, "model": ..., "messages": [...], "tools": [...], "settings": {...}}
    {"type": "cancel", "id": 7}          ends the call; nothing more is said about it
    {"type": "ping", "id": 8}
    {"type": "models", "id": 9}          what is known of which models

    from the host
    {"type": "ready"}                    litellm is loaded
    {"type": "broken", "message": ...}   it cannot be loaded; the host ends
    {"type": "delta", "id": 7, "text": ..., "channel": "answer" | "reasoning"}
    {"type": "done", "id": 7, ...}       the whole answer, as `call.complete` gives it
    {"type": "error", "id": 7, "kind": ..., "message": ..., "retry_after_s": 3.0 | null}
    {"type": "pong", "id": 8}
    {"type": "models", "id": 9, "models": [...]}     as `catalogue.facts_of` gives them

Calls are told apart by `id` and may be under way at the same time. A line of an unknown type is ignored, so
that either side can be the newer one.
"""

from __future__ import annotations

import json
from typing import Any

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A line that is longer is refused: room for a full context with pictures, and a bound on memory."""

Line = dict[str, Any]


def encode(line: Line) -> bytes:
    """A line as bytes. Text that is no valid Unicode goes as escapes."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def decode(data: bytes) -> Line:
    """The line in these bytes; an empty one, which both sides ignore, where they hold no JSON object."""
    try:
        line = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}
