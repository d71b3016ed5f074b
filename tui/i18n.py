"""The language of the screen: English as it stands in the code, or what a catalogue has for it.

`_` is asked wherever a text of ours is made, module constants included, so the language is chosen once, by `use`,
before anything else of the screen is imported. A catalogue is a folder `locales/LANGUAGE` of TOML files whose keys are
the English texts; what it lacks stays English. Places for values are `{names}`, filled by `str.format` afterwards.
Texts of the model, of tools and of errors that `core` tells are not translated; its notices are. Standard library only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

LOCALES = Path(__file__).with_name("locales")
VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The first one that is set says which language the user reads, as POSIX has it."""

_texts: dict[str, str] = {}


def _(text: str) -> str:
    """A text in the language of the screen."""
    return _texts.get(text, text)


def counted(number: int, one: str, many: str) -> str:
    """One of two texts by the number, which stands in it where `{n}` is. Languages without a plural have it twice."""
    return _(one if number == 1 else many).format(n=f"{number:,}")


def languages() -> list[str]:
    """Those that there are."""
    return ["en", *sorted(folder.name for folder in LOCALES.iterdir() if folder.is_dir())]


def wanted(setting: str, environ: Mapping[str, str]) -> str:
    """The language for a setting; `auto` takes the environment's, as far as there is a catalogue."""
    if setting != "auto":
        return setting if setting in languages() else "en"
    named = next((environ[name] for name in VARIABLES if environ.get(name)), "")
    return language if (language := named[:2].lower()) in languages() else "en"


def use(language: str) -> None:
    """Speak this language from now on; for one without a catalogue, English."""
    _texts.clear()
    for file in sorted((LOCALES / language).glob("*.toml")):
        _texts.update(tomllib.loads(file.read_text("utf-8")))


def in_words(notice: str) -> str:
    """A notice as it is shown; one whose form is not known stays as it came. Not clean."""
    from core.status_messages import translated  # the first frame does without

    return translated(notice, _)
