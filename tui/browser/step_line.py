"""The film strip: the steps of the browser in one line, each with its number and what was done. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tui.i18n import _
from tui.terminal_io.glyphs import GLYPHS
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from tui.browser.model import PageSeen

STEP_CELLS = 22
_FUNCTION = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_PLACE = re.compile(r"https?://([^/?#'\"]+)")


def film(pages: Sequence[PageSeen], at: int | None, width: int, muted: Style, here: Style) -> list[Segment]:
    """The steps around the one that is looked at, `at`; None is the living page at the end."""
    names = [_name(number, page) for number, page in enumerate(pages, 1)]
    if at is None:
        names.append(_("live"))
    looked_at = len(names) - 1 if at is None else at
    first = last = looked_at
    room = width - 4 - cell_len(names[looked_at])
    while True:
        if last + 1 < len(names) and (need := cell_len(names[last + 1]) + 3) <= room:
            last, room = last + 1, room - need
        elif first > 0 and (need := cell_len(names[first - 1]) + 3) <= room:
            first, room = first - 1, room - need
        else:
            break
    parts = [Segment("‹ " if first else "  ", muted)]
    for step in range(first, last + 1):
        if step > first:
            parts.append(Segment(" · ", muted))
        parts.append(Segment(names[step], here + Style(bold=True, underline=True) if step == looked_at else muted))
    if last < len(names) - 1:
        parts.append(Segment(" ›", muted))
    return parts


def _name(number: int, page: PageSeen) -> str:
    """A step in few cells: its number, who did it, the function and what it was done with."""
    found = _FUNCTION.match(page.action)
    done = page.action
    if found is not None:
        site = _PLACE.search(found[2])
        done = f"{found[1]} {site[1] if site else found[2]}".replace("'", "").replace('"', "")
    who = "" if not page.by_user else ("* " if GLYPHS.ascii else "◆ ")
    return sanitize_line(f"{number} {who}{done}".strip(), STEP_CELLS)
