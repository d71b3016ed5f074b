"""The environment of a sandbox: the user's, without what looks like a secret.

A model's commands can print their environment, and what they print goes to the model. So no variable passes
whose name says that it holds a key, a token or a password, nor one whose value is an address with a password, but for
proxies, which programs need. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.secrets import is_secret


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold no secret."""
    return {name: value for name, value in environ.items() if not is_secret(name, value)}
