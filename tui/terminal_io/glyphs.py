"""The ASCII replacements of glyphs.

Widgets write glyphs; if the terminal or the user wants ASCII, everything that is drawn passes `in_ascii` on its way to
the terminal, borders and scrollbars included. Each replacement is as wide as its glyph, so the layout does not change.
Letters stay, unless the terminal's encoding does not have them (`strict`). Pictures have no ASCII form: who draws one
checks `pictures_are_drawn`.

Standard library and `rich.cells` only: the first frame needs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from rich.cells import cell_len

ASCII = {
    # states
    "▶": ">", "◆": "@", "✕": "x", "•": "*", "■": "#", "◇": "?", "✓": "+", "○": "o", "●": "*", "≡": "=", "□": "o",
    "✗": "x", "✔": "+", "✖": "x", "▲": "^", "△": "^", "▼": "v", "▽": "v", "◀": "<", "▸": ">", "▾": "v", "◉": "@",
    "◌": ".", "🔎": "> ", "◐": "*", "★": "*", "☆": "*", "⚠": "!", "⏸": "=", "⏎": "<", "⌫": "<", "⧗": "%",
    "⋮": ":", "⋯": "~",
    "❯": ">", "❮": "<", "›": ">", "‹": "<", "»": ">", "«": "<", "⚑": "!", "✎": "~", "⚙": "*", "⠿": "#",
    # arrows
    "↑": "^", "↓": "v", "←": "<", "→": ">", "⇧": "^", "↵": "<", "↳": ">", "↪": ">", "⇥": ">", "↕": "|", "↔": "-",
    "⇄": "=", "⤷": ">", "↻": "o", "↺": "o", "⟳": "o", "⇡": "^", "⇣": "v",
    # punctuation
    "…": "~", "·": "-", "—": "-", "–": "-", "−": "-", "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "×": "x",
    "≥": ">", "≤": "<", "≠": "!", "≈": "~", "±": "+", "°": "o", "⟦": "[", "⟧": "]", "∙": "-", "⋅": "-", "∞": "8",
    "�": "?", "\N{NO-BREAK SPACE}": " ", "§": "S", "¶": "P", "†": "+", "÷": "/", "¬": "-", "⌘": "#", "⌥": "~",
    # eighths of a block that Textual draws underlines and thin bars with
    "╸": "-", "╺": "-", "╹": "|", "╻": "|", "▔": "-", "▁": "_", "▂": "_", "▏": "|", "▎": "|", "▍": "|", "▌": "|",
    "▐": "|", "▕": "|", "▊": "|", "░": ".", "▒": ":", "▓": "#", " ": " ",
}  # fmt: skip
"""Glyph to ASCII, cell for cell. Lines, blocks and dots are added by their ranges in Unicode."""

_HORIZONTAL = "─━┄┅┈┉╌╍═╴╶╼╾"
_VERTICAL = "│┃┆┇┊┋╎╏║╵╷╽╿"
_TABLE = {
    **{ord(glyph): "-" for glyph in _HORIZONTAL},
    **{ord(glyph): "|" for glyph in _VERTICAL},
    **{code: "+" for code in range(0x2500, 0x2580) if chr(code) not in _HORIZONTAL + _VERTICAL},
    **dict.fromkeys(range(0x2580, 0x25A0), "#"),
    **dict.fromkeys(range(0x2400, 0x2440), "?"),  # control pictures: they stay visible
    **dict.fromkeys(range(0x2800, 0x2900), "#"),  # braille: what charts and throbbers are made of
    **dict.fromkeys((*range(0x1CD00, 0x1CEB0), *range(0x1FB00, 0x1FBEF), *range(0xE0A0, 0xE0D8)), "#"),
    **{ord(glyph): text for glyph, text in ASCII.items()},
}
_BEYOND = re.compile(r"[^\x00-\x7f]")


Shapes = Literal["quadrants", "sextants", "octants"]
_SHAPES: dict[str, Shapes] = {"sextants": "sextants", "octants": "octants"}
"""By the value of `screen.pictures`."""
IN_CELLS = frozenset({"octants", "sextants", "blocks", "off"})
"""The values of `screen.pictures` with which the terminal draws no picture itself."""


class Glyphs:
    """How this process draws on its one terminal."""

    def __init__(self) -> None:
        self.ascii = False
        self.strict = False
        """Whether letters beyond ASCII become question marks, too."""
        self.coloured = True
        """Whether there are colours, which pictures need."""
        self.pictures = True
        self.shapes: Shapes = "quadrants"
        """The parts of a cell that pictures are drawn with."""

    @property
    def pictures_are_drawn(self) -> bool:
        """Whether pictures can be drawn; else their size is shown."""
        return self.pictures and self.coloured and not self.ascii


GLYPHS = Glyphs()


def use(setting: str, environ: Mapping[str, str], *, coloured: bool = True, pictures: str = "auto") -> None:
    """Apply the settings; `auto` uses ASCII if the locale is not UTF-8."""
    GLYPHS.pictures = pictures != "off"
    GLYPHS.shapes = _SHAPES.get(pictures, "quadrants")
    utf8 = speaks_utf8(environ)
    GLYPHS.ascii = setting == "ascii" or (setting == "auto" and not utf8)
    GLYPHS.strict = GLYPHS.ascii and not utf8
    GLYPHS.coloured = coloured


def speaks_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the locale's encoding is UTF-8, which is assumed if no locale is set."""
    named = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    return not named or "utf" in named.lower().replace("-", "")


def in_ascii(text: str, *, strict: bool = False) -> str:
    """Replace glyphs by ASCII of the same width; `strict` replaces all other characters, too."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    return _BEYOND.sub(lambda match: "?" * cell_len(match[0]), text) if strict and not text.isascii() else text
