"""The result of a compaction, in words. Pure."""

from __future__ import annotations

from core.events import CondensationAction
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

WHY_CELLS = 200


def condensed(action: CondensationAction) -> str:
    """The result, for the user."""
    count = len(action.forgotten)
    if action.note:
        text = _("There is no summary: {why}. The model no longer sees {count} older events.")
        return text.format(why=sanitize_line(action.note, WHY_CELLS).rstrip("."), count=count)
    if not count:
        return _("Nothing to compact yet: the conversation is short.")
    return _("Compacted: from your next message on, a summary replaces {count} older events.").format(count=count)
