"""What the program says of its own failures: where it failed and why, without values of variables and without secrets.

Used where nothing else is left to catch an exception, so it imports what it needs only then.
"""

from __future__ import annotations

import sys
from types import TracebackType


def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A sys.excepthook."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        sys.stderr.write(redact_environment(trace_of(error)))


def trace_of(error: BaseException) -> str:
    """A traceback as Python writes it: with lines of the program, and with no variable's value."""
    import traceback

    return "".join(traceback.format_exception(error))


def redact_environment(text: str) -> str:
    """A text without the secrets of the environment and what is one by its looks."""
    import os

    from core.secrets import Redactor, from_environment
    from core.secrets.redactor import without_secrets

    return without_secrets(text, Redactor(from_environment(os.environ)))
