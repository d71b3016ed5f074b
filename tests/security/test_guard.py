"""The guard's judgement of an action: verdict, rule, reasons and scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.events import (
    Action,
    ActionSecurityRisk,
    AgentThinkAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    MCPAction,
)
from core.security.confirmation import ANALYZERS, TAINT, ConfirmMode, Judgement, Verdict
from core.security.facts import Facts
from core.security.guard import CHANGED, PLANNING, RATED, Check, Guard, guard_for_folder
from core.security.patterns import parse
from core.security.permissions import Scope, new_permission
from core.security.shell.shell_state import Shell

ALLOW, ASK, DENY = Verdict
LOW, MEDIUM, HIGH, UNKNOWN = (ActionSecurityRisk[name] for name in ("LOW", "MEDIUM", "HIGH", "UNKNOWN"))
LS, MAKE, EVAL, REMOVE = (CmdRunAction(command=text) for text in ("ls", "make", "eval x", "rm -rf /"))
CALLED_RISKY = CmdRunAction(command="ls", security_risk=HIGH)
READ, VIEW = FileReadAction(path="a"), FileEditAction(path="a", command="view")
SECRET, EDIT = FileReadAction(path="/etc/shadow"), FileEditAction(path="a", command="create", file_text="")
HOOK, TOOL = FileWriteAction(path=".git/hooks/x", content=""), MCPAction(name="x")
ACTIONS = (LS, CALLED_RISKY, MAKE, EVAL, REMOVE, READ, VIEW, SECRET, EDIT, HOOK, TOOL)


def make_guard(
    tmp_path: Path,
    mode: ConfirmMode = ConfirmMode.RISKY,
    policy: str = "",
    *,
    checks: Sequence[Check] = (),
    notice: Callable[[str], None] = lambda text: None,
    shell: Callable[[Action], Awaitable[Shell]] | None = None,
) -> Guard:
    """A guard of /w with this policy of the user; reading a file changes nothing."""
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "policy.toml").write_text(policy, "utf-8")
    return Guard(
        home=tmp_path / "home", folder=str(tmp_path / "project"), workspace=lambda: "/w", mode=mode,
        notice=notice, checks=checks, shell=shell,
        user_home="/h",
    )  # fmt: skip


def saying(*said: Judgement | None) -> list[Check]:
    """A check for each of these."""

    def check(one: Judgement | None) -> Check:
        async def speak(action: Action, facts: Facts) -> Judgement | None:
            return one

        return speak

    return [check(one) for one in said]


@pytest.mark.parametrize(
    ("mode", "allowed", "denied"),
    [
        (ConfirmMode.ALWAYS, (), ()),
        (ConfirmMode.RISKY, (LS, MAKE, READ, VIEW, EDIT), ()),
        (ConfirmMode.AUTO_EDIT, (READ, VIEW, EDIT), ()),
        (ConfirmMode.PLAN, (READ, VIEW, SECRET), (LS, CALLED_RISKY, MAKE, EVAL, REMOVE, EDIT, HOOK, TOOL)),
        (ConfirmMode.NEVER, ACTIONS, ()),
    ],
)
async def test_mode_decides_without_rules(
    tmp_path: Path, mode: ConfirmMode, allowed: Sequence[Action], denied: Sequence[Action]
) -> None:
    guard = make_guard(tmp_path, mode)
    for action in ACTIONS:
        found = await guard.judge(action)
        verdict = ALLOW if action in allowed else DENY if action in denied else ASK
        assert (found.verdict, found.rule) == (verdict, f"mode {mode}"), action
        assert found.stays is (verdict is ASK and action is EVAL), "what is not understood is asked each time"
        assert not found.in_every_mode


@pytest.mark.parametrize(
    ("action", "risk", "reasons"),
    [
        (LS, LOW, []),
        (CALLED_RISKY, HIGH, [RATED]),
        (MAKE, MEDIUM, ["run.project"]),
        (CmdRunAction(command="make", security_risk=LOW), MEDIUM, ["run.project"]),
        (CmdRunAction(command="make", security_risk=MEDIUM), MEDIUM, ["run.project"]),
        (CmdRunAction(command="make", security_risk=HIGH), HIGH, [RATED, "run.project"]),
        (CmdRunAction(command="rm -rf /", security_risk=LOW), HIGH, ["destroy.root", "destroy.outside"]),
        (EVAL, UNKNOWN, ["does not understand"]),
        (TOOL, UNKNOWN, ["mcp.call"]),
        (HOOK, HIGH, ["persist.hook"]),
        (EDIT, LOW, []),
    ],
    ids=str,
)
async def test_model_rating_raises_the_risk_and_comes_first(
    tmp_path: Path, action: Action, risk: ActionSecurityRisk, reasons: list[str]
) -> None:
    found = await make_guard(tmp_path, ConfirmMode.ALWAYS).judge(action)
    assert found.risk is risk
    assert len(found.reasons) == len(reasons)
    assert all(part in reason for part, reason in zip(reasons, found.reasons, strict=True))


async def test_ask_rule_reports_the_rating_of_the_model(tmp_path: Path) -> None:
    guard = make_guard(tmp_path, policy='ask = ["bash(*)"]')
    assert (await guard.judge(LS)).reasons == ()
    assert (await guard.judge(CALLED_RISKY)).reasons == (RATED,)
    assert (await guard.judge(CmdRunAction(command="make", security_risk=HIGH))).reasons[1:] == (RATED,)


@pytest.mark.parametrize(
    ("policy", "action", "verdict", "rule"),
    [
        ('deny = ["bash(ls)"]\nask = ["*"]\nallow = ["*"]', LS, DENY, "policy.toml:1 deny bash(ls)"),
        ('deny = ["bash(x)"]\nask = ["bash(ls)"]\nallow = ["*"]', LS, ASK, "policy.toml:2 ask bash(ls)"),
        ('deny = ["bash(x)"]\nask = ["bash(y)"]\nallow = ["*"]', LS, ALLOW, "policy.toml:3 allow *"),
        ('allow = ["bash(x)", "bash(ls)"]', LS, ALLOW, "policy.toml:1 allow bash(ls)"),
        ('allow = ["bash(x)"]', LS, ALLOW, "mode risky"),
        ('allow = ["bash(x)", "bash(make)"]', REMOVE, ASK, "mode risky"),
        ('allow = ["bash(rm *)"]', REMOVE, ASK, "mode risky"),
        ('deny = ["read(s)"]', EVAL, ASK, "policy.toml:1 deny read(s)"),
        ('deny = ["mcp(s)"]', EVAL, ASK, "mode risky"),
        ('deny = ["read(s)"]', MAKE, ASK, "policy.toml:1 deny read(s)"),
        ('deny = ["mcp(s)", "net(s)"]', MAKE, ASK, "policy.toml:1 deny net(s)"),
        ('deny = ["mcp(s)"]', MAKE, ALLOW, "mode risky"),
        ('ask = ["read(s)"]', MAKE, ALLOW, "mode risky"),
        ('deny = ["read(s)"]\nallow = ["bash(make)"]', MAKE, ALLOW, "policy.toml:2 allow bash(make)"),
        ('deny = ["read(s)"]\nallow = ["bash(*)"]', EVAL, ASK, "policy.toml:1 deny read(s)"),
        ('deny = ["read(a/s)"]', CmdRunAction(command="grep -r x a"), ASK, "policy.toml:1 deny read(a/s)"),
        ('deny = ["read(b/s)"]', CmdRunAction(command="grep -r x a"), ALLOW, "mode risky"),
        ('deny = ["read(s)"]', READ, ALLOW, "mode risky"),
        ('deny = ["read(a)"]', READ, DENY, "policy.toml:1 deny read(a)"),
        ('deny = ["read(a)"]', VIEW, DENY, "policy.toml:1 deny read(a)"),
        ('allow = ["mcp(*)"]', TOOL, ALLOW, "policy.toml:1 allow mcp(*)"),
        ('allow = ["write(**)"]', HOOK, ALLOW, "policy.toml:1 allow write(**)"),
        ('allow = ["write(/w/**)"]', HOOK, ASK, "mode risky"),
        ('deny = ["*"]', AgentThinkAction(thought="hm"), ALLOW, "mode risky"),
    ],
)
async def test_strictest_matching_rule_decides(
    tmp_path: Path, policy: str, action: Action, verdict: Verdict, rule: str
) -> None:
    found = await make_guard(tmp_path, policy=policy).judge(action)
    assert (found.verdict, found.rule) == (verdict, rule)


@pytest.mark.parametrize(
    ("policy", "action", "stays", "why"),
    [
        ('ask = ["bash(ls)"]', LS, True, ""),
        (
            'deny = ["read(s)"]',
            EVAL,
            True,
            "Handloom does not understand this part, so read(s) may apply: eval x",
        ),
        ('deny = ["read(s)"]', MAKE, False, "It runs code that Handloom does not read, so read(s) may apply."),
        ('deny = ["read(s)"]', CmdRunAction(command="grep -r x"), True, "It may affect what read(s) denies."),
        ("ask = [", LS, True, "{home}/policy.toml, line 1: "),
    ],
)
async def test_ask_rule_asks_every_time(tmp_path: Path, policy: str, action: Action, stays: bool, why: str) -> None:
    found = await make_guard(tmp_path, policy=policy).judge(action)
    assert (found.verdict, found.stays) == (ASK, stays)
    assert "".join(found.reasons[:1]).startswith(why.format(home=tmp_path / "home"))
    assert bool(found.reasons) is bool(why)


async def test_unanalysed_code_does_not_ask_in_full_auto(tmp_path: Path) -> None:
    guard = make_guard(tmp_path, ConfirmMode.NEVER, 'deny = ["read(s)"]')
    assert (await guard.judge(MAKE)).rule == "mode never"
    assert (await guard.judge(EVAL)).rule == "policy.toml:1 deny read(s)"


async def test_rules_are_checked_in_order(tmp_path: Path) -> None:
    guard, above = make_guard(tmp_path, policy='allow = ["bash(e)"]'), make_guard(tmp_path)
    guard.parent = above
    (tmp_path / "project" / ".handloom").mkdir(parents=True)
    (tmp_path / "project" / ".handloom" / "policy.toml").write_text('ask = ["bash(d)"]')
    (tmp_path / "home" / "policy.toml").write_text('allow = ["bash(e)"]')
    for letter, kept in (("a", guard.conversation_permissions), ("b", above.conversation_permissions)):
        kept.append(new_permission(ALLOW, parse(f"bash({letter})"), Scope.CONVERSATION, folder="", conversation="c"))
    for scope, folder in ((Scope.EVERYWHERE, ""), (Scope.PROJECT, guard.folder), (Scope.PROJECT, "/elsewhere")):
        guard.file.add([new_permission(ALLOW, parse(f"bash(c {scope})"), scope, folder=folder, conversation="c")])
    guard.refresh()
    patterns = [str(rule.pattern) for rule in guard.rules()]
    assert patterns == ["bash(a)", "bash(b)", "bash(c everywhere)", "bash(c project)", "bash(d)", "bash(e)"]


class TestChecks:
    async def heard(self, tmp_path: Path, mode: ConfirmMode, policy: str, *said: Judgement | None) -> Judgement:
        return await make_guard(tmp_path, mode, policy, checks=saying(*said)).judge(MAKE)

    async def test_check_beats_allow_rules(self, tmp_path: Path) -> None:
        asks, denies = Judgement(ASK, TAINT, ("read",), risk=HIGH), Judgement(DENY, "other", ("no",))
        for said, verdict, rule in (
            ((None, Judgement(ALLOW, TAINT)), ALLOW, "policy.toml:1 allow *"),
            ((asks, None), ASK, TAINT),
            ((None, asks), ASK, TAINT),
            ((asks, denies), DENY, "other"),
        ):
            found = await self.heard(tmp_path, ConfirmMode.RISKY, 'allow = ["*"]', *said)
            assert (found.verdict, found.rule) == (verdict, rule)

    async def test_denied_action_is_not_checked(self, tmp_path: Path) -> None:
        found = await self.heard(tmp_path, ConfirmMode.RISKY, 'deny = ["*"]', Judgement(DENY, "other"))
        assert found.rule == "policy.toml:1 deny *"

    @pytest.mark.parametrize(
        ("mode", "in_every_mode", "asks"),
        [
            (ConfirmMode.RISKY, False, True),
            (ConfirmMode.RISKY, True, True),
            (ConfirmMode.NEVER, False, False),
            (ConfirmMode.NEVER, True, True),
        ],
    )
    async def test_full_auto_ignores_checks_that_do_not_ask_in_every_mode(
        self, tmp_path: Path, mode: ConfirmMode, in_every_mode: bool, asks: bool
    ) -> None:
        found = await self.heard(tmp_path, mode, "", Judgement(ASK, TAINT, in_every_mode=in_every_mode, risk=HIGH))
        assert (found.verdict is ASK) is asks
        assert found.risk is HIGH, "the risk is told in any case"

    async def test_reasons_of_two_questions_are_combined(self, tmp_path: Path) -> None:
        said = Judgement(ASK, TAINT, ("read", "twice"), risk=HIGH)
        mode = await self.heard(tmp_path, ConfirmMode.ALWAYS, "", said)
        run = "It runs code from the workspace: make (run.project)."
        assert mode == Judgement(ASK, TAINT, ("read", "twice", run), risk=HIGH)
        rule = await self.heard(tmp_path, ConfirmMode.ALWAYS, 'ask = ["bash(make)"]', said)
        asking = "policy.toml:1 ask bash(make)"
        assert rule == Judgement(ASK, asking, (run, "read", "twice"), stays=True, risk=HIGH)
        again = await self.heard(tmp_path, ConfirmMode.ALWAYS, "", replace(said, reasons=(run,)))
        assert again.reasons == (run,)

    @pytest.mark.parametrize(("rule", "stays"), [(TAINT, False), (ANALYZERS, False), ("a check that failed", True)])
    async def test_only_known_checks_can_be_always_allowed(self, tmp_path: Path, rule: str, stays: bool) -> None:
        found = await self.heard(tmp_path, ConfirmMode.RISKY, "", Judgement(ASK, rule))
        assert (found.verdict, found.rule, found.stays) == (ASK, rule, stays)

    async def test_failing_check_gives_its_error(self, tmp_path: Path) -> None:
        async def fails(action: Action, facts: Facts) -> Judgement | None:
            raise ValueError("broken")

        found = await make_guard(tmp_path, ConfirmMode.NEVER, checks=[fails]).judge(LS)
        assert (found.verdict, found.rule, found.stays) == (ASK, "a check that failed", True)
        assert found.reasons == ("ValueError: broken",)

    @pytest.mark.parametrize(
        ("policy", "permission", "informed", "asks"),
        [
            ('allow = ["bash(make)"]', "", False, False),
            ('allow = ["bash(make *)"]', "", False, True),
            ('allow = ["*"]', "", False, True),
            ('ask = ["bash(x)"]', "", False, True),
            ("", "bash(make)", True, False),
            ("", "bash(make *)", True, False),
            ("", "bash(make)", False, True),
            ("", "bash(ls)", True, True),
        ],
    )
    async def test_informed_permission_or_specific_rule_exempts(
        self, tmp_path: Path, policy: str, permission: str, informed: bool, asks: bool
    ) -> None:
        guard = make_guard(tmp_path, policy=policy, checks=saying(Judgement(ASK, TAINT)))
        if permission:
            guard.conversation_permissions.append(
                new_permission(
                    ALLOW, parse(permission), Scope.CONVERSATION, folder="", conversation="c", informed=informed
                )
            )
        assert ((await guard.judge(MAKE)).verdict is ASK) is asks

    async def test_informed_denial_does_not_exempt(self, tmp_path: Path) -> None:
        guard = make_guard(tmp_path, checks=saying(Judgement(ASK, TAINT)))
        kept = new_permission(
            DENY, parse("bash(make x)"), Scope.CONVERSATION, folder="", conversation="c", informed=True
        )
        guard.conversation_permissions.append(kept)
        assert (await guard.judge(LS)).verdict is ASK


async def test_failing_rules_ask_in_every_mode(tmp_path: Path) -> None:
    async def fails(action: Action) -> Shell:
        raise OSError("x" * 400)

    found = await make_guard(tmp_path, ConfirmMode.NEVER, shell=fails).judge(LS)
    assert (found.verdict, found.rule, found.stays, found.risk) == (ASK, "a check that failed", True, UNKNOWN)
    assert found.reasons == (f"Checking this action failed: OSError: {'x' * 400}"[:300],)


def test_trusted_sources_match_by_pattern(tmp_path: Path) -> None:
    guard = make_guard(tmp_path, policy='allow = ["foreign(https://a/*)", "bash(*)"]\nask = ["foreign(https://b/*)"]')
    for verdict, glob in ((ALLOW, "https://c/*"), (DENY, "https://d/*")):
        pattern = parse(f"foreign({glob})")
        guard.conversation_permissions.append(
            new_permission(verdict, pattern, Scope.CONVERSATION, folder="", conversation="c")
        )
    guard.refresh()
    assert [letter for letter in "abcde" if guard.trusts_source(f"https://{letter}/x")] == ["a", "c"]


async def test_changed_deny_rules_are_reported_once(tmp_path: Path) -> None:
    told = list[str]()
    guard = make_guard(tmp_path, policy='deny = ["bash(x)"]', notice=told.append)
    await guard.judge(LS)
    assert told == [], "no sandbox enforces anything"
    assert guard.denials().notes == ()
    await guard.judge(LS)
    for policy, notices in (
        ('deny = ["bash(x)", "bash(y)"]', [CHANGED]),
        ('deny = ["bash(y)"]', [CHANGED]),
        ('deny = ["bash(x)"]\nask = ["bash(z)"]', [CHANGED, ""]),
    ):
        (tmp_path / "home" / "policy.toml").write_text(policy)
        await guard.judge(LS)
        assert told == notices


async def test_guard_with_given_rules_reads_no_files(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('deny = ["bash(ls)"]')
    assert (await guard_for_folder(tmp_path, "/w", "/h").judge(LS)).verdict is DENY
    free = Guard(
        home=tmp_path, folder="/w", workspace=lambda: "/w", mode=ConfirmMode.RISKY,
        rules=(),
    )  # fmt: skip
    assert (await free.judge(LS)).verdict is ALLOW
    assert (await make_guard(tmp_path, ConfirmMode.PLAN).judge(LS)).reasons == (PLANNING,)
