"""What taint asks, and what answers it: in every mode, headless too, and the user's word is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.events import AgentState, CmdRunAction
from core.security.confirmation import ConfirmMode, Verdict
from core.security.facts import facts_of
from core.security.patterns import parse
from core.security.permissions import PermissionFile, Scope, new_permission
from core.security.suggested_rules import reach_of
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom
from tests.session.test_session import FREE, conversation, of_type
from tests.warm_servers import WarmRuntime

READS = {"tool_calls": [bash("cat ~/Downloads/notes.txt 2>/dev/null; echo read")]}
PUSHES = [{"tool_calls": [bash(f"git push origin {branch}")]} for branch in ("one", "two", "three")]


async def said(session: AgentSession, text: str = "go") -> AgentState:
    await session.send(text)
    return await settled(session)


async def settled(session: AgentSession) -> AgentState:
    async with asyncio.timeout(30):
        await session.settled()
    return session.state.agent_state


async def rules(session: AgentSession) -> list[str]:
    """Of each command so far: the rule that asked, or nothing."""
    commands = of_type(await session.stream.read(), CmdRunAction)
    return [command.judgement.rule if command.judgement is not None else "" for command in commands]


class TestModes:
    @pytest.mark.parametrize("mode", [ConfirmMode.NEVER, ConfirmMode.RISKY, ConfirmMode.AUTO_EDIT])
    async def test_actions_that_could_send_data_ask_in_every_mode(self, tmp_path: Path, mode: ConfirmMode) -> None:
        settings = Settings.model_validate({"agent": {"confirm": mode}})
        async with conversation(tmp_path, [READS, PUSHES[0], FINISH], settings=settings) as session:
            if await said(session) is AgentState.AWAITING_USER_CONFIRMATION and len(await rules(session)) == 1:
                await session.approval.confirm()  # edits freely, and asks before commands
                await settled(session)
            assert (await rules(session))[-1] == "taint"

    async def test_nothing_asks_without_untrusted_content(self, tmp_path: Path) -> None:
        async with conversation(tmp_path, [{"tool_calls": [bash("ls -la")]}, *PUSHES, FINISH]) as session:
            assert await said(session) is AgentState.FINISHED
            assert set(await rules(session)) == {""}

    async def test_analyzer_asks_only_in_modes_that_ask(self, tmp_path: Path) -> None:
        settings = Settings.model_validate({"agent": {"confirm": "never"}, "security": {"taint": False}})
        async with conversation(tmp_path, [READS, *PUSHES, FINISH], settings=settings) as session:
            assert await said(session) is AgentState.FINISHED


class TestAnswersAreKept:
    @pytest.mark.parametrize("scope", [Scope.CONVERSATION, Scope.PROJECT, Scope.EVERYWHERE])
    async def test_informed_permission_is_not_asked_again(self, tmp_path: Path, scope: Scope) -> None:
        async with conversation(tmp_path, [READS, *PUSHES[:2], FINISH, PUSHES[2], FINISH]) as session:
            await said(session)
            await session.approval.permit("bash(git push *)", scope)
            await session.approval.confirm_allowed()
            assert await settled(session) is AgentState.FINISHED
            assert await rules(session) == ["", "taint", ""]
            id = session.info.id
        async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
            again = await manager.open(id)
            assert await said(again, "and more") is AgentState.FINISHED
            assert await rules(again) == ["", "taint", "", ""]

    async def test_earlier_permission_is_asked_again(self, tmp_path: Path) -> None:
        """The user did not know then what might steer the agent now."""
        async with conversation(tmp_path, [READS, *PUSHES, FINISH]) as session:
            await session.approval.permit("bash(git push *)", Scope.CONVERSATION)
            await session.approval.permit("bash(git push *)", Scope.EVERYWHERE)
            assert await said(session) is AgentState.AWAITING_USER_CONFIRMATION
            assert (await rules(session))[-1] == "taint"

    async def test_denial_beats_informed_permission(self, tmp_path: Path) -> None:
        async with conversation(tmp_path, [READS, *PUSHES, FINISH]) as session:
            await said(session)
            await session.approval.permit("bash(git push *)", Scope.CONVERSATION)
            await session.approval.permit("bash(git push origin two)", Scope.CONVERSATION, Verdict.DENY)
            await session.approval.confirm_allowed()
            assert await settled(session) is AgentState.FINISHED
            first, tainted, denied, last = await rules(session)
            assert (first, tainted, last) == ("", "taint", "")
            assert denied.startswith("permission c")
            assert denied.endswith("(conversation) deny bash(git push origin two)")

    async def test_trusted_source_stops_asking_until_another_is_read(self, tmp_path: Path) -> None:
        later = {"tool_calls": [bash("cat ~/Downloads/other.txt 2>/dev/null; echo read")]}
        async with conversation(tmp_path, [READS, *PUSHES[:2], later, PUSHES[2], FINISH]) as session:
            await said(session)
            await session.approval.permit("foreign(*/Downloads/notes.txt)", Scope.CONVERSATION)
            await session.approval.confirm_allowed()
            assert await settled(session) is AgentState.AWAITING_USER_CONFIRMATION
            assert await rules(session) == ["", "taint", "", "", "taint"]

    @pytest.mark.parametrize(
        ("rule", "asks"),
        [
            ("bash(*)", True),
            ("bash(git *)", True),
            ("*", True),
            ("bash(git push *)", False),
            ("bash(git push origin one)", False),
            ("foreign(*/Downloads/*)", False),
            ("foreign(https://docs.example/*)", True),
        ],
    )
    async def test_specific_user_rule_exempts_from_taint(self, tmp_path: Path, rule: str, asks: bool) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "policy.toml").write_text(f'allow = ["{rule}"]', "utf-8")
        async with conversation(tmp_path, [READS, PUSHES[0], FINISH]) as session:
            assert (await said(session) is AgentState.AWAITING_USER_CONFIRMATION) is asks

    async def test_project_rule_does_not_exempt_from_taint(self, tmp_path: Path) -> None:
        folder = tmp_path / "workspace" / ".handloom"
        folder.mkdir(parents=True)
        (folder / "policy.toml").write_text('allow = ["bash(git push *)", "foreign(*)"]', "utf-8")
        async with conversation(tmp_path, [READS, PUSHES[0], FINISH]) as session:
            assert await said(session) is AgentState.AWAITING_USER_CONFIRMATION

    async def test_source_pattern_is_accepted_only_for_taint_questions(self, tmp_path: Path) -> None:
        async with conversation(tmp_path, [READS, PUSHES[0], FINISH]) as session:
            await said(session)
            held = of_type(await session.stream.read(), CmdRunAction)[-1]
            free = held.model_copy(update={"judgement": None})
            folders = session.guard.folders
            facts = facts_of(held, workspace=folders.workspace)
            assert reach_of("foreign(*/Downloads/notes.txt)", held, facts, folders).is_usable
            assert not reach_of("foreign(*/Downloads/notes.txt)", free, facts, folders).is_usable


def test_informed_permission_is_stored_beside_an_earlier_one(tmp_path: Path) -> None:
    file, pattern = PermissionFile(tmp_path), parse("bash(git push *)")
    for informed in (False, True, True):
        file.add(
            [new_permission(Verdict.ALLOW, pattern, Scope.EVERYWHERE, folder="", conversation="c", informed=informed)]
        )
    assert [one.informed for one in file.read()] == [False, True]


class TestWithoutUser:
    def run(self, tmp_path: Path, *options: str, policy: str = "") -> tuple[list[dict[str, Any]], str]:
        """The results of the two pushes, and the notices."""
        handloom = Handloom(tmp_path, HANDLOOM__SANDBOX__ISOLATION="none")
        handloom.home.mkdir(parents=True, exist_ok=True)
        (handloom.home / "policy.toml").write_text(policy, "utf-8")
        model = write_script(tmp_path, [READS, *PUSHES[:2], FINISH])
        ended = handloom("run", "go", "--model", model, "--json", *options)
        assert ended.status == 0, ended.err
        answers = [event for event in ended.events if event.get("observation") in ("run", "user_rejected")]
        return answers[1:], ended.err

    def test_headless_denial_tells_agent_and_user(self, tmp_path: Path) -> None:
        answered, told = self.run(tmp_path)
        assert [one["observation"] for one in answered] == ["user_rejected"] * 2
        assert all("taint" in one["content"] and "Downloads/notes.txt (event" in one["content"] for one in answered)
        assert told.count("Denied, because no terminal is available to ask") == 2
        assert told.count("Reason: taint.") == 2
        assert told.count('allow = ["foreign(') == 1

    @pytest.mark.parametrize(
        ("options", "policy"), [(["--yes"], ""), ([], 'allow = ["bash(git push *)"]'), ([], 'allow = ["foreign(*)"]')]
    )
    def test_documented_exemptions_allow_the_action(self, tmp_path: Path, options: list[str], policy: str) -> None:
        answered, _told = self.run(tmp_path, *options, policy=policy)
        assert [one["observation"] for one in answered] == ["run"] * 2
