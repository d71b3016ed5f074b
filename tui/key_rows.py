"""The rows of [keys]: read from config.toml and the environment as they are written, each with its line, and bounded.

What a row may say is `tui.keymap`'s to check. A file that cannot be read has no rows, and stops nothing here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from core.home import CONFIG
from tui.i18n import _

SECTION = "keys"
PREFIX = "HANDLOOM__KEYS__"
MAX_ROWS = 500
MAX_BYTES = 1024 * 1024
"""Of the file. One that is larger is no settings, and its rows are not looked for."""
DEEP = 3
"""Sections within [keys]: `prompt.editor` without quotes is one of them to TOML."""
Rows = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user's places say."""

    rows: Rows
    """By command id, as it was written."""
    problems: tuple[str, ...] = ()
    """What is wrong with the section as a whole."""
    lines: Mapping[str, int] | None = None
    """By command id, where in the file a row stands."""


def read(home: Path, environ: Mapping[str, str]) -> Wanted:
    """The rows of the environment and the file, the former winning. Blocks for as long as it takes to read a file.

    A file that is no TOML has none: `core.settings.config.load` says what is wrong with it.
    """
    section, lines, problems = _section(home / CONFIG)
    rows = dict(islice(_flat(section), MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        told = _("The section [keys] has more than {count} rows; those behind are not read.")
        problems = [*problems, told.format(count=MAX_ROWS)]
        rows = dict(islice(rows.items(), MAX_ROWS))
    for name, value in environ.items():
        if name.startswith(PREFIX):
            rows[name[len(PREFIX) :].lower().replace("__", ".")] = [part for part in value.split(", ") if part]
    return Wanted(rows, tuple(problems), lines)


def _section(file: Path) -> tuple[Mapping[str, object], Mapping[str, int], list[str]]:
    try:
        if file.stat().st_size > MAX_BYTES:
            told = _("{file} is larger than {n} MB, so no keys are taken from it.")
            return {}, {}, [told.format(file=CONFIG, n=MAX_BYTES // 2**20)]
        text = file.read_text("utf-8")
        found = tomllib.loads(text).get(SECTION, {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return {}, {}, []
    if not isinstance(found, Mapping):
        told = _('[keys] is a section, each row a command and its keys: "conv.new" = "ctrl+n". It is left out.')
        return {}, {}, [told]
    return found, dict(_places(text)), []


def _flat(section: Mapping[str, object], above: str = "", depth: int = DEEP) -> Iterator[tuple[str, object]]:
    """The rows of a section and of those within it, by their whole names."""
    for name, value in section.items():
        if isinstance(value, Mapping) and depth:
            yield from _flat(value, f"{above}{name}.", depth - 1)
        else:
            yield above + name, value


LOOKED_AT = 300
"""Characters of a line in which the name of a row stands."""
_HEADING = re.compile(r"\s*\[\s*([^\[\]]{1,200}?)\s*\]")
_ROW = re.compile(r"""\s*((?:"[^"]{0,200}"|'[^']{0,200}'|[\w.\s-]{1,200}?)+?)\s*=""")


def _places(text: str) -> Iterator[tuple[str, int]]:
    """Rows of the file by their names, with the numbers of their lines; one within braces has that of the brace."""
    above = ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.match(line[:LOOKED_AT]):
            above = _bare(heading[1]) + "."
        elif row := _ROW.match(line[:LOOKED_AT]):
            name = above + _bare(row[1])
            if name.startswith(SECTION + "."):
                yield name.removeprefix(SECTION + "."), number


def _bare(name: str) -> str:
    return "".join(part for part in name if part not in "\"' \t")
