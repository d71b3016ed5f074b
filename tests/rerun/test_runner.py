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
from core.llm.no_model import AGAIN
from core.rerun.comparison import Outcome
from core.rerun.runner import Again, begin
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.doubles import FINISH, bash, call, write_script
from tests.rerun.runs import LONG_S, managing, played, recorded

Turns = list[dict[str, Any]]


def outcomes(again: Again) -> list[Outcome | None]:
    return [pair.outcome for pair in again.pairing.pairs]


async def log_of(session: AgentSession) -> list[Envelope]:
    return await session.stream.read()


def edit(path: Path, command: str, **arguments: Any) -> dict[str, Any]:
    return call("str_replace_editor", command=command, path=str(path), security_risk="LOW", **arguments)


async def test_a_session_run_again_comes_out_the_same(tmp_path: Path) -> None:
    turns: Turns = [
        {"text": "I look.", "tool_calls": [bash("echo one; (exit 3)")]},
        {"tool_calls": [bash("echo two > f"), bash("cat f")]},
        FINISH,
    ]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        then = [e.event for e in await log_of(source) if isinstance(e.event, CmdRunAction)]
        again = await played(manager, source)
        assert outcomes(again) == [Outcome.SAME] * 3
        assert again.pairing.is_same
        assert again.session.state.agent_state is AgentState.FINISHED
        now = [e.event for e in await log_of(again.session) if isinstance(e.event, CmdRunAction)]
        assert [(a.command, a.thought) for a in now] == [(a.command, a.thought) for a in then]
        calls = [a.tool_call_metadata and a.tool_call_metadata.tool_call_id for a in (*then, *now)]
        assert calls[:3] == calls[3:]


async def test_it_works_in_a_copy_of_the_workspace_as_it_was_at_the_beginning(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "given").write_text("at the beginning\n")
    turns: Turns = [{"tool_calls": [bash("cat given; echo changed > given")]}, FINISH]
    async with managing(tmp_path) as manager:
        again = await played(manager, await recorded(manager, tmp_path, turns))
        copy = Path(again.session.info.workspace)
        assert outcomes(again) == [Outcome.SAME]
        assert (copy / "given").read_text() == "changed\n"
        assert copy != workspace
        assert "a copy of the workspace" in again.notes[0]


async def test_without_a_checkpoint_it_works_in_an_empty_folder_and_says_so(tmp_path: Path) -> None:
    turns: Turns = [{"tool_calls": [bash("ls; echo new > new")]}, FINISH]
    async with managing(tmp_path, keep=False) as manager:
        again = await played(manager, await recorded(manager, tmp_path, turns))
        assert outcomes(again) == [Outcome.SAME]
        assert "empty folder" in again.notes[0]
        assert Path(again.session.info.workspace) != tmp_path / "workspace"


async def test_the_copy_goes_with_the_conversation_that_works_in_it(tmp_path: Path) -> None:
    turns: Turns = [{"tool_calls": [bash("mkdir -p d/e; echo x > d/e/f; chmod 555 d/e; chmod 0 d")]}, FINISH]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        again = await played(manager, source)
        copy = Path(again.session.info.workspace)
        assert copy.is_dir()
        with pytest.raises(UsageError, match="goes with the run"):
            await manager.fork(again.session.id, 1, copy_files=False)
        await manager.close(again.session.id)
        assert not copy.exists()
        assert (tmp_path / "workspace" / "d").exists()
        with pytest.raises(UsageError, match="goes with the run"):
            await manager.open(again.session.id)
        assert not (await manager.list())[0].title.endswith("(fork)")
        await manager.delete(again.session.id)


async def test_a_folder_that_the_user_named_stays(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, [{"tool_calls": [bash("echo new > new")]}, FINISH])
        again = await played(manager, source, workspace=str(other))
        await manager.close(again.session.id)
        assert (other / "new").read_text() == "new\n"


async def test_a_run_that_cannot_begin_leaves_no_copy(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, [{"tool_calls": [bash("echo one")]}, FINISH])
        checkpoints = manager.factory.make_checkpoints(source.info.workspace, source.id)
        assert checkpoints is not None
        await checkpoints.delete()
        with pytest.raises(CheckpointError, match="--workspace"):
            await begin(manager, source.id)
        assert os.listdir(manager.store.home / "again") == []


async def test_what_waits_for_somebody_ends_when_the_conversation_is_closed(tmp_path: Path) -> None:
    turns: Turns = [{"tool_calls": [bash("echo one"), bash("echo two")]}, FINISH]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        again = await begin(manager, source.id)
        again.gate.pause()
        playing = asyncio.create_task(again.play())
        async with asyncio.timeout(LONG_S):
            while not again.gate.holds:
                again.changed.clear()
                await again.changed.wait()
            await manager.close(again.session.id)
            assert await playing is False
        assert not again.is_over
        assert not Path(again.session.info.workspace).exists()


async def test_the_next_start_takes_away_what_a_killed_process_left_and_nothing_else(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, signal, sys, pathlib\n"
        "from core.rerun.runner import begin\n"
        "from tests.rerun.runs import managing, recorded\n"
        "from tests.doubles import FINISH, bash\n"
        "async def main():\n"
        "    folder = pathlib.Path(sys.argv[1])\n"
        "    async with managing(folder) as manager:\n"
        "        source = await recorded(manager, folder, [{'tool_calls': [bash('echo one')]}, FINISH])\n"
        "        again = await begin(manager, source.id)\n"
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
        own = await begin(living, source_id)
        async with managing(tmp_path):
            pass  # starts and ends beside it
        assert not Path(left).exists()
        assert Path(own.session.info.workspace).is_dir()
    assert os.listdir(users.parent) == [users.name]


async def test_what_names_the_recorded_folder_does_not_reach_into_it(tmp_path: Path) -> None:
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
        again = await played(manager, source)
        copy = Path(again.session.info.workspace)
        assert {path.name for path in copy.iterdir()} == {"run.sh", "by_script", "by_command"}
        assert list(workspace.iterdir()) == []
        assert again.pairing.is_same
        assert again.pairing.pairs[1].outcome is Outcome.ALIKE
        assert f"In this run, {workspace} is {copy}." in again.notes


async def test_a_changed_file_makes_a_difference_and_nothing_else_does(tmp_path: Path) -> None:
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    for folder, text in ((workspace, "a\nb\nc\n"), (other, "a\nB\nc\n")):
        folder.mkdir()
        (folder / "given").write_text(text)
    command = "date; echo $$; mktemp; sleep 0.01; python3 -c 'print(object())'; ls -l given"
    turns: Turns = [{"tool_calls": [bash("cat given"), bash(command), bash("ls /nowhere")]}, FINISH]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        again = await played(manager, source, workspace=str(other))
        assert outcomes(again)[0] is Outcome.DIFFERENT
        assert outcomes(again)[2] is Outcome.SAME
        comparison = again.pairing.pairs[0].comparison
        assert comparison is not None
        (line,) = [line for line in comparison.lines if line.outcome is Outcome.DIFFERENT]
        assert (line.recorded, line.new) == ("b", "B")
        assert not again.pairing.is_same


async def test_what_always_differs_is_no_difference(tmp_path: Path) -> None:
    commands = "date", "mktemp", "touch a; ls -l a", "python3 -c 'print(object())'", "sleep 1 & time true", "pwd"
    turns: Turns = [{"tool_calls": [bash(command) for command in commands]}, FINISH]
    async with managing(tmp_path) as manager:
        again = await played(manager, await recorded(manager, tmp_path, turns))
        assert again.pairing.is_same, [pair.comparison for pair in again.pairing.pairs]


async def test_the_users_words_and_commands_come_at_their_places(tmp_path: Path) -> None:
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
        again = await played(manager, source)
        assert _done(await log_of(again.session)) == then
        assert outcomes(again) == [Outcome.SAME] * 7
        assert again.session.state.agent_state is AgentState.FINISHED


def _done(log: list[Envelope]) -> list[str]:
    """What was said and run, in order, by whom."""
    found = []
    for envelope in log:
        match envelope.event:
            case MessageAction(content=text) | CmdRunAction(command=text):
                found.append(f"{envelope.source}: {text}")
            case AgentFinishAction():
                found.append("finish")
    return found


async def test_a_recording_that_was_interrupted_goes_through_to_the_end(tmp_path: Path) -> None:
    """The agent makes room for the user's command, as it did then, and what the user stopped is not run again."""
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
        again = await played(manager, source)
        assert outcomes(again) == [Outcome.SAME, Outcome.NOT_RUN, Outcome.SAME, Outcome.SAME]
        told = [e.event.message for e in await log_of(again.session) if _is_agents_word(e)]
        assert told[0].startswith("[Not run again: the user stopped it.]")
        assert again.session.state.agent_state is AgentState.FINISHED


def _is_agents_word(envelope: Envelope) -> bool:
    return isinstance(envelope.event, MessageAction) and envelope.source is EventSource.AGENT


async def test_it_stops_at_the_first_difference_and_goes_on_step_by_step(tmp_path: Path) -> None:
    turns: Turns = [{"tool_calls": [bash("cat given"), bash("echo two"), bash("echo three")]}, FINISH]
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    workspace.mkdir()
    other.mkdir()
    (workspace / "given").write_text("x")
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        await manager.close(source.id)
        again = await begin(manager, source.id, workspace=str(other), stops_at_first=True)
        playing = asyncio.create_task(again.play())
        async with asyncio.timeout(LONG_S):
            await _held(again)
            assert again.stopped_at == 0
            assert outcomes(again) == [Outcome.DIFFERENT, None, None]
            again.gate.step()
            await _held(again, after=1)
            assert outcomes(again) == [Outcome.DIFFERENT, Outcome.SAME, None]
            again.gate.go_on()
            assert await playing
        assert outcomes(again) == [Outcome.DIFFERENT, Outcome.SAME, Outcome.SAME]


async def _held(again: Again, after: int = 0) -> None:
    """Return when the run waits at the gate with this many results more."""
    while not (again.gate.holds and sum(pair.result is not None for pair in again.pairing.pairs) > after):
        again.changed.clear()
        await again.changed.wait()


async def test_a_loop_of_the_recording_does_not_stop_the_run(tmp_path: Path) -> None:
    turns: Turns = [*[{"tool_calls": [bash("echo same")]}] * 6, FINISH]
    settings = Settings.model_validate({"agent": {"confirm": "never"}})
    async with managing(tmp_path, settings=settings) as manager:
        source = await recorded(manager, tmp_path, turns)
        async with asyncio.timeout(LONG_S):
            while source.state.agent_state is AgentState.PAUSED:
                await source.resume()
                await source.settled()
        again = await played(manager, source)
        assert outcomes(again) == [Outcome.SAME] * 6


@pytest.mark.parametrize("end", [[FINISH], []], ids=["finished", "broken off"])
async def test_it_asks_before_actions_as_the_user_set_it(tmp_path: Path, end: Turns) -> None:
    turns: Turns = [{"tool_calls": [bash("echo one"), bash("echo two")]}, *end]
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)
        await manager.close(source.id)
        manager.settings = Settings.model_validate({"agent": {"confirm": "always"}})
        again = await begin(manager, source.id)
        asked: list[str] = []

        async def ask(envelope: Envelope) -> str | None:
            assert isinstance(envelope.event, Action)
            asked.append(envelope.event.message)
            return None if len(asked) == 1 else "not this one"

        async with asyncio.timeout(LONG_S):
            assert await again.play(ask)
        assert asked == ["Running command: echo one", "Running command: echo two"]
        assert outcomes(again) == [Outcome.SAME, Outcome.MISSING]
        assert not again.pairing.is_same


async def test_nobody_is_asked_a_second_time_for_what_the_user_refused(tmp_path: Path) -> None:
    settings = Settings.model_validate({"agent": {"confirm": "always"}})
    turns: Turns = [{"tool_calls": [bash("echo refused")]}, FINISH]
    async with managing(tmp_path, settings=settings) as manager:
        source = await recorded(manager, tmp_path, turns)
        async with asyncio.timeout(LONG_S):
            await source.approval.reject("no")
            await source.settled()
        again = await played(manager, source)
        assert outcomes(again) == [Outcome.NOT_RUN]
        assert again.session.state.agent_state is AgentState.FINISHED


async def test_a_conversation_without_actions_is_refused(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, [{"text": "Nothing to do."}])
        await manager.close(source.id)
        with pytest.raises(UsageError, match="no actions"):
            await begin(manager, source.id)
        with pytest.raises(UsageError, match="no conversation nowhere"):
            await begin(manager, "nowhere")


# -- no model ------------------------------------------------------------------------------------------------------


async def test_it_never_makes_a_model_whatever_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        again = await begin(manager, source.id, workspace=source.info.workspace)
        async with asyncio.timeout(LONG_S):
            assert await again.play()
            assert outcomes(again) == [Outcome.SAME]
            assert again.session.info.model == again.session.active_model.name == AGAIN
            await again.session.send("And now do more.")  # after the end, too
            await again.session.settled()
        assert _done(await log_of(again.session))[-1] == "finish"
        assert not [command for command in started if "core.llm.model_host" in str(command)]
        assert (await manager.store.spent()).calls == 2  # those of the recording
        await manager.close(again.session.id)
        reopened = await manager.open(again.session.id)
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


def test_a_run_loads_no_provider(tmp_path: Path) -> None:
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
