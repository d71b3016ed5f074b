"""`handloom export` and `handloom import`.

An export is searched for secrets first; what looks like a secret is exported only if the user agrees, or redacted.
Standard output has only the export, or the id of the imported conversation; notices go to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
from pathlib import Path

from core.environment import home_folder
from core.errors import ExitStatus, UsageError
from core.import_export.exporter import FORMATS
from core.import_export.exporter import export as write
from core.import_export.importer import import_file
from core.import_export.secret_scan import Cleaner, Findings, Patterns, scan
from core.secrets import Redactor, from_environment
from core.store.event_store import EventStore
from core.store.reader import EventReader
from tui.cli.output import answer_to, can_ask, notice, say
from tui.library.cli import home_of

REDACT, WRITE = "redact", "write"
"""The answers are whole words, so that a single key exports nothing."""
LISTED = 20


async def export(options: argparse.Namespace) -> int:
    """Write a conversation. Returns the exit status. Raises HandloomError if nothing was written."""
    wanted = FORMATS[options.format]
    output = None if options.output in (None, Path("-")) else options.output
    if output is None and not wanted.is_text and sys.stdout.isatty():
        raise UsageError(f"The format {wanted.name} cannot be printed to a terminal. Name a file with -o.")
    patterns = Patterns.of(os.environ)
    home, conversation_id = await home_of(home_folder(os.environ), options, options.id)
    async with EventReader(home) as reader:
        findings = await scan(reader, conversation_id, patterns, wanted)
        print_findings(findings)
        redacts = options.mask
        if findings.secrets and not (options.mask or options.allow_secrets):
            answer = await _ask(findings)
            if answer not in (REDACT, WRITE):
                notice("Export cancelled; nothing was written.")
                return ExitStatus.ERROR
            redacts = answer == REDACT
        await write(
            reader,
            conversation_id,
            wanted.name,
            output or sys.stdout.buffer,
            cleaner=Cleaner(patterns) if redacts else None,
            note=notice,
        )
    return ExitStatus.FINISHED


def print_findings(findings: Findings) -> None:
    """Print what was found, secrets first."""
    for finding in findings.all[:LISTED]:
        notice(str(finding).replace("\n", "␊"))
    if (more := len(findings.all) - LISTED + findings.left_out) > 0:
        notice(f"… and {more} more.")
    if findings.pictures:
        notice(f"Exported images that were not searched for secrets: {len(findings.pictures)}.")


async def _ask(findings: Findings) -> str:
    """Ask what to do with secrets. Raises UsageError without a terminal."""
    count = len(findings.secrets)
    what = "A possible secret" if count == 1 else f"{count} possible secrets"
    if not can_ask():
        raise UsageError(
            f"{what} would be exported with this conversation, so nothing was written. "
            "Pass --mask to redact it, or --allow-secrets to export it unredacted."
        )
    how = f"Type {REDACT} to redact it or {WRITE} to export it unredacted. Enter alone cancels: "
    return (await answer_to(f"{what} would be exported. {how}")).lower()


async def import_conversation(options: argparse.Namespace) -> int:
    """Store one conversation. Raises HandloomError if it is refused; then nothing is stored."""
    path = Path(options.path)
    home = home_folder(os.environ)
    gc.disable()  # saves a seventh of the time; nothing here makes reference cycles
    redactor = Redactor(await asyncio.to_thread(from_environment, os.environ))
    async with EventStore(home) as store:
        id, imported = await import_file(store, path, redactor=redactor)
    count = len(imported.envelopes) - imported.fillers
    if options.json:
        text = {"conversation_id": id, "event_count": count, "format": imported.format}
        say(json.dumps({**text, "warnings": imported.warnings}))
        return ExitStatus.FINISHED
    for warning in imported.warnings:
        notice(warning)
    notice(f"{count} events were imported. Replay them with: handloom replay {id}")
    say(id)
    return ExitStatus.FINISHED
