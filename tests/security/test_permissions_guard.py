"""The guard: rules of files, permissions of four scopes and the mode, in their order."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.autorun_paths import NAMES
from core.errors import ConfigurationError, UsageError
from core.events import Action, AgentThinkAction, CmdRunAction, FileEditAction, FileReadAction, FileWriteAction
from core.security.confirmation import FAILED_CHECK, ConfirmMode, Judgement, Verdict
from core.security.facts import Facts
from core.security.guard import Guard
from core.security.patterns import parse
from core.security.permissions import PermissionFile, Scope, new_permission
from core.security.policy import read_policy

PUSH = CmdRunAction(command="git push origin")


def guard_in(tmp_path: Path, mode: ConfirmMode = ConfirmMode.ALWAYS, notices: list[str] | None = None) -> Guard:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    told: Callable[[str], None] = (lambda text: None) if notices is None else notices.append
    return Guard(
        home=home,
        folder=str(project),
        workspace=lambda: str(project),
        mode=mode,
        notice=told,
        user_home="/nowhere/home",
    )


def write_policy(tmp_path: Path, text: str, *, project: bool = False) -> Path:
    file = tmp_path / ("project/.handloom" if project else "home") / "policy.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


async def verdict(guard: Guard, action: Action = PUSH) -> Verdict:
    return (await guard.judge(action)).verdict


def grant(guard: Guard, text: str, scope: Scope, verdict: Verdict = Verdict.ALLOW, folder: str = "") -> None:
    permission = new_permission(verdict, parse(text), scope, folder=folder or guard.folder, conversation="c")
    if scope is Scope.CONVERSATION:
        guard.conversation_permissions.append(permission)
    else:
        guard.file.add([permission])


class TestOrder:
    async def test_mode_decides_without_rules(self, tmp_path: Path) -> None:
        found = {mode: await verdict(guard_in(tmp_path, mode)) for mode in ConfirmMode}
        assert found == {
            ConfirmMode.ALWAYS: Verdict.ASK,
            ConfirmMode.RISKY: Verdict.ASK,  # a push leaves the machine
            ConfirmMode.AUTO_EDIT: Verdict.ASK,
            ConfirmMode.PLAN: Verdict.DENY,
            ConfirmMode.NEVER: Verdict.ALLOW,
        }

    @pytest.mark.parametrize("scope", [Scope.CONVERSATION, Scope.PROJECT, Scope.EVERYWHERE])
    async def test_denial_beats_permission(self, tmp_path: Path, scope: Scope) -> None:
        guard = guard_in(tmp_path)
        grant(guard, "bash(git push *)", scope)
        assert await verdict(guard) is Verdict.ALLOW
        write_policy(tmp_path, 'deny = ["bash(git push *)"]')
        judgement = await guard.judge(PUSH)
        assert (judgement.verdict, judgement.rule) == (Verdict.DENY, "policy.toml:1 deny bash(git push *)")
        assert "git.push" in " ".join(judgement.reasons)

    @pytest.mark.parametrize("scope", [Scope.CONVERSATION, Scope.PROJECT, Scope.EVERYWHERE])
    async def test_denial_beats_policy_and_every_mode(self, tmp_path: Path, scope: Scope) -> None:
        write_policy(tmp_path, 'allow = ["*"]')
        for mode in ConfirmMode:
            guard = guard_in(tmp_path, mode)
            grant(guard, "bash(git push *)", scope, Verdict.DENY)
            assert await verdict(guard) is Verdict.DENY

    async def test_ask_rule_beats_allow_rule(self, tmp_path: Path) -> None:
        write_policy(tmp_path, 'ask = ["bash(git push *)"]\nallow = ["bash(git *)"]')
        guard = guard_in(tmp_path, ConfirmMode.NEVER)
        grant(guard, "bash(git push *)", Scope.EVERYWHERE)
        judgement = await guard.judge(PUSH)
        assert (judgement.verdict, judgement.stays) == (Verdict.ASK, True)
        assert judgement.rule == "policy.toml:1 ask bash(git push *)"
        assert await verdict(guard, CmdRunAction(command="git status")) is Verdict.ALLOW

    async def test_every_command_of_a_line_must_be_allowed(self, tmp_path: Path) -> None:
        write_policy(tmp_path, 'allow = ["bash(cd *)"]')
        guard = guard_in(tmp_path)
        line = CmdRunAction(command="cd x && git push")
        assert await verdict(guard, line) is Verdict.ASK
        grant(guard, "bash(git push *)", Scope.CONVERSATION)
        assert await verdict(guard, line) is Verdict.ALLOW

    async def test_action_that_may_reach_a_denied_file_asks(self, tmp_path: Path) -> None:
        write_policy(tmp_path, 'deny = ["read(~/.ssh/**)"]\nallow = ["bash(*)"]')
        guard = guard_in(tmp_path, ConfirmMode.NEVER)
        assert await verdict(guard, CmdRunAction(command="cat ~/.ssh/id_rsa")) is Verdict.DENY
        assert await verdict(guard, CmdRunAction(command="tar c ~/")) is Verdict.ASK
        assert await verdict(guard, CmdRunAction(command="ls")) is Verdict.ALLOW

    async def test_thoughts_never_ask(self, tmp_path: Path) -> None:
        write_policy(tmp_path, 'deny = ["*"]')
        assert await verdict(guard_in(tmp_path), AgentThinkAction(thought="hm")) is Verdict.ALLOW


class TestModes:
    async def test_auto_edit_edits_the_workspace_and_asks_for_the_rest(self, tmp_path: Path) -> None:
        guard = guard_in(tmp_path, ConfirmMode.AUTO_EDIT)
        (tmp_path / "project" / "out").symlink_to(tmp_path / "home")
        free = [FileEditAction(path="a.py", command="create", file_text=""), FileWriteAction(path="b/c", content=""),
                FileReadAction(path="a.py")]  # fmt: skip
        asks = [FileWriteAction(path="../x", content=""), FileWriteAction(path="/etc/x", content=""),
                FileWriteAction(path="out/x", content=""), FileWriteAction(path=".git/hooks/x", content=""),
                FileWriteAction(path=".handloom/policy.toml", content=""),
                FileReadAction(path="/etc/passwd"), PUSH]  # fmt: skip
        assert [await verdict(guard, action) for action in free] == [Verdict.ALLOW] * len(free)
        assert [await verdict(guard, action) for action in asks] == [Verdict.ASK] * len(asks)

    @pytest.mark.parametrize("name", NAMES)
    async def test_auto_edit_asks_for_files_that_programs_execute(self, tmp_path: Path, name: str) -> None:
        guard = guard_in(tmp_path, ConfirmMode.AUTO_EDIT)
        for path in (name, f"{name}/x", f"deep/{name}"):
            assert await verdict(guard, FileWriteAction(path=path, content="")) is Verdict.ASK

    async def test_plan_mode_only_reads_whatever_is_allowed(self, tmp_path: Path) -> None:
        write_policy(tmp_path, 'allow = ["*"]')
        guard = guard_in(tmp_path, ConfirmMode.PLAN)
        judgement = await guard.judge(PUSH)
        assert (judgement.verdict, judgement.rule) == (Verdict.DENY, "mode plan")
        assert await verdict(guard, FileReadAction(path="a")) is Verdict.ALLOW


class TestPolicyFiles:
    async def test_project_policy_only_restricts(self, tmp_path: Path) -> None:
        notices: list[str] = []
        guard = guard_in(tmp_path, notices=notices)
        file = write_policy(tmp_path, 'allow = ["*"]\ndeny = ["bash(git push *)"]', project=True)
        assert (await guard.judge(PUSH)).rule == ".handloom/policy.toml:2 deny bash(git push *)"
        assert await verdict(guard, CmdRunAction(command="ls")) is Verdict.ASK
        assert notices == [f"{file}: its allow rules are ignored, because a project's policy can only restrict."]

    async def test_removed_project_rule_still_applies(self, tmp_path: Path) -> None:
        guard = guard_in(tmp_path, ConfirmMode.NEVER)
        file = write_policy(tmp_path, 'deny = ["bash(git push *)"]', project=True)
        assert await verdict(guard) is Verdict.DENY
        file.unlink()
        assert await verdict(guard) is Verdict.DENY

    @pytest.mark.parametrize(
        ("text", "line", "what"),
        [
            ('allow = [\n"bash(ls)",\n"bsah(ls)",\n]', 3, "not a pattern"),
            ('allow = ["*"]\n\ndney = ["*"]', 3, "Unknown list 'dney'"),
            ('allow = ["*"]\ndeny = "bash(x)"', 2, "list of patterns"),
            ('allow = ["*"]\ndeny = [', 2, "Invalid value"),
            ('allow = ["*"\nx', 2, "Unclosed array"),
        ],
    )
    async def test_broken_policy_asks_everything_and_names_the_line(
        self, tmp_path: Path, text: str, line: int, what: str
    ) -> None:
        notices: list[str] = []
        guard = guard_in(tmp_path, ConfirmMode.NEVER, notices)
        grant(guard, "bash(*)", Scope.EVERYWHERE)
        file = write_policy(tmp_path, text)
        judgement = await guard.judge(PUSH)
        assert judgement.verdict is Verdict.ASK
        assert judgement.reasons[0].startswith(f"{file}, line {line}: ")
        assert what in judgement.reasons[0]
        assert notices == [judgement.reasons[0]]
        write_policy(tmp_path, "")
        assert await verdict(guard) is Verdict.ALLOW
        assert notices[-1] == ""

    @pytest.mark.parametrize("project", [False, True], ids=["of the user", "of the project"])
    async def test_broken_file_asks_in_full_auto(self, tmp_path: Path, project: bool) -> None:
        guard = guard_in(tmp_path, ConfirmMode.NEVER)
        assert await verdict(guard, FileReadAction(path="a")) is Verdict.ALLOW
        file = write_policy(tmp_path, "allow = [", project=project)
        judgement = await guard.judge(FileReadAction(path="a"))
        assert (judgement.verdict, judgement.rule, judgement.stays) == (Verdict.ASK, "a broken file", True)
        assert judgement.reasons[0].startswith(f"{file}, line 1: ")

    @pytest.mark.parametrize("make", [lambda file: file.mkdir(), os.mkfifo, lambda file: file.write_bytes(b"\xff"),
                                      lambda file: file.write_bytes(b"#" * 300_000)])  # fmt: skip
    def test_unreadable_policy_is_broken_and_does_not_raise(self, tmp_path: Path, make: Callable[[Path], None]) -> None:
        make(tmp_path / "policy.toml")
        assert read_policy(tmp_path / "policy.toml", name="policy.toml").broken

    async def test_same_pattern_in_two_lists_uses_the_strictest(self, tmp_path: Path) -> None:
        write_policy(tmp_path, 'allow = ["bash(x)"]\ndeny = [\n  "bash(x)",\n]')
        assert (await guard_in(tmp_path).judge(CmdRunAction(command="x"))).rule == "policy.toml:3 deny bash(x)"


class TestPermissionFile:
    async def test_parent_of_a_folder_link_asks(self, tmp_path: Path) -> None:
        guard = guard_in(tmp_path, ConfirmMode.NEVER)
        (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
        (tmp_path / "project" / "plain").mkdir()
        (tmp_path / "project" / "link").symlink_to(tmp_path / "elsewhere" / "inner")
        write_policy(tmp_path, f'deny = ["read({tmp_path}/elsewhere/*)"]')
        for command in (
            "cd link && cat ../f",
            "cd link; cat ./../f",
            "cd link && cd .. && cat f",
            "cd link && rm ../f",
        ):
            judgement = await guard.judge(CmdRunAction(command=command))
            assert judgement.verdict is Verdict.ASK, command
            assert "does not understand this part" in judgement.reasons[0], command
        assert await verdict(guard, CmdRunAction(command="cd plain && cat ../f")) is Verdict.ALLOW

    async def test_project_permission_applies_through_links(self, tmp_path: Path) -> None:
        guard = guard_in(tmp_path)
        (tmp_path / "link").symlink_to(tmp_path / "project")
        (tmp_path / "other").mkdir()
        grant(guard, "bash(git push *)", Scope.PROJECT, folder=str(tmp_path / "link"))
        assert await verdict(guard) is Verdict.ALLOW
        guard.folder = str(tmp_path / "other")
        assert await verdict(guard) is Verdict.ASK

    async def test_other_process_sees_added_and_revoked_permissions(self, tmp_path: Path) -> None:
        one, two = guard_in(tmp_path), guard_in(tmp_path)
        assert await verdict(two) is Verdict.ASK
        grant(one, "bash(git push *)", Scope.EVERYWHERE)
        assert await verdict(two) is Verdict.ALLOW
        (kept,) = one.file.read()
        two.file.revoke([kept.id])
        assert await verdict(one) is Verdict.ASK
        with pytest.raises(UsageError, match="no permission"):
            one.file.revoke([kept.id])

    def test_permission_file_is_private(self, tmp_path: Path) -> None:
        guard = guard_in(tmp_path)
        grant(guard, "bash(x)", Scope.EVERYWHERE)
        assert (tmp_path / "home" / "permissions.json").stat().st_mode & 0o777 == 0o600

    async def test_broken_permission_file_allows_nothing_and_is_not_overwritten(self, tmp_path: Path) -> None:
        guard = guard_in(tmp_path, ConfirmMode.NEVER)
        file = tmp_path / "home" / "permissions.json"
        file.write_text('{"permissions": [{"verdict": "allow", "scope": "everywhere", "pattern": "nonsense"}]}')
        before = file.read_bytes()
        judgement = await guard.judge(PUSH)
        assert judgement.verdict is Verdict.ASK
        assert str(file) in judgement.reasons[0]
        with pytest.raises(ConfigurationError, match="cannot be read"):
            grant(guard, "bash(x)", Scope.EVERYWHERE)
        assert file.read_bytes() == before

    def test_concurrent_writers_lose_nothing(self, tmp_path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=write_some, args=(tmp_path, n)) for n in range(3)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
        assert len(PermissionFile(tmp_path).read()) == 3 * 20
        assert json.loads((tmp_path / "permissions.json").read_text())["permissions"]


def write_some(home: Path, number: int) -> None:
    file = PermissionFile(home)
    for n in range(20):
        pattern = parse(f"bash(x {number} {n})")
        file.add([new_permission(Verdict.ALLOW, pattern, Scope.EVERYWHERE, folder="", conversation="")])


class TestVoices:
    async def test_check_asks_or_denies_and_never_allows(self, tmp_path: Path) -> None:
        guard = guard_in(tmp_path)

        def voice(said: Verdict) -> None:
            async def speak(action: Action, facts: Facts) -> Judgement | None:
                return Judgement(said, "taint", ("A page was read before.",))

            guard.checks = (speak,)

        voice(Verdict.ALLOW)
        assert await verdict(guard) is Verdict.ASK
        grant(guard, "bash(git push *)", Scope.CONVERSATION)
        voice(Verdict.ASK)
        assert (await guard.judge(PUSH)).rule == "taint"
        voice(Verdict.DENY)
        guard.mode = ConfirmMode.NEVER
        assert await verdict(guard) is Verdict.DENY

    async def test_failing_check_asks(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        guard = guard_in(tmp_path)
        grant(guard, "bash(git push *)", Scope.CONVERSATION)

        async def fails(action: Action, facts: Facts) -> Judgement | None:
            await asyncio.sleep(0)
            raise RuntimeError("bug")

        guard.checks = (fails,)
        assert await verdict(guard) is Verdict.ASK

    @pytest.mark.parametrize(
        "fails", [RuntimeError("bug"), Judgement(Verdict.ASK, FAILED_CHECK, ("no such analyzer",), in_every_mode=False)]
    )
    @pytest.mark.parametrize("mode", [ConfirmMode.NEVER, ConfirmMode.RISKY])
    async def test_failing_check_asks_in_every_mode_unless_misconfigured(
        self, tmp_path: Path, mode: ConfirmMode, fails: Exception | Judgement
    ) -> None:
        async def check(action: Action, facts: Facts) -> Judgement | None:
            if isinstance(fails, Exception):
                raise fails
            return fails

        guard = guard_in(tmp_path, mode)
        assert await verdict(guard, FileReadAction(path="a")) is Verdict.ALLOW
        guard.checks = (check,)
        asks = isinstance(fails, Exception) or mode is not ConfirmMode.NEVER
        assert await verdict(guard, FileReadAction(path="a")) is (Verdict.ASK if asks else Verdict.ALLOW)


async def test_conversation_permissions_apply_to_delegates(tmp_path: Path) -> None:
    above, below = guard_in(tmp_path), guard_in(tmp_path)
    below.parent = above
    grant(above, "bash(git push *)", Scope.CONVERSATION)
    assert await verdict(below) is Verdict.ALLOW
