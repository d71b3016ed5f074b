"""An event in full: its stored form as indented JSON, clean, and long strings as the lines that they hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.events import envelope_to_dict
from tui.text import sanitize

if TYPE_CHECKING:
    from core.events import Envelope

MAX_CHARS = 200_000
"""More than anybody scrolls through; the export has the rest."""


def details(envelope: Envelope) -> str:
    """What to show of an event."""
    text = json.dumps(envelope_to_dict(envelope), indent=2, ensure_ascii=False, default=str)
    if len(text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]}\n[... {len(text) - MAX_CHARS:,} more characters; `handloom export` has them ...]"
    return sanitize(text)
