"""The one table of glyphs: what our marks, lines and bars are in ASCII.

Widgets write the glyph that they mean; where the terminal or the user wants ASCII, everything that is drawn passes
`in_ascii` on its way to the terminal, borders and scrollbars included. Each replacement is as wide as its glyph, so
layout does not change. Letters of people's languages stay, unless the terminal's encoding cannot have them (`strict`).
Pictures are not made of glyphs that ASCII has: whoever draws one asks `pictures_are_drawn`.

Standard library and `rich.cells` only: the first frame needs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
"""Glyph to ASCII, cell for cell. What is drawn with lines, blocks or dots follows by its place in Unicode."""

_HORIZONTAL = "─━┄┅┈┉╌╍═╴╶╼╾"
_VERTICAL = "│┃┆┇┊┋╎╏║╵╷╽╿"
_TABLE = {
    **{ord(glyph): "-" for glyph in _HORIZONTAL},
    **{ord(glyph): "|" for glyph in _VERTICAL},
    **{code: "+" for code in range(0x2500, 0x2580) if chr(code) not in _HORIZONTAL + _VERTICAL},
    **dict.fromkeys(range(0x2580, 0x25A0), "#"),
    **dict.fromkeys(range(0x2400, 0x2440), "?"),  # control pictures: what was made visible stays to be seen
    **dict.fromkeys(range(0x2800, 0x2900), "#"),  # braille: what charts and throbbers are made of
    **dict.fromkeys((*range(0x1FB00, 0x1FBCB), *range(0xE0A0, 0xE0D8)), "#"),
    **{ord(glyph): text for glyph, text in ASCII.items()},
}
_BEYOND = re.compile(r"[^\x00-\x7f]")


class Glyphs:
    """What the running workspace draws with. One for the process, because one terminal is drawn on."""

    def __init__(self) -> None:
        self.ascii = False
        """Whether glyphs become ASCII."""
        self.strict = False
        """Whether letters beyond ASCII become question marks, too."""
        self.coloured = True
        """Whether there are colours; pictures are nothing without."""
        self.pictures = True
        """Whether pictures are wanted."""

    @property
    def pictures_are_drawn(self) -> bool:
        """Whether a picture can be shown as cells; its size is told else."""
        return self.pictures and self.coloured and not self.ascii


GLYPHS = Glyphs()


def use(setting: str, environ: Mapping[str, str], *, coloured: bool = True, pictures: bool = True) -> None:
    """Draw as the setting says; `auto` takes ASCII where the locale is not UTF-8."""
    GLYPHS.pictures = pictures
    utf8 = speaks_utf8(environ)
    GLYPHS.ascii = setting == "ascii" or (setting == "auto" and not utf8)
    GLYPHS.strict = GLYPHS.ascii and not utf8
    GLYPHS.coloured = coloured


def speaks_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's encoding is UTF-8, as the locale has it; no locale at all is no reason to doubt it."""
    named = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    return not named or "utf" in named.lower().replace("-", "")


def in_ascii(text: str, *, strict: bool = False) -> str:
    """The text with our glyphs in ASCII, as wide as before; `strict` leaves nothing else either."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    return _BEYOND.sub(_question, text) if strict and not text.isascii() else text


def _question(match: re.Match[str]) -> str:
    return "?" * cell_len(match[0])
