"""Line filters for every line on its way to the terminal: colours and glyphs.

Chosen once by `filters`: 16 colours if the theme has the terminal's own, no colours under NO_COLOR
(https://no-color.org), ASCII if `tui.terminal_io.glyphs` says so. Widgets and themes need not know. What only colour
would distinguish, selection and cursor, is shown in reverse without colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from tui.terminal_io.glyphs import GLYPHS, in_ascii
from tui.themes.theme_files import FAINT, MARKED

_FAINT = Color.parse(FAINT).rich_color
_MARKED = Color.parse(MARKED).rich_color
_DEFAULT = RichColor.default()
_NOTHING = Style.from_color(_DEFAULT, _DEFAULT)


def without_colours(environ: Mapping[str, str]) -> bool:
    """Whether the user wants no colours: NO_COLOR is set and not empty."""
    return bool(environ.get("NO_COLOR"))


class SixteenColours(LineFilter):
    """Replaces the placeholder colours of a theme of 16 colours, and drops tints."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, style and _sixteen(style), control) for text, style, control in segments]


class NoColours(LineFilter):
    """Keeps bold, dim, underline and reverse."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, style and _sixteen(style) + _NOTHING, control) for text, style, control in segments]


class AsciiGlyphs(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(text.isascii() for text, _, _ in segments):
            return segments
        return [Segment(in_ascii(text, strict=GLYPHS.strict), style, control) for text, style, control in segments]


@lru_cache(4096)
def _sixteen(style: Style) -> Style:
    background = style.bgcolor
    if background is not None and background.triplet is not None:
        return style  # a cell of a picture
    if background is not None:
        style += Style(reverse=True, bgcolor=_DEFAULT) if background == _MARKED else Style(bgcolor=_DEFAULT)
    if style.color == _FAINT:
        style += Style(dim=True, color=_DEFAULT)
    elif style.color is not None and (style.color == _MARKED or style.color.triplet is not None):
        style += Style(color=_DEFAULT)  # it may not be readable on the terminal's background
    return style


_NO_COLOURS, _SIXTEEN_COLOURS, _ASCII = NoColours(), SixteenColours(), AsciiGlyphs()
"""One of each, because strips cache what a filter made of them."""


def filters(*, sixteen: bool) -> list[LineFilter]:
    """Return the filters that apply; `sixteen` says that the theme has the terminal's own 16 colours."""
    chosen: list[LineFilter] = []
    if not GLYPHS.coloured:
        chosen.append(_NO_COLOURS)
    elif sixteen:
        chosen.append(_SIXTEEN_COLOURS)
    if GLYPHS.ascii:
        chosen.append(_ASCII)
    return chosen
