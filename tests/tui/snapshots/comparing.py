"""A screen written down: its text, a letter for each cell's style, and a legend of the letters."""

from __future__ import annotations

import os
import string
from difflib import unified_diff
from itertools import groupby
from pathlib import Path

from rich.style import Style
from textual.app import App

FOLDER = Path(__file__).parent
LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits
WRITES = os.environ.get("HANDLOOM_SNAPSHOTS") == "write"


def written(app: App[None]) -> str:
    """The current screen, in three parts."""
    letters: dict[str, str] = {}
    texts, styles = [], []
    for strip in app.screen._compositor.render_strips():
        texts.append("".join(segment.text for segment in strip).rstrip())
        cells = [
            (letters.setdefault(_named(segment.style), LETTERS[len(letters) % len(LETTERS)]), segment.cell_length)
            for segment in strip
        ]
        runs = ((letter, sum(length for _, length in run)) for letter, run in groupby(cells, key=lambda cell: cell[0]))
        styles.append(" ".join(f"{letter}{length}" for letter, length in runs))
    legend = [f"{letter}  {name}" for name, letter in letters.items()]
    return "\n".join([*texts, "", *styles, "", *legend, ""])


def _named(style: Style | None) -> str:
    if style is None:
        return "nothing"
    attributes = ("bold", "dim", "italic", "underline", "reverse", "strike")
    names = [name for name in attributes if getattr(style, name)]
    front = style.color.name if style.color is not None else "default"
    ground = style.bgcolor.name if style.bgcolor is not None else "default"
    return " ".join([f"{front} on {ground}", *names])


def compare(name: str, app: App[None]) -> None:
    """Fail if the screen differs from the file of this name; write it instead if requested."""
    path, now = FOLDER / f"{name}.txt", written(app)
    if WRITES:
        path.write_text(now, "utf-8")
        return
    before = path.read_text("utf-8") if path.exists() else ""
    difference = list(unified_diff(before.splitlines(), now.splitlines(), f"{name}, kept", f"{name}, now", "", "", 1))
    assert not difference, "\n".join(difference[:60])
