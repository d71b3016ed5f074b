"""`handloom import FILE|DIR`: a conversation from elsewhere, stored here whole or not at all.

The new id goes to standard output, what is worth knowing about it to standard error. Nothing of it is carried out.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
from pathlib import Path

from core.errors import ExitStatus
from core.home import home_folder
from core.import_export.importer import import_file
from core.secrets import Redactor, from_environment
from core.store.event_store import EventStore
from tui.cli.output import notice, say


async def import_conversation(options: argparse.Namespace) -> int:
    """Store one conversation. Raises HandloomError where it is refused; then the home is as it was."""
    path = Path(options.path)
    home = home_folder(os.environ)
    gc.disable()  # nothing made here is a circle, and this process ends with it: a seventh of the time
    redactor = Redactor(await asyncio.to_thread(from_environment, os.environ))
    async with EventStore(home) as store:
        id, imported = await import_file(store, path, redactor=redactor)
    if options.json:
        text = {"conversation_id": id, "event_count": len(imported.envelopes), "format": imported.format}
        say(json.dumps({**text, "warnings": imported.warnings}))
        return ExitStatus.FINISHED
    for warning in imported.warnings:
        notice(warning)
    notice(f"{len(imported.envelopes)} events were imported. Replay them with: handloom replay {id}")
    say(id)
    return ExitStatus.FINISHED
