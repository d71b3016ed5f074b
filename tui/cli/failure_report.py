"""Reports of unhandled exceptions, without values of variables and without secrets. Imports what it needs only then."""

from __future__ import annotations

import sys
from types import TracebackType


def report_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A `sys.excepthook`."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        sys.stderr.write(redact_environment(traceback_text(error)))


def traceback_text(error: BaseException) -> str:
    """The traceback as Python prints it, without values of variables."""
    import traceback

    return "".join(traceback.format_exception(error))


def redact_environment(text: str) -> str:
    """Remove the secrets of the environment, and what looks like a secret."""
    import os

    from core.secrets import Redactor, from_environment
    from core.secrets.redactor import without_secrets

    return without_secrets(text, Redactor(from_environment(os.environ)))
