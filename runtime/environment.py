"""The environment of a sandbox: the user's, without secrets.

A model's commands can print their environment, and the model sees the output. So variables are dropped whose names say
that they hold a key, a token or a password, and those whose value is an address with a password, except for proxies,
which programs need. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.secrets import is_secret


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hold no secret."""
    return {name: value for name, value in environ.items() if not is_secret(name, value)}
