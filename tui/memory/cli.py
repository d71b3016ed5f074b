"""`handloom memory`: the facts that the user wants remembered. Blocks for a file."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

from core.environment import home_folder
from core.errors import ExitStatus
from core.memory.saved_facts import Fact, SavedFacts
from tui.cli.output import notice, say
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

WIDTH = 1200
"""Characters of a line: the file may have been written by others."""


def memory(options: argparse.Namespace) -> int:
    """List, add or forget. Raises UsageError, ConfigurationError."""
    pins = SavedFacts(home_folder(os.environ))
    match options.step:
        case "add":
            folder = "" if options.everywhere else str(Path(options.workspace).expanduser().absolute())
            notice(_("Remembered: {fact}").format(fact=sanitize_line(pins.add(options.text, folder).text, WIDTH)))
        case "forget":
            notice(_("Forgotten: {fact}").format(fact=sanitize_line(pins.forget(options.number).text, WIDTH)))
        case _:
            facts = pins.all()
            if not facts and not options.json:
                notice(_("No memories yet. Add one with: handloom memory add 'FACT'"))
            for number, fact in enumerate(facts, 1):
                say(json.dumps({"number": number, **asdict(fact)}) if options.json else _line(number, fact))
    return ExitStatus.FINISHED


def _line(number: int, fact: Fact) -> str:
    return sanitize_line(f"{number:>3}  {fact.text}  ({fact.workspace or _('everywhere')})", WIDTH)
