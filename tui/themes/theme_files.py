"""Themes from TOML files: ours in `themes/`, and the user's own.

A file has a colour for each role; Textual derives the tints. A file that cannot be read, lacks a colour or has text
with too little contrast is reported and left out. `contrast` in the file can require more than `MIN_CONTRAST`, never
less. A file with `ansi = true` uses the terminal's sixteen colours, whose contrast is not checked. Loading only parses,
because the first frame waits for it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

from tui.i18n import _

MIN_CONTRAST = 4.5
"""WCAG 2.2 AA for text of normal size."""
DEFAULT_DARK = "loom-dark"
DEFAULT_ANSI = "loom-ansi-dark"
OURS = Path(__file__).resolve().parents[2] / "themes"

COLOURS = ("primary", "secondary", "accent", "success", "warning", "error")
GROUNDS = ("background", "surface", "panel")
TEXTS = ("muted", "primary", "secondary", "accent", "success", "warning", "error")
TINTED = (
    ("foreground", "secondary", 0.15),
    ("foreground", "warning", 0.08),
    ("foreground", "error", 0.10),
    ("text-primary", "primary", 0.30),
    ("text-warning", "warning", 0.08),
    ("text-success", "success", 0.10),
    ("text-error", "error", 0.10),
)
"""Texts on tints, as in the style sheets: messages, cards, chips, diffs."""

HUES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""Of the terminal's sixteen colours; each also exists as a bright one."""
FAINT = "ansi_bright_black"
"""Dim text in a theme of sixteen colours: many terminals draw the colour itself almost invisible."""
MARKED = "ansi_bright_blue"
"""What is selected or at the cursor in a theme of sixteen colours, drawn in reverse."""


class ThemeError(ValueError):
    """A theme file cannot be used; the message says where and why."""


def load(path: Path) -> Theme:
    """Read one theme. Raises ThemeError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(_("{file} cannot be read: {error}").format(file=path.name, error=error)) from error
    colours, texts = data.get("colors"), data.get("text")
    if not isinstance(colours, dict) or not isinstance(texts, dict):
        raise ThemeError(_("{file} needs the tables [colors] and [text].").format(file=path.name))
    name, dark = str(data.get("name") or path.stem), bool(data.get("dark", True))
    if data.get("ansi"):
        return _ansi(path, name, dark, colours, texts)
    wanted = {f"[colors] {key}": colours.get(key) for key in (*COLOURS, *GROUNDS, "foreground")}
    wanted |= {f"[text] {key}": texts.get(key) for key in TEXTS}
    for place, value in wanted.items():
        try:
            colour = Color.parse(value if isinstance(value, str) else "")
        except ColorParseError as error:
            text = _('{file}: {place} must be a colour such as "#6CA8D6".')
            raise ThemeError(text.format(file=path.name, place=place)) from error
        if colour.ansi is not None:
            text = _('{file}: {place} is one of the terminal\'s colours, which need "ansi = true".')
            raise ThemeError(text.format(file=path.name, place=place))
    theme = Theme(
        name=name,
        dark=dark,
        variables=_variables(colours, texts),
        **{key: colours[key] for key in (*COLOURS, *GROUNDS, "foreground")},
    )
    faint = too_faint(theme, _contrast(path, data))
    if faint:
        text = _("{file}: some text is hard to read: {pairs}.")
        raise ThemeError(text.format(file=path.name, pairs="; ".join(faint)))
    return theme


def _contrast(path: Path, data: dict[str, Any]) -> float:
    asked = data.get("contrast", MIN_CONTRAST)
    if not isinstance(asked, int | float) or asked < MIN_CONTRAST:
        text = _("{file}: contrast must be a number, {least} or more.")
        raise ThemeError(text.format(file=path.name, least=MIN_CONTRAST))
    return float(asked)


def _variables(colours: dict[str, str], texts: dict[str, str]) -> dict[str, str]:
    """Overrides what Textual would derive: the text roles, and scrollbars that are faint until they are used."""
    thumb = Color.parse(colours["panel"]).blend(Color.parse(texts["muted"]), 0.3).hex
    variables = {f"text-{key}": texts[key] for key in TEXTS}
    variables |= {"scrollbar": thumb, "scrollbar-hover": colours["primary"], "scrollbar-active": colours["primary"]}
    grounds = ("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active")
    return variables | dict.fromkeys((*grounds, "scrollbar-corner-color"), colours["background"])


def _ansi(path: Path, name: str, dark: bool, colours: dict[str, Any], texts: dict[str, Any]) -> Theme:
    """A theme of the terminal's colours; `tui.terminal_io.line_style` draws FAINT and MARKED."""
    named = {f"ansi_{bright}{hue}" for bright in ("", "bright_") for hue in HUES}
    possible = named - {FAINT, MARKED} | {"ansi_default"}
    wanted = {f"[colors] {key}": colours.get(key) for key in COLOURS}
    wanted |= {f"[text] {key}": texts.get(key) for key in TEXTS if key != "muted"}
    for place, value in wanted.items():
        if value not in possible:
            text = _("{file}: {place} must be one of {names}.")
            raise ThemeError(text.format(file=path.name, place=place, names=", ".join(sorted(possible))))
    variables = {f"text-{key}": texts[key] for key in TEXTS if key != "muted"}
    faint = ("text-muted", "text-disabled", "foreground-muted", "foreground-disabled", "panel", "border-blurred")
    variables |= dict.fromkeys(faint, FAINT)
    variables |= dict.fromkeys(("ansi-background", "ansi-foreground", "surface-active"), "ansi_default")
    marked = ("block-cursor", "block-cursor-blurred", "input-selection", "screen-selection", "input-cursor")
    for part in marked:
        variables |= {f"{part}-background": MARKED, f"{part}-foreground": "ansi_default"}
    variables |= dict.fromkeys(("primary-muted", "accent-muted"), MARKED)  # rows at a cursor, and chips that are set
    variables |= dict.fromkeys(("scrollbar", "scrollbar-hover", "scrollbar-active"), MARKED)
    grounds = ("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active")
    variables |= dict.fromkeys((*grounds, "scrollbar-corner-color", "block-hover-background"), "ansi_default")
    return Theme(
        name=name,
        dark=dark,
        ansi=True,
        variables=variables,
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel=FAINT,
        **{key: colours[key] for key in COLOURS},
    )


def too_faint(theme: Theme, least: float = MIN_CONTRAST) -> list[str]:
    """Messages about pairs of text and background with a contrast below `least`."""
    grounds = {name: Color.parse(getattr(theme, name)) for name in GROUNDS}
    texts = {"foreground": Color.parse(theme.foreground or "")}
    texts |= {f"text-{key}": Color.parse(theme.variables[f"text-{key}"]) for key in TEXTS}
    pairs = [(text, name, ground) for text in texts for name, ground in grounds.items()]
    for text, tint, share in TINTED:
        ground = grounds["background"].blend(Color.parse(getattr(theme, tint)), share)
        pairs.append((text, _("a tint of {colour}").format(colour=tint), ground))
    found = []
    for text, name, ground in pairs:
        contrast = contrast_ratio(texts[text], ground)
        if contrast < least:
            message = _("{text} on {ground} has a contrast of {contrast}, the minimum is {least}")
            found.append(message.format(text=text, ground=name, contrast=f"{contrast:.1f}", least=f"{least:g}"))
    return found


def contrast_ratio(one: Color, other: Color) -> float:
    """The contrast of two colours from 1 to 21, as WCAG 2.2 defines it."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Color) -> float:
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def load_all(folders: Iterable[Path]) -> tuple[list[Theme], list[str]]:
    """Every usable theme of these folders, and what is wrong with the others. Later folders have precedence."""
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
