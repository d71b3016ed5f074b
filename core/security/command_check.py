"""What the guard would say of a sequence of commands of one shell, without carrying any of them out.

Used by `handloom permissions check` and by the tests of the guard. Several commands are judged one after the other,
each with what the ones before it did to the shell.
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
"""Of one sequence."""
_ORDER = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
_KEYS = frozenset(["commands", "steps", "command", "mode", "rules", "workspace", "home", "class", "name", "today"])


@dataclass(frozen=True, slots=True)
class Checked:
    """What is said of one command."""

    command: str
    verdict: str
    rule: str
    reasons: tuple[str, ...]
    not_understood: tuple[str, ...]
    risk: str


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be checked."""

    commands: tuple[str, ...]
    mode: ConfirmMode = ConfirmMode.RISKY
    rules: tuple[Rule, ...] | None = None
    """Instead of the user's own policy and permissions; None is those."""
    workspace: str = ""
    home: str = ""


def request_of(entry: Any) -> Request:
    """Read a request: `{"commands": [...], "mode": ..., "rules": {"deny": [...]}}`. Raises UsageError.

    `steps` and `command` are other names of `commands`. `workspace` and `home` are folders; what else the corpora of
    commands have (`class`, `name`, `today`) is passed over.
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
    """What is said of a sequence."""

    judgement: Judgement
    """The strictest one."""
    commands: tuple[Checked, ...]
    denying: Rule | Permission | None = None
    """The rule of that judgement, if it denies."""
    status: Status | None = None
    """How a sandbox enforces that rule."""


async def check(request: Request, *, home: Path, folder: str, user_home: str) -> Answer:
    """Judge a sequence.

    `home` holds the user's policy, `folder` is the workspace where the request names none.
    """
    workspace = request.workspace or folder
    shell = Shell((workspace,))

    async def known(action: Action) -> Shell:
        return shell

    guard = Guard(
        home=home, folder=workspace, workspace=lambda: workspace, mode=request.mode, only_reads=lambda action: False,
        shell=known, user_home=request.home or user_home, rules=request.rules,
    )  # fmt: skip
    judged, told = list[Judgement](), list[Checked]()
    for command in request.commands:
        action = CmdRunAction(command=command)
        found = await guard.judge(action)
        facts = _facts(action, workspace, shell)
        judged.append(found)
        told.append(Checked(command, found.verdict, found.rule, found.reasons, facts.not_understood, found.risk.name))
        shell = facts.shell
    strictest = max(judged, key=lambda one: _ORDER[one.verdict])
    denying, how = await asyncio.to_thread(_denying, guard, strictest)
    return Answer(strictest, tuple(told), denying, how)


def _denying(guard: Guard, judged: Judgement) -> tuple[Rule | Permission | None, Status | None]:
    """The rule of a judgement, if it denies, and how a sandbox enforces it."""
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
