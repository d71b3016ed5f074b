"""`handloom permissions`: list rules and permissions, revoke permissions, and check commands.

Permissions of one conversation are events of its log, and are revoked in the workspace.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from core.environment import home_folder
from core.errors import UsageError
from core.security.command_check import Answer, Request, as_json, check, mode_of, request_of
from core.security.confirmation import Verdict
from core.security.guard import guard_for_folder
from core.security.patterns import Pattern, WorkFolders
from core.security.permissions import Permission, PermissionFile
from core.security.policy import Rule
from core.security.sandbox_rules import Enforcement, Status, status
from core.settings.config import load
from tui.cli.output import say
from tui.terminal_io.sanitizer import sanitize, sanitize_line

PATTERN_CELLS = 60
MAX_LINE_BYTES = 4 * 1024 * 1024
"""Of a request on standard input."""
_STATUS = {Verdict.ALLOW: 0, Verdict.ASK: 3, Verdict.DENY: 4}


def permissions(options: argparse.Namespace) -> int:
    """List, revoke or check. Raises HandloomError."""
    if options.step == "check":
        return _check(options)
    home = home_folder(os.environ)
    if options.step == "revoke":
        PermissionFile(home).revoke(options.ids)
        return 0
    guard = guard_for_folder(home, os.getcwd(), _user_home())
    guard.refresh()
    for permission in PermissionFile(home).read():
        how = _enforced(permission, WorkFolders(permission.folder or os.getcwd(), _user_home()))
        place = permission.folder or permission.scope
        _list(options, permission.id, permission, how, f"{place}  {permission.at}")
    for rule in guard.rules():
        if isinstance(rule, Rule):
            _list(options, rule.where, rule, _enforced(rule, guard.folders))
    return 0


def _list(options: argparse.Namespace, name: str, rule: Rule | Permission, how: Status | None, more: str = "") -> None:
    if options.json:
        enforcement = {"enforcement": how.enforcement.value, "why": how.why} if how is not None else {}
        say(json.dumps(asdict(rule) | {"pattern": str(rule.pattern)} | enforcement))
        return
    pattern = sanitize_line(str(rule.pattern), PATTERN_CELLS)
    parts = (name, f"{rule.verdict:<5}", pattern, more, how.label if how is not None else "")
    say(sanitize("  ".join(part for part in parts if part)))


def _enforced(rule: Rule | Permission, folders: WorkFolders) -> Status | None:
    """How the configured sandbox enforces a rule here. Raises ConfigurationError."""
    how = status(rule, folders)
    return how if how is None or how.enforcement is Enforcement.READ else _as_set(rule.pattern, how)


def _as_set(pattern: Pattern, how: Status) -> Status:
    """The status, given the configured sandbox."""
    paths, hosts = _sandbox()
    if pattern.tool == "net" and paths and not hosts and pattern.glob != "*":
        return Status(Enforcement.READ, "containers have network access (docker.network).")
    return how if paths else Status(Enforcement.READ, "commands do not run in a sandbox.")


@cache
def _sandbox() -> tuple[bool, bool]:
    """Whether the settings want a sandbox that enforces rules about paths, and about hosts, and there can be one."""
    from tui.runtime_factory import RuntimeFactory

    home = home_folder(os.environ)
    settings = load(home, os.environ)
    runtime = RuntimeFactory(home, lambda: settings, os.environ, spares=False)(os.getcwd())
    is_closed = runtime.isolation not in ("none", "remote") and not runtime.is_elsewhere
    return is_closed, is_closed and (settings.runtime != "docker" or settings.docker.network == "none")


def _user_home() -> str:
    return os.environ.get("HOME") or str(Path.home())


def _check(options: argparse.Namespace) -> int:
    """Judge commands. Raises UsageError."""
    if options.json and options.commands == ["-"]:
        return _check_lines()
    answer = _judged(Request(tuple(options.commands), mode_of(options.mode)))
    if options.json:
        say(json.dumps(as_json(answer)))
    else:
        _tell(answer)
    return _STATUS[answer.judgement.verdict]


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
        say(json.dumps(as_json(_judged(request))))
    return 0


def _judged(request: Request) -> Answer:
    answer = asyncio.run(check(request, home=home_folder(os.environ), folder=os.getcwd(), user_home=_user_home()))
    if answer.denying is None or answer.status is None or answer.status.enforcement is Enforcement.READ:
        return answer
    return replace(answer, status=_as_set(answer.denying.pattern, answer.status))


def _tell(answer: Answer) -> None:
    say(sanitize(f"{answer.judgement.verdict}: {answer.judgement.rule}"))
    if answer.status is not None:
        say(sanitize(f"    {answer.status}"))
    for one in answer.commands:
        if len(answer.commands) > 1:
            say(sanitize(f"  {sanitize_line(one.command, PATTERN_CELLS)}: {one.verdict} ({one.rule})"))
        for text in one.reasons:
            say(sanitize(f"    {text}"))
        for text in one.not_understood:
            say(sanitize(f"    not understood: {text}"))
