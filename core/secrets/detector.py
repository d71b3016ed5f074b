"""Detector: what looks like a secret that nobody named, out of everything that comes into a conversation.

What is found once is known from then on, so it is masked in streams and in other forms, too. The user is told of each
once, by its kind, and may have kinds shown. Pure, but for what it has found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from core.secrets.masker import PLACEHOLDER, Masker, mask_leaves
from core.secrets.shapes import certain

MASKED = "STATUS$SECRET_MASKED"
"""Id of the notice."""
TOLD = "This looks like {kind}: masked. If it is none, have this kind shown: handloom secrets allow '{kind}'"
CALLED = "a value called"

Tell = Callable[[str], None]


def family(kind: str) -> str:
    """A kind as the user allows it: those that are told by the name beside a value are one."""
    return "a value beside a name" if kind.startswith(CALLED) else kind


class Detector:
    """Of all conversations of one process; `allowed` are the kinds that the user wants shown."""

    def __init__(self, masker: Masker, allowed: Callable[[], Collection[str]]) -> None:
        self._masker = masker
        self._allowed = allowed

    def mask(self, value: Any, tell: Tell, is_field: Callable[[str], bool] = lambda name: False) -> Any:
        """A JSON value without what looks like a secret; the same object where nothing does.

        `tell` is called with a sentence for each secret that was not met before.
        """
        kinds: dict[str, str] = {}

        def masked(text: str) -> str:
            return self._masked(text, kinds)

        result = mask_leaves(value, masked, is_field)
        fresh = {value: kind for value, kind in kinds.items() if not self._masker.knows(value)}
        self._masker.add(fresh)
        for kind in dict.fromkeys(fresh.values()):
            tell(TOLD.format(kind=kind))
        return result

    def _masked(self, text: str, kinds: dict[str, str]) -> str:
        allowed = self._allowed()
        for span in reversed(certain(text)):
            if family(span.kind) not in allowed:
                kinds[text[span.start : span.end]] = family(span.kind)
                text = text[: span.start] + PLACEHOLDER + text[span.end :]
        return text
