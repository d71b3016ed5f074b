"""Notices of core in the language of the screen."""

from __future__ import annotations

from core.notices import said_as
from tui.i18n import _


def in_words(notice: str) -> str:
    """A notice as it is shown; one whose form is not known stays as it came. Not clean."""
    return said_as(notice, _)
