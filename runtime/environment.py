"""The environment of a sandbox: the user's, without what looks like a secret.

A model's commands can print their environment, and what they print goes to the model. So no variable passes
whose name says that it holds a key, a token or a password. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"(^|_)(API_?KEYS?|ACCESS_KEY(_ID)?|SECRET_KEY|PRIVATE_KEY|KEY|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE"
    r"|CREDENTIALS?|PAT|COOKIE)$|PASSWORD$|APIKEY$",
    re.IGNORECASE,
)


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names do not say that they are secret."""
    return {name: value for name, value in environ.items() if not _SECRET.search(name)}
