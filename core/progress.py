"""Telling the user what takes long, a line at a time: what whoever works takes, and one who does not listen."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]
"""Takes one line about what is being done. Never blocks, never raises."""


def silently(line: str) -> None:
    """For those who need not be told."""
