"""`handloom trust`: which folders the user trusts, a yes to one, and the way back.

What a yes is given to is shown whole first. All of it is foreign and shown clean.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

from core.errors import ConfigurationError, ExitStatus, UsageError
from core.home import home_folder
from core.memory.library import UserFolders
from core.settings.config import load
from core.trust.folder_trust import FolderTrust
from core.trust.trust_store import TrustPolicy, TrustState
from tui.cli.output import can_ask, is_confirmed, notice, say
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line

WIDTH = 400
"""Characters of a line: what comes from files is bounded."""


def trust(options: argparse.Namespace) -> int:
    """List, give or revoke. Raises UsageError, ConfigurationError."""
    home = home_folder(os.environ)
    settings = load(home, os.environ)
    trusting = FolderTrust(home, UserFolders.of(home, os.environ), TrustPolicy(home, lambda: settings.trust.projects))
    match options.step:
        case "list":
            return _list(trusting, as_json=options.json)
        case "revoke":
            return asyncio.run(_revoke(trusting, options.folder))
        case _:
            if not Path(_absolute(options.folder)).is_dir():
                text = _("{folder} does not exist. Name the folder to trust.")
                raise UsageError(text.format(folder=_absolute(options.folder)))
            return asyncio.run(_give(trusting, options.folder, is_sure=options.yes))


def _list(trusting: FolderTrust, *, as_json: bool) -> int:
    folders = trusting.folders()
    if not folders and not as_json:
        notice(_("No folder is trusted. Review and trust one with: handloom trust give FOLDER"))
    for folder, files in folders.items():
        line = json.dumps({"folder": folder, "files": files}) if as_json else sanitize_line(f"{folder}  {files}", WIDTH)
        say(line)
    return ExitStatus.FINISHED


async def _revoke(trusting: FolderTrust, folder: str) -> int:
    if not await trusting.revoke(_absolute(folder)):
        notice(_("The folder was not trusted."))
        return ExitStatus.FINISHED
    notice(_("The folder is no longer trusted. Open conversations apply this from their next message."))
    return ExitStatus.FINISHED


async def _give(trusting: FolderTrust, folder: str, *, is_sure: bool) -> int:
    absolute = _absolute(folder)
    standing = await trusting.look(absolute)
    for problem in standing.survey.problems:
        notice(sanitize_line(problem, WIDTH))
    if not standing.waiting:
        notice(_("Nothing in this folder needs approval."))
        return ExitStatus.FINISHED
    _show(standing)
    if not is_sure and not await asyncio.to_thread(_agrees):
        notice(_("The folder is not trusted."))
        return ExitStatus.INTERRUPTED
    await trusting.give(absolute, standing)
    notice(_("The folder is trusted until these files change."))
    return ExitStatus.FINISHED


def _show(standing: TrustState) -> None:
    for piece in standing.waiting:
        say(sanitize_line(f"== {piece.path} ({piece.kind})", WIDTH))
        say(sanitize(piece.text))


def _agrees() -> bool:
    """Whether the user agrees at the terminal. Raises ConfigurationError without a terminal."""
    if not can_ask():
        raise ConfigurationError("This command asks for confirmation. Run it in a terminal, or pass --yes.")
    return is_confirmed(_("Trust this folder and all files shown above?"))


def _absolute(folder: str) -> str:
    return str(Path(folder).expanduser().absolute())
