"""`handloom export`: a conversation leaves as a file or on standard output, after it was looked through for secrets.

Standard output carries the export and nothing else; findings and problems go to standard
error. What looks like a secret is exported only if the user agrees, or redacted.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from core.errors import ExitStatus, UsageError
from core.home import home_folder
from core.import_export.exporter import export as write
from core.import_export.formats import FORMATS
from core.import_export.secret_scan import Cleaner, Findings, Patterns, look_through
from core.store.reader import EventReader
from tui.cli.output import answer_to, can_ask, notice

REDACT, WRITE = "redact", "write"
"""What a question is answered with: whole words, so that no letter lets anything leave."""
LISTED = 20
"""Findings that are listed one by one."""


async def export(options: argparse.Namespace) -> int:
    """Write a conversation; the exit status. Raises HandloomError where nothing was written."""
    wanted = FORMATS[options.format]
    output = None if options.output in (None, Path("-")) else options.output
    if output is None and not wanted.is_text and sys.stdout.isatty():
        raise UsageError(f"The format {wanted.name} cannot be printed to a terminal. Name a file with -o.")
    patterns = Patterns.of(os.environ)
    async with EventReader(home_folder(os.environ)) as reader:
        conversation_id = await reader.listing.resolve(options.id)
        findings = await look_through(reader, conversation_id, patterns, wanted)
        tell(findings)
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


def tell(findings: Findings) -> None:
    """Show what was found, secrets first."""
    for finding in findings.all[:LISTED]:
        notice(str(finding).replace("\n", "␊"))
    if (more := len(findings.all) - LISTED + findings.left_out) > 0:
        notice(f"… and {more} more.")
    if findings.pictures:
        notice(f"Exported images that were not searched for secrets: {len(findings.pictures)}.")


async def _ask(findings: Findings) -> str:
    """`redact`, `write` or anything else. Raises UsageError without a terminal."""
    count = len(findings.secrets)
    what = "A possible secret" if count == 1 else f"{count} possible secrets"
    if not can_ask():
        raise UsageError(
            f"{what} would be exported with this conversation, so nothing was written. "
            "Pass --mask to redact it, or --allow-secrets to export it unredacted."
        )
    how = f"Type {REDACT} to redact it or {WRITE} to export it unredacted. Enter alone cancels: "
    return (await answer_to(f"{what} would be exported. {how}")).lower()
