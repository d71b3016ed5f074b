"""The last check of what is drawn: no escape sequences but Textual's own leave through a strip.

Textual and Rich write a segment's text and a link's target to the terminal as they are, so one Static with tool output
could set the clipboard. `install` adds a check where strips become bytes, which covers every widget. Models sanitise
first (`tui.terminal_io.sanitizer`), so that people see what was there; what slipped through is dropped here, because
layout has already counted it as zero cells wide. Placeholder cells of pictures get their colour here, after every tint.

The app calls `install` once, before it runs. Widgets never call it.
"""

from __future__ import annotations

import re

from rich.cells import get_character_cell_size
from rich.console import Console
from rich.segment import Segment
from textual.strip import Strip

from tui.terminal_io.graphics.kitty import PICTURE_IDS, PLACEHOLDER

_FOREIGN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What controls a terminal, reverses text, or cannot be encoded. Joiners stay: layout measured them."""
_LINK = re.compile(r"(?:https?|mailto|file):[\x21-\x7e]+\Z")
_MARK = "_handloom_strip_filter"


def clean(text: str) -> str:
    """Remove what controls a terminal; the width stays what layout made it."""
    if text.isprintable() or _FOREIGN.search(text) is None:
        return text
    return _FOREIGN.sub(_same_width, text)


def _same_width(match: re.Match[str]) -> str:
    return "�" * get_character_cell_size(match[0])


def _clean_segment(segment: Segment) -> Segment:
    text, style, control = segment
    if PLACEHOLDER in text:
        if PICTURE_IDS.style is None:
            text = text.replace(PLACEHOLDER, "�")
        else:
            style = PICTURE_IDS.style if style is None else style + PICTURE_IDS.style
    if style is not None and style._link and _LINK.match(style._link) is None:
        style = style.update_link(None)
    return Segment(clean(text), style, control)


def install() -> None:
    """Check every strip. May be called twice. Takes less than a microsecond for a strip."""
    if getattr(Strip.render, _MARK, False):
        return
    render = Strip.render

    def checked_render(self: Strip, console: Console) -> str:
        if self._render_cache is None:
            for text, style, _ in self._segments:
                if not text.isprintable() or (style is not None and style._link):
                    self._segments = [_clean_segment(segment) for segment in self._segments]
                    break
        return render(self, console)

    setattr(checked_render, _MARK, True)
    Strip.render = checked_render  # type: ignore[method-assign]
