"""Masker: known values, in all forms that `encodings` knows, out of texts, bytes and JSON values at any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from core.secrets.encodings import forms
from core.secrets.finder import Finder

PLACEHOLDER = "<secret_hidden>"
PROTECTED = frozenset({"action", "observation", "agent_state", "confirmation_state", "recall_type", "impl_source"})
"""Fields of events whose values come from our own lists, never from outside. Objects of others may have such names."""
_OUR_DEPTH = 1
"""How deep in an event they are: beside its kind, or in its `args` or `extras`."""
_ERRORS = "surrogatepass"
"""Half a character of a broken text is text, too."""


class Masker:
    """Replaces known secret values. Empty, it gives everything back as it is. It may learn more, and forgets none."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self.finder = Finder(())
        self.add(values)

    def __bool__(self) -> bool:
        return bool(self.finder)

    def add(self, values: Iterable[str]) -> None:
        """Mask these, too, from now on."""
        if fresh := set(values) - self._values:
            self._values |= fresh
            self.finder.add(form for value in fresh for form in forms(value))

    def knows(self, value: str) -> bool:
        """Whether it is one of the values, as it stands."""
        return value in self._values

    @property
    def longest(self) -> int:
        """Bytes of the longest secret in the longest form; 1 where there is none."""
        return self.finder.longest

    def may_mask(self, text: str) -> bool:
        """Whether `mask` could change the value that this JSON text says; False is certain.

        For texts of writers that escape what JSON demands and perhaps what is no ASCII, as `core.events.to_json` does.
        """
        return self.finder.is_in(text.encode("utf-8", _ERRORS))

    def mask_text(self, text: str) -> str:
        """The text without secrets; the same object where there are none."""
        if not self.finder:
            return text
        data = text.encode("utf-8", _ERRORS)
        if not (spans := self.finder.spans(data)):
            return text
        parts, place = [], 0
        for begin, end in spans:
            parts += [data[place:begin], PLACEHOLDER.encode()]
            place = end
        return b"".join([*parts, data[place:]]).decode("utf-8", _ERRORS)

    def mask_bytes(self, data: bytes) -> bytes:
        """Of the same length, with stars where secrets were."""
        return starred(data, self.finder.spans(data)) if self.finder else data

    def mask(self, value: Any, *, is_field: Callable[[str], bool] = lambda name: False) -> Any:
        """A JSON value without secrets; the same object where there are none. Names for which `is_field` stay."""
        return mask_leaves(value, self.mask_text, is_field)


def mask_leaves(value: Any, mask: Callable[[str], str], is_field: Callable[[str], bool], depth: int = 0) -> Any:
    """A JSON value with every text in it masked, but for PROTECTED fields; the same object where nothing changes."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        masked = {
            key if is_field(key) else mask(key): (
                item if is_ours(key, item, depth) else mask_leaves(item, mask, is_field, depth + 1)
            )
            for key, item in value.items()
        }
        same = all(masked.get(key, masked) is item for key, item in value.items())
        return value if same else masked
    if isinstance(value, list | tuple):
        items = [mask_leaves(item, mask, is_field, depth + 1) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def is_ours(key: str, item: Any, depth: int) -> bool:
    """Whether this is a PROTECTED field of an event, so deep in it, and no object of others that is called so."""
    return depth <= _OUR_DEPTH and key in PROTECTED and isinstance(item, str)


def starred(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Stars at these places; the same object where there are none."""
    covered: bytearray | None = None
    for begin, end in spans:
        covered = bytearray(data) if covered is None else covered
        covered[begin:end] = b"*" * (end - begin)
    return data if covered is None else bytes(covered)
