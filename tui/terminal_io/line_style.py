"""What is done to every line on its way to the terminal, whichever widget drew it: colours and glyphs.

Line filters of Textual's, chosen once by `filters`: sixteen colours where the theme is of the terminal's own, no colour
at all under NO_COLOR (https://no-color.org), ASCII where `tui.terminal_io.glyphs` says so. Widgets and themes know
nothing of it, so none of them can forget it. What colour alone would tell apart, selection and cursor, is in reverse
without it.
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
    """Whether the user wants no colours: NO_COLOR is there and not empty."""
    return bool(environ.get("NO_COLOR"))


class SixteenColours(LineFilter):
    """Gives the stand-ins of a theme of sixteen colours their meaning, and drops the tints that it cannot have."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same texts in the terminal's colours."""
        return [Segment(text, style and _sixteen(style), control) for text, style, control in segments]


class NoColours(LineFilter):
    """Leaves bold, dim, underline and reverse."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same texts without any colour."""
        return [Segment(text, style and _sixteen(style) + _NOTHING, control) for text, style, control in segments]


class AsciiGlyphs(LineFilter):
    """Draws with ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same texts with our glyphs in ASCII."""
        if all(text.isascii() for text, _, _ in segments):
            return segments
        return [Segment(in_ascii(text, strict=GLYPHS.strict), style, control) for text, style, control in segments]


@lru_cache(4096)
def _sixteen(style: Style) -> Style:
    ground = style.bgcolor
    if ground is not None and ground.triplet is not None:
        return style  # a cell of a picture
    if ground is not None:
        style += Style(reverse=True, bgcolor=_DEFAULT) if ground == _MARKED else Style(bgcolor=_DEFAULT)
    if style.color == _FAINT:
        style += Style(dim=True, color=_DEFAULT)
    elif style.color is not None and (style.color == _MARKED or style.color.triplet is not None):
        style += Style(color=_DEFAULT)  # nobody knows how any other stands on the terminal's own ground
    return style


_NO_COLOURS, _SIXTEEN_COLOURS, _ASCII = NoColours(), SixteenColours(), AsciiGlyphs()
"""One of each, because strips remember what a filter made of them."""


def filters(*, sixteen: bool) -> list[LineFilter]:
    """The filters for what the terminal and the user want; `sixteen` says that the theme is of the terminal's own."""
    chosen: list[LineFilter] = []
    if not GLYPHS.coloured:
        chosen.append(_NO_COLOURS)
    elif sixteen:
        chosen.append(_SIXTEEN_COLOURS)
    if GLYPHS.ascii:
        chosen.append(_ASCII)
    return chosen
