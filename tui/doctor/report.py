"""Runs the checks, all at once, and tells what they found, as lines or as one JSON object.

The report is there within TIME_S and a little, whatever hangs. Secrets and the user's part of addresses are removed
from each line, and each line is sanitised.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.cells import cell_len, set_cell_size

from core.errors import ConfigurationError, ExitStatus
from core.home import home_folder
from core.secrets import Redactor, from_environment
from core.settings.config import Settings, load
from tui.cli.output import say
from tui.doctor.checks import CHECKS, Check
from tui.doctor.finding import Finding, Mark, Patient
from tui.i18n import _
from tui.terminal_io import glyphs
from tui.terminal_io.sanitizer import sanitize_line

TIME_S = 2.0
"""For one check."""
LINE_WIDTH = 400
_GLYPHS = {Mark.OK: "✓", Mark.NOTE: "!", Mark.MISSING: "✕"}
_COLOURS = {Mark.OK: "32", Mark.NOTE: "33", Mark.MISSING: "31"}
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/\s]*@")
Found = Mapping[Check, Finding]


async def doctor(options: argparse.Namespace) -> int:
    """`handloom doctor`: the answer is 1 where something is missing that the chosen runtime needs, else 0.

    Ends the process by itself where a check hangs in the system, for its thread could be waited for for ever.
    """
    patient = _patient(os.environ)
    found = await _look(patient)
    glyphs.use(patient.settings.screen.glyphs, os.environ)
    say(_to_json(found) if options.json else _to_text(found, _is_coloured(patient)))
    missing = any(finding.mark is Mark.MISSING for finding in found.values())
    status = ExitStatus.ERROR if missing else ExitStatus.FINISHED
    if any(finding is _DID_NOT_END for finding in found.values()):
        sys.stdout.flush()
        os._exit(status)
    return status


_DID_NOT_END = Finding(
    Mark.NOTE,
    _("the check timed out"),
    _("Check whether the disk, the container engine or the program that was checked hangs."),
)


def _patient(environ: Mapping[str, str]) -> Patient:
    home, trouble = home_folder(environ), ""
    try:
        settings = load(home, environ)
    except ConfigurationError as error:
        settings, trouble = Settings(), str(error)
    return Patient(environ, home, Path.cwd(), settings, trouble, sys.stdin.isatty() and sys.stdout.isatty())


async def _look(patient: Patient) -> Found:
    redactor = Redactor(from_environment(patient.environ))

    loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor(len(CHECKS))

    async def look(check: Check) -> Finding:
        try:
            async with asyncio.timeout(TIME_S):
                finding = await loop.run_in_executor(threads, check.look, patient)
        except TimeoutError:
            return _DID_NOT_END
        except Exception as error:  # noqa: BLE001  # boundary: a check that fails is one line, beside all the others
            what = _("the check failed: {error}").format(error=repr(error))
            finding = Finding(Mark.NOTE, what, _("Please report this. The other checks are not affected."))
        clean = [
            sanitize_line(redactor.redact_text(_USER_IN_ADDRESS.sub("", text)), LINE_WIDTH)
            for text in (finding.found, finding.advice)
        ]
        return Finding(finding.mark, *clean)

    try:
        return dict(zip(CHECKS, await asyncio.gather(*map(look, CHECKS)), strict=True))
    finally:
        threads.shutdown(wait=False)


def _is_coloured(patient: Patient) -> bool:
    return patient.on_terminal and not patient.environ.get("NO_COLOR") and patient.environ.get("TERM") != "dumb"


def _to_text(found: Found, is_coloured: bool) -> str:
    width = max(cell_len(check.title) for check in found)
    lines = []
    for check, finding in found.items():
        mark = _GLYPHS[finding.mark]
        shown = f"\x1b[{_COLOURS[finding.mark]}m{mark}\x1b[0m" if is_coloured else mark
        lines.append(f"{shown} {set_cell_size(check.title, width)}  {finding.found}")
        if finding.advice:
            lines.append(f"  {' ' * width}  {finding.advice}")
    text = "\n".join([*lines, "", _verdict(list(found.values()))])
    return glyphs.in_ascii(text, strict=glyphs.GLYPHS.strict) if glyphs.GLYPHS.ascii else text


def _verdict(findings: Sequence[Finding]) -> str:
    missing = sum(finding.mark is Mark.MISSING for finding in findings)
    if missing:
        return _(
            "Missing requirements: {count}. Handloom cannot work with the current settings until they are met."
        ).format(count=missing)
    return _("All requirements of the current settings are met.")


def _to_json(found: Found) -> str:
    checks = [
        {"name": check.name, "mark": finding.mark, "found": finding.found, "advice": finding.advice}
        for check, finding in found.items()
    ]
    return json.dumps({"ok": all(check["mark"] != Mark.MISSING for check in checks), "checks": checks})
