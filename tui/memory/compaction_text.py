"""What came of a wish to condense the history, in words. Pure."""

from __future__ import annotations

from core.events import CondensationAction
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

WHY_CELLS = 200


def condensed(action: CondensationAction) -> str:
    """What came of it, for the user."""
    count = len(action.forgotten)
    if action.note:
        told = _("There is no summary: {why}. The model no longer sees {count} older events.")
        return told.format(why=sanitize_line(action.note, WHY_CELLS).rstrip("."), count=count)
    if not count:
        return _("Nothing to compact yet: the conversation is short.")
    return _("Condensed: a summary stands for {count} older events from your next message on.").format(count=count)
