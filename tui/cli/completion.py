"""`handloom completion SHELL`: prints the script with which a shell completes commands and options."""

from __future__ import annotations

import argparse

from core.errors import ExitStatus
from tui.cli.command_line import parser
from tui.cli.output import say


def completion(options: argparse.Namespace) -> int:
    """Print the script for a shell."""
    import shtab

    say(shtab.complete(parser(), shell=options.shell))
    return ExitStatus.FINISHED
