"""The settings of the screen, declared once for two readers.

The first frame is drawn before pydantic is there, so it reads them with `read`, which takes what is right and leaves
the default where something is wrong. `core.settings.config.load` reads the same declaration strictly a moment later and
says what is wrong, as for every other setting. Standard library only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from core.home import CONFIG
from core.regular_files import read_text

PREFIX = "HANDLOOM__SCREEN__"


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """How the workspace looks, sounds and moves."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "use_attribute_docstrings": True}

    theme: str = ""
    """The colours, by the name of a theme; empty takes loom-dark, or loom-ansi-dark where there are only 16 colours."""
    glyphs: Literal["auto", "unicode", "ascii"] = "auto"
    """What marks and lines are drawn with: auto takes ASCII where the terminal's encoding is not UTF-8."""
    pictures: Literal["auto", "kitty", "sixel", "blocks", "off"] = "auto"
    """How pages are shown: auto takes kitty's graphics or sixel where the terminal answers that it has them, else cells
    in two colours (blocks); off tells a page's words and a picture's size."""
    motion: Literal["full", "reduced"] = "full"
    """Whether anything may move by itself; reduced leaves only the seconds that are counted."""
    notify: Literal["auto", "bell", "off"] = "auto"
    """How you are told that the agent is done or asks while you look elsewhere: as the terminal can, or by the bell."""
    copy_on_select: bool = False
    """Copy what the mouse selects at once."""
    reading_width: int = 100
    """Columns of the chat at most; 0 takes all there are."""
    print_on_exit: bool = False
    """Leave the end of the conversation on the normal screen when the workspace closes."""
    question_guard_ms: int = 400
    """Milliseconds after a question appears in which it takes no key, so that typing cannot answer it; letters still
    reach the prompt."""
    language: Literal["auto", "en", "zh"] = "auto"
    """The language of the workspace; auto follows the locale."""
    screen_reader: bool = False
    """Plain lines instead of the workspace, for screen readers; as with --screen-reader."""


def read(home: Path, environ: Mapping[str, str]) -> ScreenSettings:
    """The settings as far as they are right: from the environment, else the user's file, else the default."""
    try:
        section = tomllib.loads(read_text(home / CONFIG)).get("screen")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        section = None  # `core.settings.config.load` says what is wrong with the file
    found: dict[str, Any] = dict(section) if isinstance(section, dict) else {}
    found |= {name[len(PREFIX) :].lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
    kinds = get_type_hints(ScreenSettings)
    taken = {}
    for field in fields(ScreenSettings):
        value = _taken(found.get(field.name), kinds[field.name])
        if value is not None:
            taken[field.name] = value
    return ScreenSettings(**taken)


_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def _taken(value: Any, kind: Any) -> Any:
    """The value as its field wants it; None where it is no such value."""
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else None
    if kind is bool:
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower())
    if kind is int:
        digits = str(value)
        return int(digits) if digits.isascii() and digits.isdecimal() else None
    return value if isinstance(value, str) else None
