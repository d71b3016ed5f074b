"""The protocol between Handloom and its model host: lines with one JSON object each, in both directions.

    to the host
    {"type": "complete", "id": 7, "model": ..., "messages": [...], "tools": [...], "settings": {...}}
    {"type": "cancel", "id": 7}          cancels the call, without an answer
    {"type": "ping", "id": 8}
    {"type": "models", "id": 9}          asks for the known models

    from the host
    {"type": "ready"}                    litellm is loaded
    {"type": "broken", "message": ...}   it cannot be loaded; the host ends
    {"type": "delta", "id": 7, "text": ..., "channel": "answer" | "reasoning"}
    {"type": "done", "id": 7, ...}       the whole answer, as `call.complete` returns it
    {"type": "error", "id": 7, "kind": ..., "message": ..., "retry_after_s": 3.0 | null}
    {"type": "pong", "id": 8}
    {"type": "models", "id": 9, "models": [...]}     as `model_catalogue.facts_of` returns them

Calls have different `id`s and may run at the same time. Lines of unknown types are ignored, so either side can be the
newer one.
"""

from __future__ import annotations

import json
from typing import Any

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines are refused. Enough for a full context with pictures, and a bound on memory."""

Line = dict[str, Any]


def encode(line: Line) -> bytes:
    """Encode a line. Text that is not valid Unicode is escaped."""
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def decode(data: bytes) -> Line:
    """Decode a line. Bytes without a JSON object become {}, which both sides ignore."""
    try:
        line = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}
