"""Saved sessions are run again in real sandboxes: real shells and files, and no model."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.errors import CheckpointError, UsageError
from core.events import (
    Action,
    AgentFinishAction,
    AgentState,
    CmdRunAction,
    Envelope,
    EventSource,
    MessageAction,
)
from core.llm.registry import RERUN
from core.rerun.comparison import Outcome
from core.rerun.runner import Rerun, start_rerun
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.doubles import FINISH, bash, call, write_script
from tests.rerun.runs import LONG_S, managing, played, recorded

Turns = list[dict[str, Any]]


def outcomes(rerun: Rerun) -> list[Outcome | None]:
    return [pair.outcome for pair in rerun.pairing.pairs]


async def log_of(session: AgentSession) -> list[Envelope]:
    return await session.stream.read()


def edit(path: Path, command: str, **arguments: Any) -> dict[str, Any]:
    return call("str_replace_editor", command=command, path=str(path), security_risk="LOW", **arguments)


async def test_rerun_gives_the_same_results(tmp_path: Path) -> None:
    turns: Turns = [
        {"text": "I look.", "tool_calls": [bash("echo one; (exit 3)")]},
        {"tool_calls": [bash("echo two > f"), bash("cat f")]},
        FINISH,
    ]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        then = [e.event for e in await log_of(source) if isinstance(e.event, CmdRunAction)]
        rerun = await played(manager, source)
        assert outcomes(rerun) == [Outcome.SAME] * 3
        assert rerun.pairing.is_same
        assert rerun.session.state.agent_state is AgentState.FINISHED
        now = [e.event for e in await log_of(rerun.session) if isinstance(e.event, CmdRunAction)]
        assert [(a.command, a.thought) for a in now] == [(a.command, a.thought) for a in then]
        calls = [a.tool_call_metadata and a.tool_call_metadata.tool_call_id for a in (*then, *now)]
        assert calls[:3] == calls[3:]


async def test_rerun_works_in_a_copy_of_the_initial_workspace(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "given").write_text("at the beginning\n")
    turns: Turns = [{"tool_calls": [bash("cat given; echo changed > given")]}, FINISH]
    async with managing(tmp_path) as manager:
        rerun = await played(manager, await recorded(manager, tmp_path, turns))
        copy = Path(rerun.session.info.workspace)
        assert outcomes(rerun) == [Outcome.SAME]
        assert (copy / "given").read_text() == "changed\n"
        assert copy != workspace
        assert "a copy of the workspace" in rerun.notes[0]


async def test_rerun_without_a_checkpoint_works_in_an_empty_folder(tmp_path: Path) -> None:
    turns: Turns = [{"tool_calls": [bash("ls; echo new > new")]}, FINISH]
    async with managing(tmp_path, keep=False) as manager:
        rerun = await played(manager, await recorded(manager, tmp_path, turns))
        assert outcomes(rerun) == [Outcome.SAME]
        assert "empty folder" in rerun.notes[0]
        assert Path(rerun.session.info.workspace) != tmp_path / "workspace"


async def test_copy_is_deleted_with_its_conversation(tmp_path: Path) -> None:
    turns: Turns = [{"tool_calls": [bash("mkdir -p d/e; echo x > d/e/f; chmod 555 d/e; chmod 0 d")]}, FINISH]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        rerun = await played(manager, source)
        copy = Path(rerun.session.info.workspace)
        assert copy.is_dir()
        with pytest.raises(UsageError, match="was removed with it"):
            await manager.fork(rerun.session.id, 1, copy_files=False)
        await manager.close(rerun.session.id)
        assert not copy.exists()
        assert (tmp_path / "workspace" / "d").exists()
        with pytest.raises(UsageError, match="was removed with it"):
            await manager.open(rerun.session.id)
        assert not (await manager.list())[0].title.endswith("(fork)")
        await manager.delete(rerun.session.id)


async def test_folder_named_by_the_user_is_kept(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, [{"tool_calls": [bash("echo new > new")]}, FINISH])
        rerun = await played(manager, source, workspace=str(other))
        await manager.close(rerun.session.id)
        assert (other / "new").read_text() == "new\n"


async def test_failed_start_leaves_no_copy(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, [{"tool_calls": [bash("echo one")]}, FINISH])
        checkpoints = manager.factory.make_checkpoints(source.info.workspace, source.id)
        assert checkpoints is not None
        await checkpoints.delete()
        with pytest.raises(CheckpointError, match="--workspace"):
            await start_rerun(manager, source.id)
        assert os.listdir(manager.store.home / "again") == []


async def test_paused_run_ends_when_its_conversation_is_closed(tmp_path: Path) -> None:
    turns: Turns = [{"tool_calls": [bash("echo one"), bash("echo two")]}, FINISH]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        rerun = await start_rerun(manager, source.id)
        rerun.control.pause()
        playing = asyncio.create_task(rerun.play())
        async with asyncio.timeout(LONG_S):
            while not rerun.control.is_waiting:
                rerun.changed.clear()
                await rerun.changed.wait()
            await manager.close(rerun.session.id)
            assert await playing is False
        assert not rerun.has_ended
        assert not Path(rerun.session.info.workspace).exists()


async def test_next_start_removes_only_copies_of_killed_processes(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, signal, sys, pathlib\n"
        "from core.rerun.runner import start_rerun\n"
        "from tests.rerun.runs import managing, recorded\n"
        "from tests.doubles import FINISH, bash\n"
        "async def main():\n"
        "    folder = pathlib.Path(sys.argv[1])\n"
        "    async with managing(folder) as manager:\n"
        "        source = await recorded(manager, folder, [{'tool_calls': [bash('echo one')]}, FINISH])\n"
        "        again = await start_rerun(manager, source.id)\n"
        "        print(source.id, again.session.info.workspace, flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False, timeout=120)
    source_id, left = done.stdout.decode().split()
    users = Path(left).with_name("notes.of-the-user")
    users.mkdir()
    assert Path(left).is_dir()
    async with managing(tmp_path) as living:
        own = await start_rerun(living, source_id)
        async with managing(tmp_path):
            pass  # starts and ends beside it
        assert not Path(left).exists()
        assert Path(own.session.info.workspace).is_dir()
    assert os.listdir(users.parent) == [users.name]


async def test_recorded_folder_is_not_touched(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    turns: Turns = [
        {"tool_calls": [edit(workspace / "run.sh", "create", file_text=f"echo script > {workspace}/by_script\n")]},
        {"tool_calls": [bash(f"cd {workspace} && sh run.sh && echo done > '{workspace}/by_command' && pwd")]},
        FINISH,
    ]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        for name in ("run.sh", "by_script", "by_command"):
            (workspace / name).unlink()
        rerun = await played(manager, source)
        copy = Path(rerun.session.info.workspace)
        assert {path.name for path in copy.iterdir()} == {"run.sh", "by_script", "by_command"}
        assert list(workspace.iterdir()) == []
        assert rerun.pairing.is_same
        assert rerun.pairing.pairs[1].outcome is Outcome.ALIKE
        assert f"In this run, {workspace} is {copy}." in rerun.notes


async def test_changed_file_is_the_only_difference(tmp_path: Path) -> None:
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    for folder, text in ((workspace, "a\nb\nc\n"), (other, "a\nB\nc\n")):
        folder.mkdir()
        (folder / "given").write_text(text)
    command = "date; echo $$; mktemp; sleep 0.01; python3 -c 'print(object())'; ls -l given"
    turns: Turns = [{"tool_calls": [bash("cat given"), bash(command), bash("ls /nowhere")]}, FINISH]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        rerun = await played(manager, source, workspace=str(other))
        assert outcomes(rerun)[0] is Outcome.DIFFERENT
        assert outcomes(rerun)[2] is Outcome.SAME
        comparison = rerun.pairing.pairs[0].comparison
        assert comparison is not None
        (line,) = [line for line in comparison.lines if line.outcome is Outcome.DIFFERENT]
        assert (line.recorded, line.new) == ("b", "B")
        assert not rerun.pairing.is_same


async def test_expected_differences_do_not_count(tmp_path: Path) -> None:
    commands = "date", "mktemp", "touch a; ls -l a", "python3 -c 'print(object())'", "sleep 1 & time true", "pwd"
    turns: Turns = [{"tool_calls": [bash(command) for command in commands]}, FINISH]
    async with managing(tmp_path) as manager:
        rerun = await played(manager, await recorded(manager, tmp_path, turns))
        assert rerun.pairing.is_same, [pair.comparison for pair in rerun.pairing.pairs]


async def test_messages_and_commands_of_the_user_keep_their_places(tmp_path: Path) -> None:
    turns: Turns = [
        {"tool_calls": [bash("echo 1 >> f")]},
        FINISH,
        {"tool_calls": [bash("cat f")]},
        {"text": "What next?"},
        {"tool_calls": [bash("cat f")]},
        FINISH,
    ]
    async with managing(tmp_path) as manager:
        says = "first", "!echo mine >> f", "second", "!cat f", "!echo more >> f", "third", "!cat f"
        source = await recorded(manager, tmp_path, turns, *says)
        then = _done(await log_of(source))
        rerun = await played(manager, source)
        assert _done(await log_of(rerun.session)) == then
        assert outcomes(rerun) == [Outcome.SAME] * 7
        assert rerun.session.state.agent_state is AgentState.FINISHED


def _done(log: list[Envelope]) -> list[str]:
    """Messages and commands in order, with their sources."""
    found = []
    for envelope in log:
        match envelope.event:
            case MessageAction(content=text) | CmdRunAction(command=text):
                found.append(f"{envelope.source}: {text}")
            case AgentFinishAction():
                found.append("finish")
    return found


async def test_interrupted_recording_is_run_to_the_end(tmp_path: Path) -> None:
    """The agent waits for the user's command, as in the recording, and what the user stopped is not run again."""
    turns: Turns = [
        {"tool_calls": [bash("echo begun")]},
        {"tool_calls": [bash("echo running; sleep 600")]},
        {"tool_calls": [bash("echo after")]},
        FINISH,
    ]
    async with managing(tmp_path) as manager:
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        source = await manager.create(workspace=str(workspace), model=write_script(tmp_path, turns))
        running = asyncio.Event()
        source.frames.watch(lambda frame: running.set() if b"running" in getattr(frame, "data", b"") else None)
        async with asyncio.timeout(LONG_S):
            await source.send("go")
            await running.wait()
            await source.interrupt()
            await source.settled()
            await source.user_control.run_command("echo mine")
            await source.user_control.commands.ended()
            await source.send("go on")
            await source.settled()
        rerun = await played(manager, source)
        assert outcomes(rerun) == [Outcome.SAME, Outcome.NOT_RUN, Outcome.SAME, Outcome.SAME]
        messages = [e.event.message for e in await log_of(rerun.session) if _is_agents_word(e)]
        assert messages[0].startswith("[Not run again: the user stopped it.]")
        assert rerun.session.state.agent_state is AgentState.FINISHED


def _is_agents_word(envelope: Envelope) -> bool:
    return isinstance(envelope.event, MessageAction) and envelope.source is EventSource.AGENT


async def test_run_stops_at_the_first_difference_and_continues_by_steps(tmp_path: Path) -> None:
    turns: Turns = [{"tool_calls": [bash("cat given"), bash("echo two"), bash("echo three")]}, FINISH]
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    workspace.mkdir()
    other.mkdir()
    (workspace / "given").write_text("x")
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        await manager.close(source.id)
        rerun = await start_rerun(manager, source.id, workspace=str(other), stop_at_difference=True)
        playing = asyncio.create_task(rerun.play())
        async with asyncio.timeout(LONG_S):
            await _held(rerun)
            assert rerun.stopped_at == 0
            assert outcomes(rerun) == [Outcome.DIFFERENT, None, None]
            rerun.control.step()
            await _held(rerun, after=1)
            assert outcomes(rerun) == [Outcome.DIFFERENT, Outcome.SAME, None]
            rerun.control.resume()
            assert await playing
        assert outcomes(rerun) == [Outcome.DIFFERENT, Outcome.SAME, Outcome.SAME]


async def _held(rerun: Rerun, after: int = 0) -> None:
    """Return when the run waits with this many results more."""
    while not (rerun.control.is_waiting and sum(pair.result is not None for pair in rerun.pairing.pairs) > after):
        rerun.changed.clear()
        await rerun.changed.wait()


async def test_loop_in_the_recording_does_not_stop_the_run(tmp_path: Path) -> None:
    turns: Turns = [*[{"tool_calls": [bash("echo same")]}] * 6, FINISH]
    settings = Settings.model_validate({"agent": {"confirm": "never"}})
    async with managing(tmp_path, settings=settings) as manager:
        source = await recorded(manager, tmp_path, turns)
        async with asyncio.timeout(LONG_S):
            while source.state.agent_state is AgentState.PAUSED:
                await source.resume()
                await source.settled()
        rerun = await played(manager, source)
        assert outcomes(rerun) == [Outcome.SAME] * 6


@pytest.mark.parametrize("end", [[FINISH], []], ids=["finished", "broken off"])
async def test_run_asks_for_approval_as_configured(tmp_path: Path, end: Turns) -> None:
    turns: Turns = [{"tool_calls": [bash("echo one"), bash("echo two")]}, *end]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        await manager.close(source.id)
        manager.settings = Settings.model_validate({"agent": {"confirm": "always"}})
        rerun = await start_rerun(manager, source.id)
        asked: list[str] = []

        async def ask(envelope: Envelope) -> str | None:
            assert isinstance(envelope.event, Action)
            asked.append(envelope.event.message)
            return None if len(asked) == 1 else "not this one"

        async with asyncio.timeout(LONG_S):
            assert await rerun.play(ask)
        assert asked == ["Running command: echo one", "Running command: echo two"]
        assert outcomes(rerun) == [Outcome.SAME, Outcome.MISSING]
        assert not rerun.pairing.is_same


async def test_refused_actions_are_not_asked_about_again(tmp_path: Path) -> None:
    settings = Settings.model_validate({"agent": {"confirm": "always"}})
    turns: Turns = [{"tool_calls": [bash("echo refused")]}, FINISH]
    async with managing(tmp_path, settings=settings) as manager:
        source = await recorded(manager, tmp_path, turns)
        async with asyncio.timeout(LONG_S):
            await source.approval.reject("no")
            await source.settled()
        rerun = await played(manager, source)
        assert outcomes(rerun) == [Outcome.NOT_RUN]
        assert rerun.session.state.agent_state is AgentState.FINISHED


async def test_conversation_without_actions_is_refused(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, [{"text": "Nothing to do."}])
        await manager.close(source.id)
        with pytest.raises(UsageError, match="no actions"):
            await start_rerun(manager, source.id)
        with pytest.raises(UsageError, match="no conversation nowhere"):
            await start_rerun(manager, "nowhere")


# -- no model ------------------------------------------------------------------------------------------------------


async def test_rerun_never_uses_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: Turns = [{"tool_calls": [bash("echo one")]}, {"text": "And then?"}]
    paid = {"ANTHROPIC_API_KEY": "k"}
    settings = Settings.model_validate(
        {"model": "anthropic/claude-x", "llm": {"title_model": "anthropic/claude-x"}, "agent": {"confirm": "never"}}
    )
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
    async with managing(tmp_path, settings=settings, environ=paid) as manager:
        started: list[object] = []
        monkeypatch.setattr(asyncio, "create_subprocess_exec", _watched(started))
        rerun = await start_rerun(manager, source.id, workspace=source.info.workspace)
        async with asyncio.timeout(LONG_S):
            assert await rerun.play()
            assert outcomes(rerun) == [Outcome.SAME]
            assert rerun.session.info.model == rerun.session.active_model.name == RERUN
            await rerun.session.send("And now do more.")  # after the end, too
            await rerun.session.settled()
        assert _done(await log_of(rerun.session))[-1] == "finish"
        assert not [command for command in started if "core.llm.model_host" in str(command)]
        assert (await manager.store.spent()).calls == 2  # of the recording
        await manager.close(rerun.session.id)
        reopened = await manager.open(rerun.session.id)
        async with asyncio.timeout(LONG_S):
            await reopened.send("Go on.")
            await reopened.settled()
        assert reopened.state.agent_state is AgentState.ERROR
        assert "has no model" in reopened.state.reason


def _watched(started: list[object]) -> Any:
    real = asyncio.create_subprocess_exec

    async def start(*command: Any, **how: Any) -> Any:
        started.append(command)
        return await real(*command, **how)

    return start


def test_rerun_loads_no_model_provider(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from tests.rerun.runs import managing, played, recorded\n"
        "from tests.doubles import FINISH, bash\n"
        "async def main():\n"
        "    folder = pathlib.Path(sys.argv[1])\n"
        "    async with managing(folder) as manager:\n"
        "        source = await recorded(manager, folder, [{'tool_calls': [bash('echo one')]}, FINISH])\n"
        "        again = await played(manager, source)\n"
        "        assert again.pairing.is_same\n"
        "asyncio.run(main())\n"
        "import json; print(json.dumps([m for m in ('litellm', 'openai', 'tiktoken') if m in sys.modules]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode().splitlines()[-1]) == []
