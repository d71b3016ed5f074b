"""Which names say that what is called so is a secret. Pure; loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping

MIN_LENGTH = 8
"""Shorter values are never patterns: masking `18` or `true` would destroy ordinary text."""
_SECRET_NAME = re.compile(
    r"(^|_)(API_?KEYS?|ACCESS_KEY(_ID)?|SECRET_KEY|PRIVATE_KEY|KEY|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE"
    r"|CREDENTIALS?|PAT|COOKIE)(_\d+)?$|PASSWORD$|APIKEY$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether an environment variable's name says that it holds a key, a token or a password."""
    return _SECRET_NAME.search(name) is not None


def from_environment(environ: Mapping[str, str]) -> list[str]:
    """The values of the variables whose names say that they are secret, as far as they are long enough to mask."""
    return [value for name, value in environ.items() if is_secret_name(name) and len(value) >= MIN_LENGTH]
