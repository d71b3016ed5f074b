"""`handloom permissions`: what was allowed or denied for good, and taking it back.

Those of one conversation are events of its log, and are taken back in the workspace.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from core.errors import UsageError
from core.home import home_folder
from core.security.checking import Checked, Request, as_json, check, mode_of, request_of
from core.security.judgement import Judgement, Verdict
from core.security.permissions import PermissionFile
from tui.cli.lines import say
from tui.display.text import sanitize, sanitize_line

PATTERN_CELLS = 60
MAX_LINE_BYTES = 4 * 1024 * 1024
"""Of a request on standard input."""
_STATUS = {Verdict.ALLOW: 0, Verdict.ASK: 3, Verdict.DENY: 4}


def permissions(options: argparse.Namespace) -> int:
    """List, revoke or check. Raises HandloomError."""
    if options.step == "check":
        return _check(options)
    file = PermissionFile(home_folder(os.environ))
    if options.step == "revoke":
        file.revoke(options.ids)
        return 0
    for permission in file.read():
        if options.json:
            say(json.dumps(asdict(permission) | {"pattern": str(permission.pattern)}))
            continue
        place = permission.folder or permission.scope
        pattern = sanitize_line(str(permission.pattern), PATTERN_CELLS)
        say(sanitize(f"{permission.id}  {permission.verdict:<5}  {pattern}  {place}  {permission.at}"))
    return 0


def _check(options: argparse.Namespace) -> int:
    """Judge commands. Raises UsageError."""
    if options.json and options.commands == ["-"]:
        return _check_lines()
    judged, told = _judged(Request(tuple(options.commands), mode_of(options.mode)))
    if options.json:
        say(json.dumps(as_json(judged, told)))
    else:
        _tell(judged, told)
    return _STATUS[judged.verdict]


def _check_lines() -> int:
    for number, line in enumerate(iter(lambda: sys.stdin.buffer.readline(MAX_LINE_BYTES), b""), 1):
        if not line.strip():
            continue
        try:
            request = request_of(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"Line {number} is not JSON: {error}.") from None
        except UsageError as error:
            raise UsageError(f"Line {number}: {error}") from None
        say(json.dumps(as_json(*_judged(request))))
    return 0


def _judged(request: Request) -> tuple[Judgement, tuple[Checked, ...]]:
    home = os.environ.get("HOME") or str(Path.home())
    return asyncio.run(check(request, home=home_folder(os.environ), folder=os.getcwd(), user_home=home))


def _tell(judged: Judgement, told: tuple[Checked, ...]) -> None:
    say(sanitize(f"{judged.verdict}: {judged.rule}"))
    for one in told:
        if len(told) > 1:
            say(sanitize(f"  {sanitize_line(one.command, PATTERN_CELLS)}: {one.verdict} ({one.rule})"))
        for text in one.reasons:
            say(sanitize(f"    {text}"))
        for text in one.not_understood:
            say(sanitize(f"    not understood: {text}"))
