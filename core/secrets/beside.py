"""Texts that are kept beside the log: titles, facts, cassettes, lines of the program's own log. Pure."""

from __future__ import annotations

from core.secrets.masker import PLACEHOLDER, Masker
from core.secrets.shapes import certain


def without_secrets(text: str, masker: Masker) -> str:
    """The text without known secrets and what is one by its looks; the same object where there are none."""
    for span in reversed(certain(text)):
        text = text[: span.start] + PLACEHOLDER + text[span.end :]
    return masker.mask_text(text)
