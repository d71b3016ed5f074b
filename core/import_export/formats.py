"""The formats in which a conversation can be written: one row each, and the one place to add another.

A format is a module with a class `Writer` (see `core.import_export.export_pages.Writer`), loaded when it is asked for,
so that the command line can name the formats without it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """What a conversation can be written as."""

    name: str
    suffix: str
    about: str
    """A few words for a list to choose from."""
    module: str
    is_text: bool = True
    """Whether a terminal can show it."""
    has_pictures: bool = False
    leaves_out: frozenset[str] = frozenset()
    """The fields of events whose pictures it does not have."""
    has_recordings: bool = False
    """Whether the writer needs what the terminal printed."""


_PAGES = frozenset({"screenshot", "set_of_marks"})
_MARKED = frozenset({"set_of_marks", "goal_image_urls"})
_ROWS = (
    Format(
        "trajectory",
        ".json",
        "the flat list of OpenHands V0",
        "core.import_export.trajectory",
        has_pictures=True,
        leaves_out=_PAGES,
    ),
    Format(
        "archive",
        ".handloom.zip",
        "everything in one file, to import elsewhere",
        "core.import_export.archive",
        is_text=False,
        has_pictures=True,
        has_recordings=True,
    ),
    Format(
        "html",
        ".html",
        "a page that replays in a browser",
        "core.import_export.html",
        has_pictures=True,
        leaves_out=_MARKED,
        has_recordings=True,
    ),
    Format(
        "markdown", ".md", "a document for people", "core.import_export.markdown", has_pictures=True, leaves_out=_MARKED
    ),
    Format(
        "openhands-events",
        ".zip",
        "the event files of OpenHands, zipped",
        "core.import_export.event_files",
        is_text=False,
        has_pictures=True,
    ),
    Format(
        "openhands-sdk",
        ".zip",
        "the event files of the OpenHands SDK, zipped",
        "core.import_export.sdk_export",
        is_text=False,
        has_pictures=True,
    ),
    Format("asciicast", ".cast", "the terminal, for asciinema", "core.import_export.asciicast", has_recordings=True),
)
FORMATS = {row.name: row for row in _ROWS}
