"""Translations of the screen's texts.

`_` is called for all texts, also in module constants, so the language is set once, by `use`, before anything else of
the screen is imported. A catalogue is a folder `locales/LANGUAGE` of TOML files whose keys are the English texts;
missing texts stay English. Values are inserted afterwards by `str.format`. Texts of models and tools and error messages
of `core` are not translated; its notices are. Standard library only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

LOCALES = Path(__file__).with_name("locales")
VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The first one that is set has the user's language, as in POSIX."""

_texts: dict[str, str] = {}


def _(text: str) -> str:
    """A text in the language of the screen."""
    return _texts.get(text, text)


def counted(number: int, one: str, many: str) -> str:
    """The singular or the plural, with the number in place of `{n}`."""
    return _(one if number == 1 else many).format(n=f"{number:,}")


def listed(names: Sequence[str]) -> str:
    """Names as words of a sentence."""
    return _("{names} and {last}").format(names=", ".join(names[:-1]), last=names[-1]) if names[1:] else "".join(names)


def languages() -> list[str]:
    return ["en", *sorted(folder.name for folder in LOCALES.iterdir() if folder.is_dir())]


def wanted(setting: str, environ: Mapping[str, str]) -> str:
    """The language for a setting; `auto` uses the environment's language if there is a catalogue."""
    if setting != "auto":
        return setting if setting in languages() else "en"
    named = next((environ[name] for name in VARIABLES if environ.get(name)), "")
    return language if (language := named[:2].lower()) in languages() else "en"


def use(language: str) -> None:
    """Set the language; English if it has no catalogue."""
    _texts.clear()
    for file in sorted((LOCALES / language).glob("*.toml")):
        _texts.update(tomllib.loads(file.read_text("utf-8")))


def in_words(notice: str) -> str:
    """A notice of `core` in the language of the screen; an unknown one stays as it is. Not clean."""
    from core.status_messages import translated  # the first frame does without

    return translated(notice, _)
