"""Themes from files: one TOML file each, ours in `themes/`, the user's own beside them.

A file names its colours by role and nothing else; Textual makes the tints. A file that cannot be read, lacks a colour
or whose text falls below `MIN_CONTRAST` is reported and left out, and the rest is loaded. Reading does no more than
parsing, because the first frame waits for it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from textual.color import Color, ColorParseError
from textual.theme import Theme

MIN_CONTRAST = 4.5
"""WCAG 2.2 AA for text of normal size."""
DEFAULT_DARK = "loom-dark"
DEFAULT_LIGHT = "loom-light"
OURS = Path(__file__).resolve().parent.parent / "themes"

COLOURS = ("primary", "secondary", "accent", "success", "warning", "error")
GROUNDS = ("background", "surface", "panel")
TEXTS = ("muted", "primary", "secondary", "accent", "success", "warning", "error")


class ThemeError(ValueError):
    """A theme file that cannot be used; its text says where and why."""


def load(path: Path) -> Theme:
    """Read one theme. Raises ThemeError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(f"{path.name} cannot be read: {error}") from error
    colours, texts = data.get("colors"), data.get("text")
    if not isinstance(colours, dict) or not isinstance(texts, dict):
        raise ThemeError(f"{path.name} needs the tables [colors] and [text].")
    wanted = {f"[colors] {key}": colours.get(key) for key in (*COLOURS, *GROUNDS, "foreground")}
    wanted |= {f"[text] {key}": texts.get(key) for key in TEXTS}
    for place, value in wanted.items():
        try:
            Color.parse(value if isinstance(value, str) else "")
        except ColorParseError as error:
            raise ThemeError(f'{path.name}: {place} must be a colour such as "#6CA8D6".') from error
    theme = Theme(
        name=str(data.get("name") or path.stem),
        dark=bool(data.get("dark", True)),
        variables=_variables(colours, texts),
        **{key: colours[key] for key in (*COLOURS, *GROUNDS, "foreground")},
    )
    faint = too_faint(theme)
    if faint:
        raise ThemeError(f"{path.name} cannot be read by everyone: " + "; ".join(faint) + ".")
    return theme


def _variables(colours: dict[str, str], texts: dict[str, str]) -> dict[str, str]:
    """What Textual would derive otherwise: the text roles, and scrollbars that keep quiet until they are used."""
    thumb = Color.parse(colours["panel"]).blend(Color.parse(texts["muted"]), 0.3).hex
    variables = {f"text-{key}": texts[key] for key in TEXTS}
    variables |= {"scrollbar": thumb, "scrollbar-hover": colours["primary"], "scrollbar-active": colours["primary"]}
    grounds = ("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active")
    return variables | dict.fromkeys((*grounds, "scrollbar-corner-color"), colours["background"])


def too_faint(theme: Theme) -> list[str]:
    """The pairs of text and ground whose contrast is below `MIN_CONTRAST`, in words."""
    grounds = {name: Color.parse(getattr(theme, name)) for name in GROUNDS}
    texts = {"foreground": theme.foreground or ""}
    texts |= {f"text-{key}": theme.variables[f"text-{key}"] for key in TEXTS}
    found = []
    for text, value in texts.items():
        for ground, colour in grounds.items():
            contrast = contrast_ratio(Color.parse(value), colour)
            if contrast < MIN_CONTRAST:
                found.append(f"{text} on {ground} has a contrast of {contrast:.1f}, {MIN_CONTRAST} is the least")
    return found


def contrast_ratio(one: Color, other: Color) -> float:
    """How well two colours can be told apart, from 1 to 21, as WCAG 2.2 defines it."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Color) -> float:
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def load_all(folders: Iterable[Path]) -> tuple[list[Theme], list[str]]:
    """Every usable theme of these folders, the later ones winning, and what is wrong with the others."""
    themes: dict[str, Theme] = {}
    problems = []
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                theme = load(path)
            except ThemeError as error:
                problems.append(str(error))
            else:
                themes[theme.name] = theme
    return list(themes.values()), problems
