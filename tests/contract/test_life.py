"""A runtime begins, answers every action once, ends with all that it started, and can begin again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from core.errors import RuntimeUnavailableError, UsageError
from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentThinkAction,
    AgentThinkObservation,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    IPythonRunCellAction,
    NullObservation,
    Observation,
    UserRejectObservation,
)
from core.protocols import Runtime
from tests.contract.conftest import Life, Place, WithServer
from tests.runtime.conftest import Watcher, has_ended

FIELDS: dict[str, dict[str, Any]] = {
    "review": {"checkpoint": "c"},
    "run": {"command": "true"},
    "run_ipython": {"code": "1"},
    "read": {"path": "/no/such"},
    "write": {"path": "file", "content": "text"},
    "edit": {"path": "/no/such", "command": "view"},
    "browse": {"url": "http://localhost"},
    "browse_interactive": {"browser_actions": "noop()"},
    "call_tool_mcp": {"name": "tool"},
    "message": {"content": "hi"},
    "system": {"content": "hi"},
    "delegate": {"agent": "CodeActAgent"},
    "recall": {"recall_type": "knowledge"},
    "change_agent_state": {"agent_state": "stopped"},
    "condensation": {"forgotten_event_ids": []},
    "undo": {"first": 0},
    "consent": {"origin": "x.json"},
    "permission": {"verdict": "allow", "pattern": "bash(x)"},
    "mode": {"mode": "plan"},
}
"""What an action of a kind cannot be made without."""


class TestAnswers:
    async def test_every_kind_of_action_gets_one_observation(self, place: Place) -> None:
        for kind, action_class in Action.kinds.items():
            observation = await place.do(action_class(**FIELDS.get(kind, {})))
            assert isinstance(observation, Observation), kind
            assert isinstance(observation, NullObservation) != action_class.runnable, kind
            assert (await place.run(f"echo after {kind}")).content == f"after {kind}"

    async def test_thought_is_logged(self, place: Place) -> None:
        logged = AgentThinkObservation(content="Your thought has been logged.")
        assert await place.do(AgentThinkAction(thought="hm")) == logged

    async def test_unconfirmed_action_is_not_run(self, place: Place) -> None:
        command = "touch done"
        waiting = CmdRunAction(command=command, confirmation_state=ActionConfirmationStatus.AWAITING_CONFIRMATION)
        rejected = CmdRunAction(command=command, confirmation_state=ActionConfirmationStatus.REJECTED)
        assert await place.do(waiting) == NullObservation()
        assert await place.do(rejected) == UserRejectObservation(
            content="Action has been rejected by the user! Waiting for further user input."
        )
        assert not (place.folder / "done").exists()

    async def test_action_without_its_plugin_is_an_error(self, place: Place) -> None:
        observation = await place.get(ErrorObservation, IPythonRunCellAction(code="1"))
        assert observation.content.startswith("Action run_ipython is not supported in the current runtime.")

    async def test_concurrent_commands_run_in_order(self, place: Place) -> None:
        first = asyncio.create_task(place.run("echo begun; read -t 0.2; echo one >> order"))
        await place.watcher.sees(b"begun\r\n")
        second = asyncio.create_task(place.run("echo two >> order; cat order"))
        assert (await first).content == "begun"
        assert (await second).content == "one\ntwo"


class TestStarting:
    async def test_runtime_reports_its_folder_and_isolation(self, runtime: Runtime, tmp_path: Path) -> None:
        assert runtime.working_dir == str(tmp_path)
        assert runtime.isolation

    async def test_starting_twice_does_nothing(self, place: Place) -> None:
        await place.run("kept=1")
        await asyncio.gather(place.runtime.start(), place.runtime.start())
        assert (await place.run("echo $kept")).content == "1"

    async def test_action_before_the_start_is_refused(self, runtime: Runtime) -> None:
        with pytest.raises(RuntimeUnavailableError, match=r"not running\. Start it first"):
            await runtime.execute(AgentThinkAction(), 1, Watcher())

    async def test_closed_runtime_can_be_started_again(self, place: Place) -> None:
        await place.runtime.aclose()
        await place.runtime.start()
        assert (await place.run("echo hi")).content == "hi"


class TestEnvironment:
    async def test_variables_reach_the_running_shell_and_later_ones(self, place: Place) -> None:
        await place.run("false")
        await place.runtime.set_environment({"COLOUR": "light 'blue'\n$HOME", "OTHER": "x"})
        assert (await place.run('echo "$? $COLOUR"; env | grep ^OTHER')).content == "1 light 'blue'\n$HOME\nOTHER=x"
        await place.runtime.set_environment({"OTHER": None})
        shown = 'echo "${OTHER-none} $COLOUR"'
        for command, is_static in (("exit 3", False), (shown, False), (shown, True)):
            observation = await place.run(f"{shown}; {command}", is_static=is_static)
            assert observation.content.startswith("none light 'blue'\n$HOME")
        await place.runtime.aclose()
        await place.runtime.set_environment({"LATER": "1"})
        with pytest.raises((UsageError, ValueError), match="cannot be the name of a variable"):
            await place.runtime.set_environment({"1A": ""})
        await place.runtime.start()
        assert (await place.run(f"{shown}; echo $LATER")).content == "none light 'blue'\n$HOME\n1"


class TestEnding:
    async def test_closing_leaves_no_process(self, place: Place, life: Life) -> None:
        await place.run("exec 9>life; sleep 100 & nohup sleep 100 &")
        assert not life.has_ended(0)
        await place.runtime.aclose()
        await place.runtime.aclose()
        assert life.has_ended()
        with pytest.raises(RuntimeUnavailableError):
            await place.do(AgentThinkAction())

    async def test_closing_answers_the_running_command(self, place: Place) -> None:
        running = asyncio.create_task(place.do(CmdRunAction(command="echo begun; sleep 100", blocking=True)))
        await place.watcher.sees(b"begun\r\n")
        async with asyncio.timeout(60):  # the command takes longer
            await place.runtime.aclose()
            (answer,) = await asyncio.gather(running, return_exceptions=True)
        if isinstance(answer, CmdOutputObservation):
            assert (answer.content, answer.metadata.exit_code) == ("begun", 128 + signal.SIGKILL)
        else:
            assert isinstance(answer, RuntimeUnavailableError)
            assert str(answer).startswith("The sandbox has ended")


class TestDeathOfTheServer:
    async def test_dead_server_is_reported_and_a_new_start_replaces_it(self, served: tuple[Place, WithServer]) -> None:
        place, runtime = served
        running = asyncio.create_task(place.run("echo begun; sleep 100"))
        await place.watcher.sees(b"begun\r\n")
        pid = runtime.server_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RuntimeUnavailableError, match=r"The sandbox has ended .* Send a message to start"):
            await running
        with pytest.raises(RuntimeUnavailableError, match="The sandbox has ended"):
            await place.do(AgentThinkAction())
        await runtime.start()
        assert runtime.server_pid != pid
        assert (await place.run("echo again")).content == "again"

    async def test_closing_ends_the_server_and_detached_processes(
        self, served: tuple[Place, WithServer], life: Life
    ) -> None:
        place, runtime = served
        assert (await place.run("(exec 9>life; setsid sleep 100 & echo begun)")).content == "begun"
        server = runtime.server_pid
        assert server is not None
        await runtime.aclose()
        assert has_ended(server, 0)
        assert life.has_ended()


async def test_leftover_jobs_are_listed_and_can_be_ended(served: tuple[Place, WithServer]) -> None:
    place, runtime = served
    await place.run("(setsid sleep 4321 &) ; until pgrep -fx 'sleep 4321' >/dev/null; do sleep 0.01; done")
    (job,) = [job for job in await runtime.jobs() if job.command == "sleep 4321"]
    assert not job.foreground
    await runtime.end_job(job.pid)
    assert [job for job in await runtime.jobs() if job.command == "sleep 4321"] == []
    with pytest.raises(UsageError, match="has ended"):
        await runtime.end_job(job.pid)
    used = await runtime.usage()
    assert used is not None
    assert used.processes >= 2
