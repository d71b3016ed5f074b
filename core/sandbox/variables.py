"""The user's environment variables for the agent's programs, from the settings and from the host's environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core.errors import ConfigurationError
from core.sandbox_types import check_variables

PREFIX = "SANDBOX_ENV_"
"""A variable with this prefix is passed without it, as in OpenHands V0 (`openhands/runtime/base.py`)."""


def sandbox_variables(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables: those with the prefix, and over them `sandbox.environment`. Raises ConfigurationError."""
    prefixed = {name.removeprefix(PREFIX): value for name, value in environ.items() if name.startswith(PREFIX)}
    variables = prefixed | dict(variable("sandbox.environment", text, environ) for text in names)
    try:
        check_variables(variables)
    except ValueError as error:
        raise ConfigurationError(f"sandbox.environment, or {PREFIX}NAME in the environment: {error}.") from error
    return variables


def variable(setting: str, text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return name and value of NAME=VALUE, or of NAME, whose value is in `environ`. Raises ConfigurationError."""
    name, has_value, value = text.partition("=")
    if not name:
        raise ConfigurationError(f"{setting} cannot be {text!r}: write NAME=VALUE, or NAME.")
    if has_value:
        return name, value
    if name not in environ:
        raise ConfigurationError(f"{setting} names {name}, which is not set. Set it, or remove it from the list.")
    return name, environ[name]
