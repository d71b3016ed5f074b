"""The list of checks of `handloom doctor`, and the command, which runs them all at once.

It prints lines or one JSON object after little more than TIME_S, whatever hangs. All text is redacted, including user
names in addresses, and sanitised.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from core.environment import home_folder
from core.errors import ConfigurationError, ExitStatus
from core.secrets import Redactor, from_environment
from core.settings.config import Settings, load
from tui.cli.output import say
from tui.doctor import checks, sandbox_checks
from tui.doctor.checks import Finding, Machine, Mark
from tui.i18n import _
from tui.terminal_io import glyphs
from tui.terminal_io.sanitizer import sanitize_line

TIME_S = 2.0
"""For one check."""
LINE_WIDTH = 400
_GLYPHS = {Mark.OK: "✓", Mark.NOTE: "!", Mark.MISSING: "✕"}
_COLOURS = {Mark.OK: "32", Mark.NOTE: "33", Mark.MISSING: "31"}
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/\s]*@")


class Check(NamedTuple):
    """A row of the table. `name` is for JSON, `title` for people, and `run` blocks."""

    name: str
    title: str
    run: Callable[[Machine], Finding]


CHECKS = (
    Check("version", "Handloom", checks.version),
    Check("settings", _("settings"), checks.settings),
    Check("database", _("database"), checks.database),
    Check("disk", _("disk"), checks.disk),
    Check("model", _("model"), checks.model),
    Check("terminal", _("terminal"), checks.terminal),
    Check("clipboard", _("clipboard"), checks.clipboard),
    Check("walls", _("isolation"), sandbox_checks.isolation),
    Check("engine", _("engine"), sandbox_checks.engine),
    Check("image", _("image"), sandbox_checks.sandbox_image),
    Check("containers", _("containers"), sandbox_checks.containers),
    Check("remote", _("remote server"), sandbox_checks.remote),
    Check("browser", _("browser"), sandbox_checks.browser),
    Check("mcp", _("MCP servers"), checks.servers),
    Check("git", "git", checks.git),
    Check("ripgrep", "ripgrep", checks.ripgrep),
    Check("tmux", "tmux", checks.tmux),
    Check("secrets", _("secrets"), checks.secrets),
)
Report = Mapping[Check, Finding]


async def doctor(options: argparse.Namespace) -> int:
    """`handloom doctor`: the exit status is 1 if the chosen runtime misses something, else 0.

    Ends the process if a check hangs, because its thread cannot be ended.
    """
    if options.cluster:
        from tui.batch.cluster_checks import check_cluster

        return await check_cluster(options.cluster, as_json=options.json)
    machine = _machine(os.environ)
    found = await _run_checks(machine)
    glyphs.use(machine.settings.screen.glyphs, os.environ)
    say(_to_json(found) if options.json else _to_text(found, _is_coloured(machine)))
    missing = any(finding.mark is Mark.MISSING for finding in found.values())
    status = ExitStatus.ERROR if missing else ExitStatus.FINISHED
    if any(finding is _TIMED_OUT for finding in found.values()):
        sys.stdout.flush()
        os._exit(status)
    return status


_TIMED_OUT = Finding(
    Mark.NOTE,
    _("the check timed out"),
    _("Check whether the disk, the container engine or the program that was checked hangs."),
)


def _machine(environ: Mapping[str, str]) -> Machine:
    home, error_text = home_folder(environ), ""
    try:
        settings = load(home, environ)
    except ConfigurationError as error:
        settings, error_text = Settings(), str(error)
    return Machine(environ, home, Path.cwd(), settings, error_text, sys.stdin.isatty() and sys.stdout.isatty())


async def _run_checks(machine: Machine) -> Report:
    redactor = Redactor(from_environment(machine.environ))

    loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor(len(CHECKS))

    async def run(check: Check) -> Finding:
        try:
            async with asyncio.timeout(TIME_S):
                finding = await loop.run_in_executor(threads, check.run, machine)
        except TimeoutError:
            return _TIMED_OUT
        except Exception as error:  # noqa: BLE001  # boundary: a failed check is one line of the report
            what = _("the check failed: {error}").format(error=repr(error))
            finding = Finding(Mark.NOTE, what, _("Please report this. The other checks are not affected."))
        clean = [
            sanitize_line(redactor.redact_text(_USER_IN_ADDRESS.sub("", text)), LINE_WIDTH)
            for text in (finding.found, finding.advice)
        ]
        return Finding(finding.mark, *clean)

    try:
        return dict(zip(CHECKS, await asyncio.gather(*map(run, CHECKS)), strict=True))
    finally:
        threads.shutdown(wait=False)


def _is_coloured(machine: Machine) -> bool:
    return machine.on_terminal and not machine.environ.get("NO_COLOR") and machine.environ.get("TERM") != "dumb"


def _to_text(found: Report, is_coloured: bool) -> str:
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


def _to_json(found: Report) -> str:
    checks = [
        {"name": check.name, "mark": finding.mark, "found": finding.found, "advice": finding.advice}
        for check, finding in found.items()
    ]
    return json.dumps({"ok": all(check["mark"] != Mark.MISSING for check in checks), "checks": checks})
