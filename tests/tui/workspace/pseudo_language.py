"""The workspace in a pseudo-language: every translatable word is in brackets, so that other words are noticed.

`python -m tests.tui.workspace.pseudo_language` walks through all screens and prints which words without brackets each
has drawn: what a catalogue could not reach, besides the texts of the conversation, names and keys.
"""

from __future__ import annotations

import asyncio
import json
import re
import string
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.tui.workspace.screen_texts import all_texts
from tui import i18n

LANGUAGE = "xx"
_WORD = re.compile(r"(?<![A-Za-z⟦_%/.])[A-Za-z]{2,}(?![A-Za-z_])")


def pseudo(text: str) -> str:
    """The text with its words in brackets and its placeholders unchanged."""
    parts = string.Formatter().parse(text)
    return "".join(
        re.sub("[A-Za-z]+", r"⟦\g<0>⟧", words) + (f"{{{name}}}" if name is not None else "")
        for words, name, form, conversion in parts
    )


def write_catalogue(locales: Path) -> None:
    """A folder of catalogues with this one language."""
    (locales / LANGUAGE).mkdir(parents=True)
    lines = [f"{json.dumps(text)} = {json.dumps(pseudo(text))}" for text in sorted(all_texts()) if "%d" not in text]
    (locales / LANGUAGE / "all.toml").write_text("\n".join(lines), "utf-8")


async def walk() -> Mapping[str, Mapping[str, list[str]]]:
    """The words without brackets of each screen, and of the frame alone. The language has to be chosen before."""
    from tests.tui.workspace.running_app import running
    from tests.tui.workspace.screen_tour import tour
    from tui.shortcuts.leader import WhichKey

    found: dict[str, Mapping[str, list[str]]] = {}
    async with running(size=(160, 48)) as it:
        async for stop in tour(it.app, it.session, it.pilot.pause):
            await it.pilot.pause()
            screen = _words(it.screen_text())
            it.app.workspace.hints.flash("")  # this text has no fixed source
            parts = (it.app.workspace.footer, it.app.workspace.hints, it.app.workspace.query_one(WhichKey))
            frame = " ".join(str(part.render()) for part in parts)
            found[stop] = {"screen": screen, "frame": _words(frame)}
    return found


def _words(drawn: str) -> list[str]:
    return sorted(set(_WORD.findall(drawn)))


def main() -> None:
    """Print them as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        locales = Path(folder)
        write_catalogue(locales)
        for name in [name for name in sys.modules if name.startswith("tui.") and name != "tui.i18n"]:
            del sys.modules[name]  # made in English while the texts were gathered
        i18n.LOCALES = locales
        i18n.use(LANGUAGE)
        print(json.dumps(asyncio.run(walk())))


if __name__ == "__main__":
    main()
