"""Commands of the environment: each is one action and one observation in the log, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from core.actions.output import INTERRUPTED, INTERRUPTED_EXIT
from core.errors import RuntimeUnavailableError
from core.events import (
    Action,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    Frame,
    Observation,
    Status,
    TerminalOutput,
)
from core.protocols import FrameSink
from core.sandbox.environment_shell import (
    GRACE_S,
    MAX_QUOTED_CHARS,
    TIMED_OUT_EXIT,
    TRY_AGAIN,
    EnvironmentShell,
    check,
    separate_shell_command,
)
from core.sandbox.environment_shell import agent_shell_command as kept
from core.store.writer import Draft
from core.stream import EventStream, Frames
from tests.doubles import ScriptedRuntime
from tests.streams import opened_stream

COMMAND = separate_shell_command("make", "/work")


class Gated(EventStream):
    """Stores each event only when the test allows it: `asked` reports it, `open` allows it."""

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)  # type: ignore[arg-type]
        self.shut: type | None = None
        self.asked, self.open = asyncio.Event(), asyncio.Event()

    async def append_all(self, drafts: Sequence[Draft]) -> Sequence[Envelope]:
        if self.shut is not None and isinstance(drafts[0].event, self.shut):
            self.asked.set()
            await self.open.wait()
        return await super().append_all(drafts)


class Talking(ScriptedRuntime):
    """Shows more than output: an echo of the command and a notice."""

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        on_frame(TerminalOutput(action_id, b"$ make\r\n", is_echo=True))
        on_frame(Status("info", "NOTICE", "It begins."))
        return await super().execute(action, action_id, on_frame)


def output(content: str, exit_code: int, suffix: str = "") -> CmdOutputObservation:
    """The stored observation of a command that was ended."""
    metadata = CmdOutputMetadata(exit_code=exit_code, suffix=suffix)
    return CmdOutputObservation(command="make", content=content, hidden=True, metadata=metadata)


async def is_the_whole_log(stream: EventStream, observation: Observation) -> None:
    asked, answer = await stream.read()
    assert (asked.source, answer.source, answer.cause) == (EventSource.ENVIRONMENT, EventSource.ENVIRONMENT, asked.id)
    assert answer.event == observation


async def test_command_and_result_are_stored_and_output_shown_without_echo(tmp_path: Path) -> None:
    runtime, frames, seen = Talking(lambda action: output("made", 0)), Frames(), list[Frame]()
    frames.watch(seen.append)
    async with opened_stream(tmp_path) as stream:
        assert await EnvironmentShell(runtime, stream, frames).run(COMMAND, 60.0) == output("made", 0)
        await is_the_whole_log(stream, output("made", 0))
        (asked, _) = await stream.read()
    expected = CmdRunAction(
        command="make", cwd="/work", is_static=True, hidden=True, blocking=True, timeout=60.0 + GRACE_S
    )
    assert [asked.event, *runtime.executed] == [expected, expected]
    assert seen == [Status("info", "NOTICE", "It begins."), TerminalOutput(0, b"partly\r\n")]


@pytest.mark.parametrize(
    ("error", "observation"),
    [
        (RuntimeUnavailableError("Gone."), ErrorObservation(content="Gone.", error_id="RUNTIME$UNAVAILABLE")),
        (ValueError("boom"), ErrorObservation(content="ValueError: boom", error_id="RUNTIME$FAILED")),
    ],
)
async def test_runtime_exception_becomes_an_observation(
    tmp_path: Path, error: Exception, observation: ErrorObservation
) -> None:
    async with opened_stream(tmp_path) as stream:
        shell = EnvironmentShell(ScriptedRuntime(lambda action: error), stream, Frames())
        found = await shell.run(COMMAND, 60.0)
        assert isinstance(found, ErrorObservation)
        assert found.content == observation.content
        await is_the_whole_log(stream, found)


async def test_command_that_times_out_keeps_its_output(tmp_path: Path) -> None:
    runtime = Talking(lambda action: None)
    async with opened_stream(tmp_path) as stream:
        found = await EnvironmentShell(runtime, stream, Frames()).run(COMMAND, 0.0)
        suffix = "\n[The command timed out after 0 seconds and was stopped.]"
        assert found == output("partly", TIMED_OUT_EXIT, suffix)
        await is_the_whole_log(stream, found)
    assert runtime.cancelled == 1


async def test_cancelled_command_is_answered_before_its_caller_continues(tmp_path: Path) -> None:
    runtime = Talking(lambda action: None)
    async with opened_stream(tmp_path) as stream:
        running = asyncio.create_task(EnvironmentShell(runtime, stream, Frames()).run(COMMAND, 60.0))
        await runtime.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await is_the_whole_log(stream, output("partly", INTERRUPTED_EXIT, INTERRUPTED))
    assert runtime.cancelled == 1


@pytest.mark.parametrize(
    ("writes", "observation", "executed"),
    [(CmdRunAction, output("", INTERRUPTED_EXIT, INTERRUPTED), 0), (CmdOutputObservation, output("made", 0), 1)],
)
async def test_command_cancelled_while_stored_has_one_observation(
    tmp_path: Path, writes: type, observation: Observation, executed: int
) -> None:
    runtime = ScriptedRuntime(lambda action: output("made", 0))
    async with opened_stream(tmp_path, Gated) as stream:
        assert isinstance(stream, Gated)
        stream.shut = writes
        running = asyncio.create_task(EnvironmentShell(runtime, stream, Frames()).run(COMMAND, 60.0))
        await stream.asked.wait()
        running.cancel()
        await asyncio.wait([running], timeout=0)
        assert not running.done()
        stream.open.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        await is_the_whole_log(stream, observation)
    assert len(runtime.executed) == executed


def test_command_in_the_agents_shell_sets_no_folder() -> None:
    assert kept("cd x") == CmdRunAction(command="cd x", hidden=True, blocking=True)


@pytest.mark.parametrize(
    ("observation", "remedy", "told"),
    [
        (output("made", 0), "Do it.", None),
        (output("no rule", 2), "", f"Making failed with exit code 2. {TRY_AGAIN}\nno rule"),
        (output("", 2), "Do it.", f"Making failed with exit code 2. Do it. {TRY_AGAIN}"),
        (output("x", TIMED_OUT_EXIT), "", f"Making took too long and was stopped. {TRY_AGAIN}\nx"),
        (ErrorObservation(content="gone"), "", f"Making could not be carried out. {TRY_AGAIN}\ngone"),
        (
            output("a" * 9 + "b" * MAX_QUOTED_CHARS, 1),
            "",
            f"Making failed with exit code 1. {TRY_AGAIN}\n" + "b" * MAX_QUOTED_CHARS,
        ),
    ],
)
def test_failure_message_contains_cause_remedy_and_output(
    observation: Observation, remedy: str, told: str | None
) -> None:
    if told is None:
        check(observation, "Making", remedy)
        return
    with pytest.raises(RuntimeUnavailableError) as raised:
        check(observation, "Making", remedy)
    assert str(raised.value) == told
