"""Guard: decides whether an action may run, for the workspace, headless runs, editors and delegates.

Order: deny rules, ask rules, rules and permissions that allow, the approval mode. Checks of earlier events can still
ask about an allowed action. A file or a part of an action that is not understood never allows anything. Files are read
again when they change, but rules of a project apply until the conversation closes, because the agent can write them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from core.errors import ConfigurationError
from core.events import Action, ActionSecurityRisk, CmdRunAction, FileEditAction, FileReadAction, FileWriteAction
from core.globs import matches
from core.sandbox_types import Denials
from core.security.confirmation import (
    CHECKS,
    FAILED_CHECK,
    ConfirmMode,
    Judgement,
    Verdict,
    needs_confirmation,
    only_thinks,
)
from core.security.facts import Facts, facts_of
from core.security.patterns import (
    COMMAND_TOOLS,
    CONNECT,
    FILE_TOOLS,
    FOREIGN,
    WorkFolders,
    home_of_user,
    is_autorun_file,
    is_inside,
    leads_through_link,
    may_touch,
    parts_of,
    touches,
    unclear_for,
    uncovered,
)
from core.security.permissions import Permission, PermissionFile
from core.security.policy import POLICY, PROJECT_POLICY, Policy, Rule, Signature, read_policy, signature
from core.security.risk_rules import strictest
from core.security.sandbox_rules import denials
from core.security.shell.shell_state import Shell

log = logging.getLogger(__name__)

Check = Callable[[Action, Facts], Awaitable[Judgement | None]]
"""A further check, which can ask or deny; ALLOW has no effect.

Its question is skipped if a permission was given on such a question, or if a rule of the user covers the action and is
specific. In the mode `never`, only checks count that ask in every mode.
"""
PLANNING = "Nothing is changed before the user has seen a plan. Look at what is there, plan, and say the plan."
PLANNING_NOTE = f"\n\n[The user wants a plan first. {PLANNING}]"
"""Added to messages of the user in the mode PLAN."""
MODE = "mode {mode}"
UNJUDGED = Facts(ActionSecurityRisk.UNKNOWN, opaque=True, sends=True, not_understood=("the action",))
"""The facts of an action that could not be judged."""
RATED = "The model rated this as risky."
CHANGED = (
    "Your deny rules have changed. The running sandbox enforces them after the conversation is opened again. Until "
    "then, only Handloom's own checks apply them."
)


class Guard:
    """Judges the actions of one conversation."""

    def __init__(
        self,
        *,
        home: Path,
        folder: str,
        workspace: Callable[[], str],
        mode: ConfirmMode,
        notice: Callable[[str], None] = lambda text: None,
        checks: Sequence[Check] = (),
        shell: Callable[[Action], Awaitable[Shell]] | None = None,
        user_home: str = "",
        rules: Sequence[Rule] | None = None,
    ) -> None:
        """`folder` is the project on this machine, `workspace` its path in the sandbox.

        `shell` returns the state of the shell before an action, by default a new shell. `rules` replace the files of
        rules and permissions.
        """
        self.mode = mode
        self.file = PermissionFile(home)
        self.conversation_permissions: list[Permission] = []
        """Permissions for this conversation."""
        self.parent: Guard | None = None
        """The guard of the conversation that delegated to this one; its permissions apply here too."""
        self.checks = tuple(checks)
        self.folder = folder
        self._shell = shell
        self._workspace = workspace
        self._notice = notice
        self._user_home = user_home or home_of_user()
        self._user_file, self.project_file = home / POLICY, Path(folder) / PROJECT_POLICY
        self._read: dict[Path, Signature] = {}
        self._user_policy = Policy()
        self._project_policy = Policy()
        self._project_rules: dict[str, Rule] = {}
        self._stored: tuple[Permission, ...] = ()
        self._permissions_broken = ""
        self._reported = ""
        self._enforced: frozenset[str] | None = None
        """The deny rules that the sandbox was started with; None without such a sandbox."""
        self._rules_changed = False
        """Whether the deny rules have changed since then."""
        self._unenforced: tuple[str, ...] = ()
        self._reads_files = rules is None
        if rules is not None:
            self._user_policy = Policy(tuple(rules))

    @property
    def folders(self) -> WorkFolders:
        """The workspace and the user's home folder, to resolve paths."""
        return WorkFolders(self._workspace(), self._user_home)

    async def judge(self, action: Action) -> Judgement:
        """Decide what happens to an action. A check that fails asks."""
        if only_thinks(action):
            return Judgement(Verdict.ALLOW, MODE.format(mode=self.mode))
        facts, found = await self._judge_in_thread(action)
        found = replace(found, risk=(risk := _risk(action, facts)))
        if found.verdict is Verdict.ASK and risk is not facts.risk:
            found = replace(found, reasons=tuple(dict.fromkeys((*found.reasons, RATED))))
        self._report_problems()
        if found.verdict is Verdict.DENY:
            return found
        for check in self.checks:
            if (other := await _run_check(check, action, facts)) is None:
                continue
            if other.verdict is Verdict.DENY:
                return other
            found = replace(found, risk=strictest(found.risk, other.risk))
            counts = other.in_every_mode or self.mode is not ConfirmMode.NEVER
            asks = other.verdict is Verdict.ASK and counts
            if asks and not await asyncio.to_thread(self._is_exempt, action, facts):
                found = _combined(found, other)
        return found

    # -- the rules, in a thread ------------------------------------------------------------------------------------

    async def _judge_in_thread(self, action: Action) -> tuple[Facts, Judgement]:
        """The judgement of the rules; if they fail, it asks."""
        try:
            shell = await self._shell(action) if self._shell is not None else None
            return await asyncio.to_thread(self._analyse_and_judge, action, shell)
        except Exception as error:  # the boundary to what models write: an action must not end the run
            log.exception("judging an action failed")
            why = f"Checking this action failed: {type(error).__name__}: {error}"
            return UNJUDGED, Judgement(Verdict.ASK, FAILED_CHECK, (why[:300],), stays=True)

    def _analyse_and_judge(self, action: Action, shell: Shell | None) -> tuple[Facts, Judgement]:
        self.refresh()
        folders = self.folders
        is_link = partial(self._may_be_link, folders)
        facts = facts_of(action, workspace=folders.workspace, shell=shell, is_link=is_link)
        return facts, self._judge_by_rules(action, facts, folders)

    def _may_be_link(self, folders: WorkFolders, folder: str) -> bool:
        """Whether `..` in a folder may lead elsewhere than its path says. Blocking.

        Links of another machine cannot be looked up; they count if a rule denies files.
        """
        if folders.is_local:
            return leads_through_link(folder, folders)
        denies_files = any(rule.verdict is Verdict.DENY and rule.pattern.tool in FILE_TOOLS for rule in self.rules())
        return denies_files and posixpath.normpath(folder) != posixpath.normpath(folders.workspace)

    def denials(self) -> Denials:
        """The deny rules for a sandbox that is started now. Blocking."""
        self.refresh()
        rules = self.rules()
        found = denials(rules, self.folders)
        self._enforced, self._unenforced = _deny_patterns(rules), found.notes
        return found

    def rules(self) -> tuple[Rule | Permission, ...]:
        """Every rule and permission that applies here, as last read."""
        return (*self._permissions(), *self._project_rules.values(), *self._user_policy.rules)

    def _judge_by_rules(self, action: Action, facts: Facts, folders: WorkFolders) -> Judgement:
        rules = (*self._project_rules.values(), *self._user_policy.rules)
        every = self.rules()
        self._rules_changed = self._enforced is not None and self._enforced != _deny_patterns(every)
        for rule in every:
            if rule.verdict is Verdict.DENY and touches(rule.pattern, action, facts, folders):
                return Judgement(Verdict.DENY, str(rule), facts.reasons)
        if self.mode is ConfirmMode.PLAN and not action.only_reads:
            return Judgement(Verdict.DENY, MODE.format(mode=self.mode), (PLANNING,))
        if broken := self._user_policy.broken or self._project_policy.broken or self._permissions_broken:
            return Judgement(Verdict.ASK, "a broken file", (broken,), stays=True)
        for asking in rules:
            if asking.verdict is Verdict.ASK and touches(asking.pattern, action, facts, folders):
                return Judgement(Verdict.ASK, str(asking), facts.reasons, stays=True)
        for rule in every:
            if rule.verdict is Verdict.DENY and may_touch(rule.pattern, facts, folders):
                why = f"It may affect what {rule.pattern} denies."
                return Judgement(Verdict.ASK, str(rule), (why, *facts.reasons), stays=True)
        denying = [rule for rule in every if rule.verdict is Verdict.DENY]
        for rule in denying:
            if part := unclear_for(rule.pattern, action, facts):
                why = f"Handloom does not understand this part, so {rule.pattern} may apply: {part}"
                return Judgement(Verdict.ASK, str(rule), (why, *facts.reasons), stays=True)
        parts = parts_of(action, facts, folders)
        allowing = [rule for rule in every if rule.verdict is Verdict.ALLOW]
        if allowing and not uncovered([rule.pattern for rule in allowing], parts, folders):
            used = [rule for rule in allowing if len(uncovered([rule.pattern], parts, folders)) < len(parts)]
            return Judgement(Verdict.ALLOW, str(used[0] if used else allowing[0]))
        if self.mode is not ConfirmMode.NEVER and facts.runs_code and isinstance(action, CmdRunAction):
            for rule in denying:
                if rule.pattern.tool in COMMAND_TOOLS:
                    why = f"It runs code that Handloom does not read, so {rule.pattern} may apply."
                    return Judgement(Verdict.ASK, str(rule), (why, *facts.reasons))
        return self._judge_by_mode(action, facts, folders)

    def opened_hosts(self) -> tuple[str, ...]:
        """The hosts that programs in the sandbox may connect to besides those of the settings. Blocking."""
        self.refresh()
        allowed = (rule.pattern for rule in self.rules() if rule.verdict is Verdict.ALLOW)
        return tuple(dict.fromkeys(pattern.glob for pattern in allowed if pattern.tool == CONNECT))

    def trusts_source(self, source: str) -> bool:
        """Whether the user trusts untrusted content from a source: a URL, a path or a tool."""
        patterns = [one.pattern for one in self._permissions() if one.verdict is Verdict.ALLOW]
        patterns += [one.pattern for one in self._user_policy.rules if one.verdict is Verdict.ALLOW]
        return any(pattern.tool == FOREIGN and matches(pattern.glob, source) for pattern in patterns)

    def _is_exempt(self, action: Action, facts: Facts) -> bool:
        """Whether the question of a check is skipped for an action (see Check)."""
        patterns = [one.pattern for one in self._permissions() if one.verdict is Verdict.ALLOW and one.informed]
        patterns += [
            one.pattern for one in self._user_policy.rules if one.verdict is Verdict.ALLOW and one.pattern.is_definite
        ]
        return bool(patterns) and not uncovered(patterns, parts_of(action, facts, self.folders), self.folders)

    def _judge_by_mode(self, action: Action, facts: Facts, folders: WorkFolders) -> Judgement:
        rule = MODE.format(mode=self.mode)
        match self.mode:
            case ConfirmMode.PLAN:
                return Judgement(Verdict.ALLOW, rule)  # what changes something was denied before
            case ConfirmMode.AUTO_EDIT if _only_edits_workspace(action, facts, folders):
                return Judgement(Verdict.ALLOW, rule)
        risk = _risk(action, facts)
        if not needs_confirmation(action, self.mode, risk):
            return Judgement(Verdict.ALLOW, rule)
        reasons = facts.reasons if risk is facts.risk else (RATED, *facts.reasons)
        return Judgement(Verdict.ASK, rule, reasons, stays=bool(facts.not_understood))

    def _permissions(self) -> Iterator[Permission]:
        """Every permission that applies here."""
        guard: Guard | None = self
        while guard is not None:
            yield from guard.conversation_permissions
            guard = guard.parent
        folder = os.path.realpath(self.folder)
        yield from (permission for permission in self._stored if permission.holds_in(folder))

    def refresh(self) -> None:
        """Read the files that have changed on disk. Blocking."""
        if not self._reads_files:
            return
        for file, read in (
            (self._user_file, self._read_user_policy),
            (self.project_file, self._read_project_policy),
            (self.file.path, self._read_permissions),
        ):
            now = signature(file)
            if file not in self._read or self._read[file] != now:
                self._read[file] = now
                read()

    def _report_problems(self) -> None:
        """Report problems of the files, each once."""
        wrong = (
            self._user_policy.broken,
            self._project_policy.broken,
            self._permissions_broken,
            self._project_policy.ignored,
        )
        problems = "\n".join(filter(None, (*wrong, *self._unenforced, CHANGED if self._rules_changed else "")))
        if problems != self._reported:
            self._reported = problems
            self._notice(problems)

    def _read_user_policy(self) -> None:
        self._user_policy = read_policy(self._user_file, name=POLICY)

    def _read_project_policy(self) -> None:
        self._project_policy = read_policy(self.project_file, name=str(PROJECT_POLICY), tightens=True)
        self._project_rules |= {f"{rule.verdict} {rule.pattern}": rule for rule in self._project_policy.rules}

    def _read_permissions(self) -> None:
        try:
            self._stored, self._permissions_broken = self.file.read(), ""
        except ConfigurationError as error:
            self._stored, self._permissions_broken = (), str(error)


def guard_for_folder(home: Path, folder: str, user_home: str = "") -> Guard:
    """A guard without a conversation, with the rules and permissions that apply in a folder."""
    return Guard(home=home, folder=folder, workspace=lambda: folder, mode=ConfirmMode.RISKY, user_home=user_home)


def _deny_patterns(rules: Sequence[Rule | Permission]) -> frozenset[str]:
    return frozenset(str(rule.pattern) for rule in rules if rule.verdict is Verdict.DENY)


def _risk(action: Action, facts: Facts) -> ActionSecurityRisk:
    """The stricter of the risk in the facts and the model's own rating."""
    rated = getattr(action, "security_risk", ActionSecurityRisk.UNKNOWN)
    return facts.risk if rated is ActionSecurityRisk.UNKNOWN else strictest(facts.risk, rated)


def _combined(found: Judgement, other: Judgement) -> Judgement:
    """Join two judgements that ask, with all reasons; a rule that asks each time stays the rule."""
    if found.stays:
        return replace(found, reasons=tuple(dict.fromkeys((*found.reasons, *other.reasons))))
    reasons = tuple(dict.fromkeys((*other.reasons, *found.reasons)))
    return Judgement(Verdict.ASK, other.rule, reasons, stays=other.rule not in CHECKS, risk=found.risk)


async def _run_check(check: Check, action: Action, facts: Facts) -> Judgement | None:
    try:
        return await check(action, facts)
    except Exception as error:  # a bug in a check must not allow anything
        log.exception("a check on an action failed")
        return Judgement(Verdict.ASK, FAILED_CHECK, (f"{type(error).__name__}: {error}",), in_every_mode=True)


def _only_edits_workspace(action: Action, facts: Facts, folders: WorkFolders) -> bool:
    """Whether an action only reads or edits files of the workspace that no program executes or obeys."""
    if not isinstance(action, FileReadAction | FileWriteAction | FileEditAction):
        return False
    paths = (*facts.reads, *facts.writes)
    if not paths or facts.risk is ActionSecurityRisk.HIGH or not all(is_inside(path, folders) for path in paths):
        return False
    return not any(is_autorun_file(path) for path in facts.writes)
