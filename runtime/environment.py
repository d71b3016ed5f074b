"""The environment of a sandbox: the user's, without what looks like a secret.

A model's commands can print their environment, and what they print goes to the model. So no variable passes
whose name says that it holds a key, a token or a password. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.secrets import is_secret_name


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names do not say that they are secret."""
    return {name: value for name, value in environ.items() if not is_secret_name(name)}
