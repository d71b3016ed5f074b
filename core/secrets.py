"""Secrets stay out of what is stored, shown and sent on: the masking of known values.

A value is replaced wherever it stands, at any depth, in keys of free-form objects too. Values under 8 characters are
never patterns: masking `18` or `true` would destroy ordinary text. Pure; loads nothing, so that the
sandbox's launcher and the model host can use it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

PLACEHOLDER = "<secret_hidden>"
MIN_LENGTH = 8
_SECRET_NAME = re.compile(
    r"(^|_)(API_?KEYS?|ACCESS_KEY(_ID)?|SECRET_KEY|PRIVATE_KEY|KEY|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE"
    r"|CREDENTIALS?|PAT|COOKIE)(_\d+)?$|PASSWORD$|APIKEY$",
    re.IGNORECASE,
)

PROTECTED = frozenset({"action", "observation", "agent_state", "confirmation_state", "recall_type", "impl_source"})
"""Fields whose values come from our own lists, never from outside."""


def is_secret_name(name: str) -> bool:
    """Whether an environment variable's name says that it holds a key, a token or a password."""
    return _SECRET_NAME.search(name) is not None


def from_environment(environ: Mapping[str, str]) -> list[str]:
    """The values of the variables whose names say that they are secret, as far as they are long enough to mask."""
    return [value for name, value in environ.items() if is_secret_name(name) and len(value) >= MIN_LENGTH]


class Masker:
    """Replaces known secret values. Empty, it gives everything back as it is."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        longest_first = sorted({value for value in values if len(value) >= MIN_LENGTH}, key=len, reverse=True)
        self._find = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

        self._find_bytes = (
            re.compile(b"|".join(re.escape(value.encode(errors="replace")) for value in longest_first))
            if longest_first
            else None
        )
        written = {json.dumps(value, ensure_ascii=ascii)[1:-1] for value in longest_first for ascii in (True, False)}
        self._find_json = re.compile("|".join(map(re.escape, sorted(written)))) if written else None
        self.longest = max((len(value.encode(errors="replace")) for value in longest_first), default=1)
        """Bytes of the longest secret; 1 where there is none."""

    def __bool__(self) -> bool:
        return self._find is not None

    def may_mask(self, text: str) -> bool:
        """Whether `mask` could change the value that this JSON text says; False is certain.

        For texts of writers that escape what JSON demands and perhaps what is no ASCII, as `core.events.to_json` does.
        """
        return self._find_json is not None and self._find_json.search(text) is not None

    def mask_text(self, text: str) -> str:
        """The text without secrets; the same object where there are none."""
        if self._find is None or self._find.search(text) is None:
            return text
        return self._find.sub(PLACEHOLDER, text)

    def mask_bytes(self, data: bytes) -> bytes:
        """Of the same length, with stars where secrets were."""
        if self._find_bytes is None:
            return data
        return self._find_bytes.sub(lambda found: b"*" * len(found[0]), data)

    def mask(self, value: Any, *, is_field: Callable[[str], bool] = lambda name: False) -> Any:
        """A JSON value without secrets; the same object where there are none. Names for which `is_field` stay."""
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, Mapping):
            masked = {
                key if is_field(key) else self.mask_text(key): (
                    item if key in PROTECTED else self.mask(item, is_field=is_field)
                )
                for key, item in value.items()
            }
            same = all(masked.get(key, masked) is item for key, item in value.items())
            return value if same else masked
        if isinstance(value, list | tuple):
            items = [self.mask(item, is_field=is_field) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        return value
