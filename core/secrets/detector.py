"""Detector: what looks like a secret that nobody named, out of everything that comes into a conversation.

What is found once is known from then on, so it is masked in streams and in other forms, too. Each conversation is told
of each value once (`Told`), by its kind, and the user may have kinds shown. Pure, but for what it has found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from core.secrets.redactor import PLACEHOLDER, Masker, mask_leaves
from core.secrets.token_patterns import certain

TOLD = "This looks like {kind}: masked{often}. If it is none, have this kind shown: handloom secrets allow '{kind}'"
CALLED = "a value called"


def family(kind: str) -> str:
    """A kind as the user allows it: those that are told by the name beside a value are one."""
    return "a value beside a name" if kind.startswith(CALLED) else kind


def sentence(kind: str, count: int) -> str:
    """What is told of so many different values of a kind."""
    return TOLD.format(kind=kind, often=f" ({count} of them)" if count > 1 else "")


class Told:
    """What one conversation was told of. Of another one of the same values it is told again."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def fresh(self, found: Mapping[str, str]) -> Counter[str]:
        """By kind, how many values of these (by value, their kinds) are to be told; they are told with that."""
        fresh = {value: kind for value, kind in found.items() if value not in self._values}
        self._values.update(fresh)
        return Counter(fresh.values())


class Detector:
    """Of all conversations of one process; `allowed` are the kinds that the user wants shown."""

    def __init__(self, masker: Masker, allowed: Callable[[], Collection[str]]) -> None:
        self._masker = masker
        self._allowed = allowed
        self._found: set[str] = set()
        """The values that the masker knows from here."""

    def mask(self, value: Any, is_field: Callable[[str], bool] = lambda name: False) -> tuple[Any, Mapping[str, str]]:
        """A JSON value without what looks like a secret; the same object where nothing does.

        And what was found, by value its kind, but for what was known from elsewhere.
        """
        kinds: dict[str, str] = {}

        def masked(text: str) -> str:
            return self._masked(text, kinds)

        result = mask_leaves(value, masked, is_field)
        found = {value: kind for value, kind in kinds.items() if value in self._found or not self._masker.knows(value)}
        self._found.update(found)
        self._masker.add(found)
        return result, found

    def _masked(self, text: str, kinds: dict[str, str]) -> str:
        allowed = self._allowed()
        for span in reversed(certain(text)):
            if family(span.kind) not in allowed:
                kinds[text[span.start : span.end]] = family(span.kind)
                text = text[: span.start] + PLACEHOLDER + text[span.end :]
        return text
