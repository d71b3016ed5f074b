"""The exit status of a command that runs without a screen. Imports nothing: most commands need no more than this."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """How a command ends."""

    FINISHED = 0
    ERROR = 1
    """The agent, the model, the sandbox or the disk failed."""
    USAGE = 2
    """The command line or the configuration is wrong."""
    STUCK = 3
    LIMIT = 4
    INTERRUPTED = 130
