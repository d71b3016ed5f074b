"""`handloom trust`: list trusted folders, trust one, and revoke trust.

All files are shown before the user is asked. They are untrusted and sanitized.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

from core.environment import home_folder
from core.errors import ConfigurationError, ExitStatus, UsageError
from core.memory.library import UserFolders
from core.settings.config import load
from core.trust.folder_trust import FolderTrust
from core.trust.trust_store import TrustPolicy, TrustState
from tui.cli.output import can_ask, is_confirmed, notice, say
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line

WIDTH = 400
"""Maximum characters of a line."""


def trust(options: argparse.Namespace) -> int:
    """Carry out one step. Raises UsageError, ConfigurationError."""
    home = home_folder(os.environ)
    settings = load(home, os.environ)
    folder_trust = FolderTrust(
        home, UserFolders.of(home, os.environ), TrustPolicy(home, lambda: settings.trust.projects)
    )
    match options.step:
        case "list":
            return _list(folder_trust, as_json=options.json)
        case "revoke":
            return asyncio.run(_revoke(folder_trust, options.folder))
        case _:
            if not Path(_absolute(options.folder)).is_dir():
                text = _("{folder} does not exist. Name the folder to trust.")
                raise UsageError(text.format(folder=_absolute(options.folder)))
            return asyncio.run(_give(folder_trust, options.folder, is_sure=options.yes))


def _list(folder_trust: FolderTrust, *, as_json: bool) -> int:
    folders = folder_trust.folders()
    if not folders and not as_json:
        notice(_("No folder is trusted. Review and trust one with: handloom trust give FOLDER"))
    for folder, files in folders.items():
        line = json.dumps({"folder": folder, "files": files}) if as_json else sanitize_line(f"{folder}  {files}", WIDTH)
        say(line)
    return ExitStatus.FINISHED


async def _revoke(folder_trust: FolderTrust, folder: str) -> int:
    if not await folder_trust.revoke(_absolute(folder)):
        notice(_("The folder was not trusted."))
        return ExitStatus.FINISHED
    notice(_("The folder is no longer trusted. Open conversations apply this from their next message."))
    return ExitStatus.FINISHED


async def _give(folder_trust: FolderTrust, folder: str, *, is_sure: bool) -> int:
    absolute = _absolute(folder)
    state = await folder_trust.state_of(absolute)
    for problem in state.survey.problems:
        notice(sanitize_line(problem, WIDTH))
    if not state.waiting:
        notice(_("Nothing in this folder needs approval."))
        return ExitStatus.FINISHED
    _show(state)
    if not is_sure and not await asyncio.to_thread(_agrees):
        notice(_("The folder is not trusted."))
        return ExitStatus.INTERRUPTED
    await folder_trust.approve(absolute, state)
    notice(_("The folder is trusted until these files change."))
    return ExitStatus.FINISHED


def _show(state: TrustState) -> None:
    for piece in state.waiting:
        say(sanitize_line(f"== {piece.path} ({piece.kind})", WIDTH))
        say(sanitize(piece.text))


def _agrees() -> bool:
    """Whether the user agrees at the terminal. Raises ConfigurationError without a terminal."""
    if not can_ask():
        raise ConfigurationError("This command asks for confirmation. Run it in a terminal, or pass --yes.")
    return is_confirmed(_("Trust this folder and all files shown above?"))


def _absolute(folder: str) -> str:
    return str(Path(folder).expanduser().absolute())
