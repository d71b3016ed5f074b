"""The settings of the screen, declared once and read twice.

The first frame is drawn before pydantic is loaded, so it uses `read`, which replaces invalid values by defaults.
`core.settings.config.load` reads the same declaration strictly a moment later and reports errors, as for every other
setting. Standard library only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from core.environment import CONFIG
from core.regular_files import read_text

PREFIX = "HANDLOOM__SCREEN__"


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """Appearance, sound and motion of the workspace."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    theme: str = ""
    """The theme; empty uses loom-dark, or loom-ansi-dark if the terminal has only 16 colours."""
    glyphs: Literal["auto", "unicode", "ascii"] = "auto"
    """Characters for symbols and lines: auto uses ASCII if the terminal's encoding is not UTF-8."""
    pictures: Literal["auto", "kitty", "iterm2", "sixel", "octants", "sextants", "blocks", "off"] = "auto"
    """How pages are shown: auto uses kitty graphics, iTerm2's inline images or sixel if the terminal
    supports them, else cells in two colours, in sextants if the terminal draws those itself, or else in quarters
    (blocks); off shows the text of a page and the size of a picture."""
    motion: Literal["full", "reduced"] = "full"
    """Animations; reduced shows only the counted seconds."""
    notify: Literal["auto", "bell", "off"] = "auto"
    """How to notify you that the agent is done or asks while the terminal is not focused: auto, or the bell."""
    copy_on_select: bool = False
    """Copy text as soon as the mouse selects it."""
    reading_width: int = 100
    """Maximum width of the chat in columns; 0 uses the whole width."""
    print_on_exit: bool = False
    """Print the end of the conversation in the terminal when the workspace closes."""
    question_guard_ms: int = 400
    """Milliseconds after a question appears in which it takes no key, so that typing cannot answer it; letters still
    reach the prompt."""
    language: Literal["auto", "en", "zh"] = "auto"
    """The language of the workspace; auto follows the locale."""
    screen_reader: bool = False
    """Use plain lines instead of the workspace, for screen readers; same as --screen-reader."""


def read(home: Path, environ: Mapping[str, str]) -> ScreenSettings:
    """Read the valid settings: from the environment, else the user's file, else the default."""
    try:
        section = tomllib.loads(read_text(home / CONFIG)).get("screen")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        section = None  # `core.settings.config.load` reports it
    found: dict[str, Any] = dict(section) if isinstance(section, dict) else {}
    found |= {name[len(PREFIX) :].lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
    kinds = get_type_hints(ScreenSettings)
    values = {field.name: _parse(found.get(field.name), kinds[field.name]) for field in fields(ScreenSettings)}
    return ScreenSettings(**{name: value for name, value in values.items() if value is not None})


_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def _parse(value: Any, kind: Any) -> Any:
    """Convert a value to the type of its field; None if it is invalid."""
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else None
    if kind is bool:
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower())
    if kind is int:
        digits = str(value)
        return int(digits) if digits.isascii() and digits.isdecimal() else None
    return value if isinstance(value, str) else None
