"""An event in full: its stored form as indented JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.events import envelope_to_dict
from tui.display.text import sanitize
from tui.i18n import _

if TYPE_CHECKING:
    from core.events import Envelope

MAX_CHARS = 200_000
"""More than anybody scrolls through; the export has the rest."""


def whole(envelope: Envelope) -> str:
    """An event as it is stored. Not clean: for the clipboard, not for the screen."""
    return json.dumps(envelope_to_dict(envelope), indent=2, ensure_ascii=False, default=str)


def details(envelope: Envelope) -> str:
    """What to show of an event; clean."""
    text = whole(envelope)
    if len(text) > MAX_CHARS:
        more = _("[... {n} more characters; `handloom export` has them ...]").format(n=f"{len(text) - MAX_CHARS:,}")
        text = f"{text[:MAX_CHARS]}\n{more}"
    return sanitize(text)
