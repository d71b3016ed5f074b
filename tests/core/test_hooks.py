"""Hooks in whole conversations: the user's on this machine, a trusted project's in the sandbox."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.events import CmdOutputObservation, Envelope, Status, UserRejectObservation
from core.manager.conversation_manager import ConversationManager
from core.session.agent_session import AgentSession
from core.session.hooks import HOOK_FAILED, HOOKS_NOT_RUN
from core.settings.config import Settings
from runtime.local import LocalRuntime
from tests.doubles import FINISH, bash, write_script

WITHIN_S = 60


def hook(event: str, command: str, **more: Any) -> str:
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"event": event, "command": command, **more}.items()]
    return "\n".join(["[[hook]]", *lines, ""])


@asynccontextmanager
async def conversation(
    tmp_path: Path,
    turns: Sequence[dict[str, Any]],
    *,
    own: str = "",
    project: str = "",
    trusts: bool = True,
    scripts: str = "isolated",
) -> AsyncIterator[AgentSession]:
    """A conversation with these hooks; without walls."""
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    (workspace / ".handloom").mkdir(parents=True)
    home.mkdir(mode=0o700)
    if own:
        (home / "hooks.toml").write_text(own)
    if project:
        (workspace / ".handloom/hooks.toml").write_text(project)
    settings = Settings.model_validate(
        {
            "agent": {"confirm": "never"},
            "sandbox": {"run_repository_scripts": scripts},
            "trust": {"projects": "always" if trusts else "ask"},
        }
    )
    async with ConversationManager(home, settings, make_runtime=LocalRuntime, environ={}) as manager:
        yield await manager.create(workspace=str(workspace), model=write_script(tmp_path, turns))


async def said(session: AgentSession, text: str = "go") -> list[Envelope]:
    await session.send(text)
    async with asyncio.timeout(WITHIN_S):
        await session.settled()
    return await session.stream.read()


def of(log: Sequence[Envelope], *types: type) -> list[Any]:
    return [envelope.event for envelope in log if isinstance(envelope.event, types)]


def notices(session: AgentSession) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    session.frames.watch(lambda f: seen.append((f.id, f.message)) if isinstance(f, Status) and f.message else None)
    return seen


async def test_the_users_hooks_are_told_of_each_action_and_both_ends(tmp_path: Path) -> None:
    note = f"cat >> {tmp_path}/told.jsonl; pwd >> {tmp_path}/where"
    own = "".join(
        hook(event, note) for event in ("conversation_start", "before_action", "after_action", "conversation_end")
    )
    async with conversation(tmp_path, [{"tool_calls": [bash("echo hi")]}, FINISH], own=own) as session:
        await said(session)
    lines = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        "conversation_start", "before_action", "after_action", "conversation_end",
    ]  # fmt: skip
    assert lines[1]["action"]["args"]["command"] == "echo hi"
    assert lines[2]["observation"]["content"] == "hi"
    assert lines[0]["workspace"] == str(tmp_path / "workspace")
    assert set((tmp_path / "where").read_text().split()) == {str(tmp_path / "home")}, "not where others may write"


async def test_one_before_an_action_may_deny_it_with_a_reason(tmp_path: Path) -> None:
    own = hook("before_action", "grep -q forbidden && { echo 'Not on Fridays.' >&2; exit 2; }; exit 0", actions=["run"])
    turns = [{"tool_calls": [bash("touch forbidden")]}, {"tool_calls": [bash("touch fine")]}, FINISH]
    async with conversation(tmp_path, turns, own=own) as session:
        log = await said(session)
        (rejection,) = of(log, UserRejectObservation)
        assert rejection.content == "A hook denied this action: Not on Fridays."
        assert [one.exit_code for one in of(log, CmdOutputObservation)] == [0]
    assert not (tmp_path / "workspace/forbidden").exists()
    assert (tmp_path / "workspace/fine").exists()


async def test_a_hook_that_fails_is_told_once_and_stops_nothing(tmp_path: Path) -> None:
    own = (
        hook("before_action", "echo broken >&2; exit 1")
        + hook("before_action", "sleep 600", timeout_s=0.2)
        + hook("before_action", "yes >&2; exit 0", timeout_s=0.5)
        + hook("conversation_end", "exit 7")
    )
    turns = [{"tool_calls": [bash("echo one")]}, {"tool_calls": [bash("echo two")]}, FINISH]
    async with conversation(tmp_path, turns, own=own) as session:
        seen = notices(session)
        log = await said(session)
        assert [one.content for one in of(log, CmdOutputObservation)] == ["one", "two"]
    failures = [text for status, text in seen if status == HOOK_FAILED]
    assert len(failures) == 4
    assert "broken" in failures[0]
    assert "took too long" in failures[1]


async def test_a_long_action_is_told_cut(tmp_path: Path) -> None:
    own = hook("before_action", f"wc -c > {tmp_path}/size; exit 0") + hook(
        "after_action", f"cat > {tmp_path}/told; exit 0"
    )
    async with conversation(tmp_path, [{"tool_calls": [bash(f"echo {'x' * 90_000}")]}, FINISH], own=own) as session:
        await said(session)
    assert int((tmp_path / "size").read_text()) < 70_000
    assert json.loads((tmp_path / "told").read_text())["cut"] is True


async def test_a_projects_hooks_wait_for_the_users_yes(tmp_path: Path) -> None:
    project = hook("before_action", "touch ran; exit 2")
    async with conversation(
        tmp_path, [{"tool_calls": [bash("echo hi")]}, FINISH], project=project, trusts=False, scripts="always"
    ) as session:
        log = await said(session)
        assert of(log, UserRejectObservation) == []
    assert not (tmp_path / "workspace/ran").exists()


async def test_a_projects_hooks_are_not_run_where_nothing_separates_them(tmp_path: Path) -> None:
    project = hook("before_action", "touch ran; exit 2")
    async with conversation(tmp_path, [{"tool_calls": [bash("echo hi")]}, FINISH], project=project) as session:
        seen = notices(session)
        log = await said(session)
        assert of(log, UserRejectObservation) == []
    assert not (tmp_path / "workspace/ran").exists()
    assert [status for status, _ in seen].count(HOOKS_NOT_RUN) == 1


async def test_a_projects_hooks_run_through_the_sandbox_and_may_deny(tmp_path: Path) -> None:
    project = hook("before_action", "tee -a told >/dev/null; pwd >> where; echo 'It is late.' >&2; exit 2") + hook(
        "conversation_start", "touch begun"
    )
    turns = [{"tool_calls": [bash("touch denied")]}, FINISH]
    async with conversation(tmp_path, turns, project=project, scripts="always") as session:
        log = await said(session)
        assert [one.content for one in of(log, UserRejectObservation)] == ["A hook denied this action: It is late."]
        hidden = [one for one in of(log, CmdOutputObservation) if one.hidden]
        assert len(hidden) == 2, "what is run stands in the log"
    workspace = tmp_path / "workspace"
    assert (workspace / "begun").exists()
    assert not (workspace / "denied").exists()
    assert (workspace / "where").read_text().strip() == str(workspace)
    assert json.loads((workspace / "told").read_text())["action"]["args"]["command"] == "touch denied"


async def test_what_a_hook_starts_ends_with_it(tmp_path: Path) -> None:
    own = hook("before_action", f"(sleep 30; touch {tmp_path}/late) >/dev/null 2>&1 & exit 0")
    async with conversation(tmp_path, [{"tool_calls": [bash("echo hi")]}, FINISH], own=own) as session:
        await said(session)
        pgrep = shutil.which("pgrep")
        if pgrep is None:
            pytest.skip("pgrep is not here")
        process = await asyncio.create_subprocess_exec(pgrep, "-f", f"touch {tmp_path}/late")
        assert await process.wait() == 1
