"""Checks how the guard would judge commands of one shell, without running them.

For `handloom permissions check` and the tests of the guard. Each command is judged with the effects of those before it
on the shell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.errors import UsageError
from core.events import Action, CmdRunAction
from core.security.confirmation import ConfirmMode, Judgement, Verdict
from core.security.facts import Facts, facts_of
from core.security.guard import Guard
from core.security.patterns import PatternError, parse
from core.security.permissions import Permission
from core.security.policy import Rule
from core.security.sandbox_rules import Status, status
from core.security.shell.shell_state import Shell

MAX_COMMANDS = 100
"""Limit for one request."""
_ORDER = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
_KEYS = frozenset(["commands", "steps", "command", "mode", "rules", "workspace", "home", "class", "name", "today"])


@dataclass(frozen=True, slots=True)
class CheckedCommand:
    """The result for one command."""

    command: str
    verdict: str
    rule: str
    reasons: tuple[str, ...]
    not_understood: tuple[str, ...]
    risk: str


@dataclass(frozen=True, slots=True)
class Request:
    """Commands to check, with the circumstances."""

    commands: tuple[str, ...]
    mode: ConfirmMode = ConfirmMode.RISKY
    rules: tuple[Rule, ...] | None = None
    """Replace the user's policy and permissions, if given."""
    workspace: str = ""
    home: str = ""


def request_of(entry: Any) -> Request:
    """Parse a request such as `{"commands": [...], "mode": ..., "rules": {"deny": [...]}}`. Raises UsageError.

    `steps` and `command` are aliases of `commands`. The fields `class`, `name` and `today` of the corpora are ignored.
    """
    if not isinstance(entry, Mapping):
        raise UsageError('A request is an object such as {"commands": ["git push"], "mode": "risky"}.')
    if unknown := sorted(set(entry) - _KEYS):
        raise UsageError(
            f"A request has no {str(unknown[0])[:40]!r}. It has commands, mode, rules, workspace and home."
        )
    given = next((entry[key] for key in ("commands", "steps", "command") if key in entry), None)
    commands = [given] if isinstance(given, str) else given
    if not isinstance(commands, list) or not commands or not all(isinstance(one, str) for one in commands):
        raise UsageError("`commands` is a list of texts with at least one of them.")
    if len(commands) > MAX_COMMANDS:
        raise UsageError(f"`commands` has at most {MAX_COMMANDS} texts.")
    folders = [entry.get(key, "") for key in ("workspace", "home")]
    if not all(isinstance(one, str) and (not one or one.startswith("/")) for one in folders):
        raise UsageError("`workspace` and `home` are absolute folders.")
    rules = _rules_of(entry["rules"]) if "rules" in entry else None
    return Request(tuple(commands), mode_of(entry.get("mode", ConfirmMode.RISKY)), rules, folders[0], folders[1])


def mode_of(text: Any) -> ConfirmMode:
    """A mode by its name. Raises UsageError."""
    try:
        return ConfirmMode(text)
    except ValueError:
        raise UsageError(f"There is no mode {str(text)[:40]!r}. Choose one of: {', '.join(ConfirmMode)}.") from None


def _rules_of(entry: Any) -> tuple[Rule, ...]:
    if not isinstance(entry, Mapping):
        raise UsageError('`rules` is an object such as {"deny": ["bash(git push *)"]}.')
    found = list[Rule]()
    for key, patterns in entry.items():
        if key not in set(Verdict) or not isinstance(patterns, list):
            raise UsageError("`rules` has lists of patterns named allow, ask and deny.")
        for number, pattern in enumerate(patterns, 1):
            try:
                found.append(Rule(Verdict(key), parse(str(pattern)), f"rules:{number}"))
            except PatternError as error:
                raise UsageError(str(error)) from None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result for all commands of a request."""

    judgement: Judgement
    """The strictest judgement."""
    commands: tuple[CheckedCommand, ...]
    denying: Rule | Permission | None = None
    """The rule that denies, if any."""
    status: Status | None = None
    """How a sandbox enforces that rule."""


async def check(request: Request, *, home: Path, folder: str, user_home: str) -> Answer:
    """Judge the commands of a request. `home` has the user's policy; `folder` is the default workspace."""
    workspace = request.workspace or folder
    shell = Shell((workspace,))

    async def current(action: Action) -> Shell:
        return shell

    guard = Guard(
        home=home, folder=workspace, workspace=lambda: workspace, mode=request.mode,
        shell=current, user_home=request.home or user_home, rules=request.rules,
    )  # fmt: skip
    judged, checked = list[Judgement](), list[CheckedCommand]()
    for command in request.commands:
        action = CmdRunAction(command=command)
        found = await guard.judge(action)
        facts = _facts(action, workspace, shell)
        judged.append(found)
        checked.append(
            CheckedCommand(command, found.verdict, found.rule, found.reasons, facts.not_understood, found.risk.name)
        )
        shell = facts.shell
    strictest = max(judged, key=lambda one: _ORDER[one.verdict])
    denying, how = await asyncio.to_thread(_deny_rule, guard, strictest)
    return Answer(strictest, tuple(checked), denying, how)


def _deny_rule(guard: Guard, judged: Judgement) -> tuple[Rule | Permission | None, Status | None]:
    """The rule of a judgement if it denies, and how a sandbox enforces it."""
    rule = next((one for one in guard.rules() if one.verdict is Verdict.DENY and str(one) == judged.rule), None)
    return rule, status(rule, guard.folders) if rule is not None else None


def _facts(action: CmdRunAction, workspace: str, shell: Shell) -> Facts:
    return facts_of(action, workspace=workspace, shell=shell)


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer as an object for JSON."""
    unknown = dict.fromkeys(part for one in answer.commands for part in one.not_understood)
    return {
        "verdict": answer.judgement.verdict.value,
        "rule": answer.judgement.rule,
        "reasons": list(answer.judgement.reasons),
        "enforcement": None if answer.status is None else answer.status.enforcement.value,
        "not_understood": list(unknown),
        "commands": [asdict(one) for one in answer.commands],
    }
