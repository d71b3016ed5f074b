"""Hooks in whole conversations and alone: the user's on this machine, a trusted project's in the sandbox."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.actions.middleware import run_hooks
from core.conversations.conversation_manager import ConversationManager
from core.errors import RuntimeUnavailableError, StoreError
from core.events import (
    Action,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    MCPAction,
    MCPObservation,
    NullObservation,
    Observation,
    RecallObservation,
    Status,
    UserRejectObservation,
)
from core.hooks.hooks import (
    HOOK_FAILED,
    HOOKS_NOT_RUN,
    MAX_STDERR_BYTES,
    MAX_TEXT_CHARS,
    NO_REASON,
    HookResult,
    Hooks,
    run_on_host,
)
from core.memory.library import Gathered, UserFolders
from core.memory.memory import Memory
from core.session.agent_session import AgentSession
from core.settings.config import SandboxSettings, Settings
from core.store.conversations import ConversationInfo
from core.stream import Frames
from core.trust.folder_survey import survey_project
from core.trust.hook_file import Hook, Moment
from core.trust.trust_store import TrustPolicy
from tests.actions.pipelines import through
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script
from tests.runtime.conftest import has_ended
from tests.streams import heard, opened_stream
from tests.warm_servers import WarmRuntime

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
    """A conversation with these hooks, without isolation."""
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
    async with ConversationManager(home, settings, make_runtime=WarmRuntime, environ={}) as manager:
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


async def test_user_hooks_run_for_each_action_and_for_start_and_end(tmp_path: Path) -> None:
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


async def test_hook_before_an_action_may_deny_it_with_a_reason(tmp_path: Path) -> None:
    own = hook("before_action", "grep -q forbidden && { echo 'Not on Fridays.' >&2; exit 2; }; exit 0", actions=["run"])
    turns = [{"tool_calls": [bash("touch forbidden")]}, {"tool_calls": [bash("touch fine")]}, FINISH]
    async with conversation(tmp_path, turns, own=own) as session:
        log = await said(session)
        (rejection,) = of(log, UserRejectObservation)
        assert rejection.content == "A hook denied this action: Not on Fridays."
        assert [one.exit_code for one in of(log, CmdOutputObservation)] == [0]
    assert not (tmp_path / "workspace/forbidden").exists()
    assert (tmp_path / "workspace/fine").exists()


async def test_failed_hook_is_reported_once_and_stops_nothing(tmp_path: Path) -> None:
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


async def test_long_action_is_truncated_for_hooks(tmp_path: Path) -> None:
    own = hook("before_action", f"wc -c > {tmp_path}/size; exit 0") + hook(
        "after_action", f"cat > {tmp_path}/told; exit 0"
    )
    async with conversation(tmp_path, [{"tool_calls": [bash(f"echo {'x' * 90_000}")]}, FINISH], own=own) as session:
        await said(session)
    assert int((tmp_path / "size").read_text()) < 70_000
    assert json.loads((tmp_path / "told").read_text())["cut"] is True


async def test_project_hooks_need_the_trust_of_the_user(tmp_path: Path) -> None:
    project = hook("before_action", "touch ran; exit 2")
    async with conversation(
        tmp_path, [{"tool_calls": [bash("echo hi")]}, FINISH], project=project, trusts=False, scripts="always"
    ) as session:
        log = await said(session)
        assert of(log, UserRejectObservation) == []
    assert not (tmp_path / "workspace/ran").exists()


async def test_project_hooks_do_not_run_without_isolation(tmp_path: Path) -> None:
    project = hook("before_action", "touch ran; exit 2")
    async with conversation(tmp_path, [{"tool_calls": [bash("echo hi")]}, FINISH], project=project) as session:
        seen = notices(session)
        log = await said(session)
        assert of(log, UserRejectObservation) == []
    assert not (tmp_path / "workspace/ran").exists()
    assert [status for status, _ in seen].count(HOOKS_NOT_RUN) == 1


async def test_project_hooks_run_in_the_sandbox_and_may_deny(tmp_path: Path) -> None:
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


async def test_processes_of_a_hook_end_with_it(tmp_path: Path) -> None:
    own = hook("before_action", f"(sleep 30; touch {tmp_path}/late) >/dev/null 2>&1 & exit 0")
    async with conversation(tmp_path, [{"tool_calls": [bash("echo hi")]}, FINISH], own=own) as session:
        await said(session)
        pgrep = shutil.which("pgrep")
        if pgrep is None:
            pytest.skip("pgrep is not here")
        process = await asyncio.create_subprocess_exec(pgrep, "-f", f"touch {tmp_path}/late")
        assert await process.wait() == 1


# -- without a conversation around them --------------------------------------------------------------------------------

RUN = CmdRunAction(command="make")


class Walled(ScriptedRuntime):
    """A sandbox with isolation."""

    isolation = "docker"


class Unreadable(Memory):
    """Cannot be asked, because the store is gone."""

    async def look(self, *, reports: bool = True) -> Gathered:
        raise StoreError("The store is gone.")


async def at_once() -> None:
    """The sandbox is ready."""


@asynccontextmanager
async def alone(
    tmp_path: Path,
    own: str = "",
    project: str = "",
    *,
    scripts: str = "always",
    runtime: ScriptedRuntime | None = None,
    ready: Callable[[], Awaitable[None]] = at_once,
    kind: type[Memory] = Memory,
    is_known: bool = True,
) -> AsyncIterator[tuple[Hooks, list[tuple[str, str, str]]]]:
    """The hooks of such files, and the notices. Hooks of a project are run by `runtime`."""
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    (workspace / ".handloom").mkdir(parents=True)
    home.mkdir(mode=0o700)
    (home / "hooks.toml").write_text(own)
    (workspace / ".handloom/hooks.toml").write_text(project)
    gate = TrustPolicy(home, lambda: "ask")
    standing = gate.state_of(survey_project(workspace))
    gate.store.approve(standing.survey.folder, standing.waiting)
    runtime, frames, now = runtime or ScriptedRuntime(ended(0)), Frames(), datetime.now(UTC)
    async with opened_stream(tmp_path / "store") as stream:
        memory = kind(
            own=UserFolders(home) if is_known else None,
            policy=gate,
            info=ConversationInfo("c", "", str(workspace), "m", now, now, 0),
            runtime=runtime,
            stream=stream,
            frames=frames,
            secrets=dict,
            add_facts=unchanged,
        )
        settings = SandboxSettings.model_validate({"run_repository_scripts": scripts})
        hooks = Hooks(memory=memory, settings=settings, runtime=runtime, stream=stream, frames=frames, ready=ready)
        yield hooks, heard(frames)


async def unchanged(found: RecallObservation | NullObservation) -> RecallObservation | NullObservation:
    return found


def ended(exit_code: int, content: str = "", suffix: str = "") -> Callable[[Action], CmdOutputObservation]:
    """A runtime's answer to every command."""
    metadata = CmdOutputMetadata(exit_code=exit_code, suffix=suffix)
    return lambda action: CmdOutputObservation(command="", content=content, metadata=metadata)


def asked(runtime: ScriptedRuntime) -> list[str]:
    """What hooks of a project were carried out, each by its command's first word."""
    return [
        re.findall(r"sh -c '?(\w+)", action.command)[0]
        for action in runtime.executed
        if isinstance(action, CmdRunAction)
    ]


async def test_hooks_run_in_order_until_one_denies(tmp_path: Path) -> None:
    note = f"echo %s >> {tmp_path}/order; exit %d"
    own = hook("before_action", note % ("one", 0)) + hook("before_action", note % ("other", 0), actions=["edit"])
    own += hook("before_action", "grep -q make && { echo 'No make.' >&2; exit 2; }; exit 0")
    own += hook("before_action", note % ("two", 0)) + hook("after_action", note % ("after", 2))
    project = (
        hook("before_action", "first")
        + hook("before_action", "second", actions=["edit"])
        + hook("before_action", "third", actions=["run", "read"])
    )
    runtime = ScriptedRuntime(ended(0))
    async with alone(tmp_path, own, project, runtime=runtime) as (hooks, told):
        await hooks.begin()
        assert await hooks.before(RUN) == "No make."
        assert asked(runtime) == []
        assert await hooks.before(CmdRunAction(command="ls")) == ""
        assert asked(runtime) == ["first", "third"]
        assert (tmp_path / "order").read_text().split() == ["one", "one", "two"]
        runtime.answer = ended(2, " Not now.\n")
        assert await hooks.before(CmdRunAction(command="ls")) == "Not now."
        assert asked(runtime) == ["first", "third", "first"]
        assert told == []
        assert await hooks.run(Moment.AFTER_ACTION, RUN) == "", "what is done cannot be denied"
        assert [id for _, id, _ in told] == [HOOK_FAILED]


@pytest.mark.parametrize(
    ("scripts", "runtime", "run", "is_told"),
    [
        ("always", ScriptedRuntime, 1, False),
        ("isolated", Walled, 1, False),
        ("isolated", ScriptedRuntime, 0, True),
        ("never", Walled, 0, False),
    ],
)
async def test_project_hooks_run_depending_on_settings_and_isolation(
    tmp_path: Path, scripts: str, runtime: type[ScriptedRuntime], run: int, is_told: bool
) -> None:
    made = runtime(ended(0))
    async with alone(tmp_path, "", hook("before_action", "mine"), scripts=scripts, runtime=made) as (hooks, told):
        await hooks.begin()
        assert await hooks.before(RUN) == ""
        assert await hooks.before(RUN) == ""
        assert len(made.executed) == 2 * run
        assert [(level, id) for level, id, _ in told] == [("error", HOOKS_NOT_RUN)] * is_told, "once"


async def fails() -> None:
    raise RuntimeUnavailableError("No sandbox.")


@pytest.mark.parametrize(
    ("answer", "ready", "denied", "why"),
    [
        (ended(0, "noise"), at_once, "", ""),
        (ended(2), at_once, NO_REASON, ""),
        (ended(2, "r" * 3000), at_once, "r" * 2000, ""),
        (ended(1, "y" + "x" * 200 + "\n"), at_once, "", f"failed; the work goes on. {'x' * 200}"),
        (ended(124), at_once, "", "failed; the work goes on."),
        (ended(124, "", "\n[The command timed out.]"), at_once, "", "took too long; the work goes on."),
        (ended(3, "", "\n[It timed out.]"), at_once, "", "failed; the work goes on."),
        (lambda _: ErrorObservation(content="odd"), at_once, "", "could not be run; the work goes on. odd"),
        (ended(0), fails, "", "could not be run; the work goes on. No sandbox."),
    ],
)
async def test_exit_status_of_a_sandbox_hook_decides(
    tmp_path: Path, answer: Callable[[Action], Observation], ready: Any, denied: str, why: str
) -> None:
    runtime = ScriptedRuntime(answer)
    project = hook("before_action", "c" * 100)
    async with alone(tmp_path, "", project, runtime=runtime, ready=ready) as (hooks, told):
        await hooks.begin()
        assert await hooks.before(RUN) == denied
        expected = [("error", HOOK_FAILED, f"The hook `{'c' * 80}` {why}")] if why else []
        assert told == expected
        for action in runtime.executed:
            assert isinstance(action, CmdRunAction)
            assert (action.cwd, action.is_static, action.hidden) == ("/workspace", True, True)


async def test_project_start_and_end_hooks_run_only_if_the_sandbox_was_used(tmp_path: Path) -> None:
    project = hook("conversation_start", "start") + hook("conversation_end", "end") + hook("before_action", "before")
    own = hook("conversation_end", f"echo end >> {tmp_path}/own")
    runtime = ScriptedRuntime(ended(0))
    async with alone(tmp_path, own, project, runtime=runtime) as (hooks, _):
        await hooks.end()
        await hooks.begin()
        assert asked(runtime) == []
        await hooks.before(RUN)
        await hooks.before(RUN)
        assert asked(runtime) == ["start", "before", "before"]
        await hooks.end()
        await hooks.end()
        assert asked(runtime)[3:] == ["end"]
        assert (tmp_path / "own").read_text() == "end\n"


async def test_without_actions_only_user_hooks_run_at_the_end(tmp_path: Path) -> None:
    runtime, own = ScriptedRuntime(ended(0)), hook("conversation_end", f"echo end >> {tmp_path}/own")
    async with alone(tmp_path, own, hook("conversation_end", "end"), runtime=runtime) as (hooks, _):
        await hooks.begin()
        await hooks.end()
        assert (asked(runtime), (tmp_path / "own").read_text()) == ([], "end\n")


@pytest.mark.parametrize(("kind", "is_known"), [(Unreadable, True), (Memory, False)])
async def test_work_goes_on_if_hooks_cannot_be_loaded(tmp_path: Path, kind: type[Memory], is_known: bool) -> None:
    own = "".join(hook(event, f"touch {tmp_path}/ran") for event in ("conversation_start", "conversation_end"))
    async with alone(tmp_path, own, kind=kind, is_known=is_known) as (hooks, told):
        await hooks.begin()
        assert await hooks.before(RUN) == ""
        await hooks.end()
        assert told == []
    assert not (tmp_path / "ran").exists()


async def test_actions_wait_for_the_start_hooks(tmp_path: Path) -> None:
    async with alone(tmp_path) as (hooks, _):
        waiting = asyncio.create_task(hooks.before(RUN))
        await asyncio.wait([waiting], timeout=0)
        assert not waiting.done()
        await hooks.begin()
        assert await waiting == ""


async def test_hook_input_is_bounded_per_text_and_in_total(tmp_path: Path) -> None:
    own = hook("after_action", f"cat > {tmp_path}/told")
    short = MCPAction(name="n", arguments={"list": ["one", 2, None]}, thought="k" * MAX_TEXT_CHARS)
    long = MCPAction(name="n", arguments={"text": "t" * (MAX_TEXT_CHARS + 1), "list": [{"x": "y" * 9000}, 7]})
    huge = MCPAction(name="n", arguments={str(n): "t" * MAX_TEXT_CHARS for n in range(17)})
    async with alone(tmp_path, own) as (hooks, _):
        await hooks.begin()

        async def told(action: Action) -> dict[str, Any]:
            seen = MCPObservation(name="n", arguments={}, content="fine")
            assert await hooks.run(Moment.AFTER_ACTION, action, seen) == ""
            line = (tmp_path / "told").read_text()
            assert line.endswith("}\n")
            assert len(line) <= 64 * 1024 + 1
            said: dict[str, Any] = json.loads(line)
            assert (said["event"], said["conversation"]) == ("after_action", "c")
            assert (said["workspace"], said["sandbox_workspace"]) == (str(tmp_path / "workspace"), "/workspace")
            return said

        whole = await told(short)
        assert whole["action"]["args"]["arguments"] == short.arguments
        assert (whole["action"]["args"]["thought"], "cut" in whole) == (short.thought, False)
        assert whole["observation"]["content"] == "fine"
        cut = await told(long)
        expected = {"text": "t" * MAX_TEXT_CHARS, "list": [{"x": "y" * MAX_TEXT_CHARS}, 7]}
        assert (cut["action"]["args"]["arguments"], cut["cut"]) == (expected, True)
        bare = await told(huge)
        assert (bare["action"], bare["cut"]) == ({"action": "call_tool_mcp", "observation": None}, True)
        assert bare["observation"] == {"action": None, "observation": "mcp"}


async def test_denied_action_is_not_run_and_hooks_after_an_action_change_nothing(tmp_path: Path) -> None:
    runtime, executor = ScriptedRuntime(ended(2, "No.")), ScriptedRuntime(ended(0, "made"))
    project = hook("before_action", "before", actions=["run"]) + hook("after_action", "after")
    async with alone(tmp_path, "", project, runtime=runtime) as (hooks, _):
        await hooks.begin()
        execute = through(run_hooks, executor, hooks=hooks)
        denied = await execute(RUN, 1)
        assert denied == UserRejectObservation(content="A hook denied this action: No.")
        assert executor.executed == []
        runtime.answer = ended(0)
        assert await execute(RUN, 1) == ended(0, "made")(RUN)
        assert asked(runtime) == ["before", "before", "after"]
        runtime.answer = lambda action: None if "after" in str(action) else ended(0)(action)
        runtime.started.clear()
        waiting = asyncio.ensure_future(execute(MCPAction(name="n"), 1))
        await runtime.started.wait()
        waiting.cancel()
        assert await waiting == ended(0, "made")(RUN), "what the action did stands"
        assert len(executor.executed) == 2


async def host_ended(folder: Path, command: str, line: bytes = b"{}\n", timeout_s: float = 20.0) -> HookResult:
    async with asyncio.timeout(20):
        return await run_on_host(Hook(Moment.AFTER_ACTION, command, timeout_s=timeout_s), line, folder)


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("true", HookResult(0)),
        ("exit 3", HookResult(3)),
        ("echo out; echo err >&2", HookResult(0, "err\n")),
        ("cat >&2; exit 2", HookResult(2, '{"event": "x"}\n')),
        ("exec 0<&-; echo done >&2", HookResult(0, "done\n")),
        ("printf '\\377' >&2", HookResult(0, "\ufffd")),
        ("pwd | xargs basename >&2", HookResult(0, "here\n")),
    ],
)
async def test_hook_gets_json_on_stdin_and_its_stderr_is_read(tmp_path: Path, command: str, result: HookResult) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    assert await host_ended(folder, command, b'{"event": "x"}\n') == result


async def test_stderr_of_a_hook_is_drained_and_truncated(tmp_path: Path) -> None:
    result = await host_ended(tmp_path, "printf a >&2; head -c 300000 /dev/zero | tr '\\0' b >&2; exit 1")
    assert result == HookResult(1, "a" + "b" * (MAX_STDERR_BYTES - 1))


async def test_hook_that_ignores_its_input_does_not_fail(tmp_path: Path) -> None:
    assert await host_ended(tmp_path, "exec 0<&-; exit 0", b"x" * 1_000_000) == HookResult(0)


async def test_hook_that_times_out_is_killed_with_its_children(tmp_path: Path) -> None:
    result = await host_ended(tmp_path, "sleep 60 & echo $! > child; echo $$ > own; wait", timeout_s=1.0)
    assert result == HookResult(None, timed_out=True)
    for name in ("own", "child"):
        assert has_ended(int((tmp_path / name).read_text()))


async def test_hook_that_cannot_run_reports_the_reason(tmp_path: Path) -> None:
    assert await host_ended(tmp_path / "gone", "true") == HookResult(None, "No such file or directory")
