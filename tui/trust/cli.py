"""`handloom trust`: which folders the user trusts, a yes to one, and the way back.

What a yes is given to is shown whole first. All of it is foreign and shown clean.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

from core.conversations.folder_trust import FolderTrust
from core.errors import ConfigurationError, ExitStatus, UsageError
from core.home import home_folder
from core.memory.library import Own
from core.settings.config import load
from core.trust.trust_store import Gate, Standing
from tui.cli.output import can_ask, is_confirmed, notice, say
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line

WIDTH = 400
"""Characters of a line: what comes from files is bounded."""


def trust(options: argparse.Namespace) -> int:
    """List, give or revoke. Raises UsageError, ConfigurationError."""
    home = home_folder(os.environ)
    settings = load(home, os.environ)
    trusting = FolderTrust(home, Own.of(home, os.environ), Gate(home, lambda: settings.trust.projects))
    match options.step:
        case "list":
            return _list(trusting, as_json=options.json)
        case "revoke":
            return asyncio.run(_revoke(trusting, options.folder))
        case _:
            if not Path(_absolute(options.folder)).is_dir():
                text = _("There is no folder {folder}. Name the one that you want to trust.")
                raise UsageError(text.format(folder=_absolute(options.folder)))
            return asyncio.run(_give(trusting, options.folder, is_sure=options.yes))


def _list(trusting: FolderTrust, *, as_json: bool) -> int:
    folders = trusting.folders()
    if not folders and not as_json:
        notice(_("No folder is trusted. To read what one brings, and say yes: handloom trust give FOLDER"))
    for folder, files in folders.items():
        line = json.dumps({"folder": folder, "files": files}) if as_json else sanitize_line(f"{folder}  {files}", WIDTH)
        say(line)
    return ExitStatus.FINISHED


async def _revoke(trusting: FolderTrust, folder: str) -> int:
    if not await trusting.revoke(_absolute(folder)):
        notice(_("It was not trusted."))
        return ExitStatus.FINISHED
    notice(_("It is not trusted any more. Conversations that are open learn of it with their next message."))
    return ExitStatus.FINISHED


async def _give(trusting: FolderTrust, folder: str, *, is_sure: bool) -> int:
    absolute = _absolute(folder)
    standing = await trusting.look(absolute)
    for problem in standing.survey.problems:
        notice(sanitize_line(problem, WIDTH))
    if not standing.waiting:
        notice(_("There is nothing here that waits for a yes."))
        return ExitStatus.FINISHED
    _show(standing)
    if not is_sure and not await asyncio.to_thread(_agrees):
        notice(_("It is not trusted."))
        return ExitStatus.INTERRUPTED
    await trusting.give(absolute, standing)
    notice(_("It is trusted, as long as these files stay as they are."))
    return ExitStatus.FINISHED


def _show(standing: Standing) -> None:
    for piece in standing.waiting:
        say(sanitize_line(f"== {piece.path} ({piece.kind})", WIDTH))
        say(sanitize(piece.text))


def _agrees() -> bool:
    """Whether the user agrees at the terminal. Raises ConfigurationError without a terminal."""
    if not can_ask():
        raise ConfigurationError("Whether you trust this is asked in a terminal. Run this in one, or give --yes.")
    return is_confirmed(_("Trust this folder, with all that is shown above?"))


def _absolute(folder: str) -> str:
    return str(Path(folder).expanduser().absolute())
