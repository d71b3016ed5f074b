"""The user takes over the agent's terminal: the log, and what the agent reads, with real parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.actions.middleware import wait_for_terminal
from core.controller.decide import evolve
from core.controller.state import State
from core.errors import RuntimeUnavailableError, StoreError, UsageError
from core.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    EventSource,
    Frame,
    Observation,
    Status,
    TerminalOutput,
)
from core.memory.conversation_memory import build_messages
from core.protocols import FrameSink
from core.session.agent_session import AgentSession
from core.session.suspend import TOO_MANY
from core.stream import EventStream, Frames
from core.user_control.user_actions import UserActionContext
from core.user_control.user_control import CUT_SHORT, GIVEN_BACK, MAX_WAITING_BYTES, READY, UserTerminal
from tests.actions.pipelines import through
from tests.doubles import FINISH, ScriptedRuntime, bash, gone
from tests.session.test_session import conversation, of_type, send_and_settle
from tests.streams import heard, opened_stream
from tests.user_control.test_user_shell import answer_to


class Seen:
    """The terminal's output, and a way to wait for it."""

    def __init__(self, session: AgentSession) -> None:
        self.shown = b""
        self._grown = asyncio.Event()
        session.frames.watch(self._take)

    def _take(self, frame: Frame) -> None:
        if isinstance(frame, TerminalOutput) and not frame.is_echo:
            self.shown += frame.data
            self._grown.set()

    async def sees(self, text: bytes) -> None:
        async with asyncio.timeout(20):
            while text not in self.shown:
                self._grown.clear()
                await self._grown.wait()


async def test_terminal_session_is_stored_once_and_read_by_the_model(tmp_path: Path) -> None:
    async with conversation(tmp_path, [{"tool_calls": [bash("pwd")]}, FINISH]) as session:
        seen = Seen(session)
        action = await session.user_control.terminal.begin(24, 80)
        session.user_control.terminal.type(b"mkdir sub; cd sub; stty si''ze\r")  # waits for the sandbox
        await seen.sees(b"24 80\r\n")
        session.user_control.terminal.give_back()
        observation = await answer_to(session, action)
        await session.user_control.terminal.wait_for_return()
        assert (action.source, observation.source) == (EventSource.USER, EventSource.USER)
        assert isinstance(action.event, CmdRunAction)
        assert action.event.takes_over
        assert isinstance(observation.event, CmdOutputObservation)
        assert "$ mkdir sub; cd sub; stty si''ze  [exit code 0]" in observation.event.metadata.prefix
        events = await send_and_settle(session)
        assert of_type(events, CmdOutputObservation)[-1].content.endswith("/sub"), "the agent is where the user went"
        assert any("24 80" in str(m["content"]) for m in build_messages(events) if m["role"] == "user")
        state = reduce(evolve, events, State.initial(session.state.limits))
        assert state.agent_state is session.state.agent_state


async def test_agent_waits_for_the_terminal_and_reads_what_happened(tmp_path: Path) -> None:
    # One process: bash would go on with a loop if the interrupt came while a command of it ended.
    waiting = bash("bash -c \"echo ti''ck; exec sleep 1000\"")
    async with conversation(
        tmp_path, [{"tool_calls": [waiting]}, {"tool_calls": [bash("echo mine")]}, FINISH]
    ) as session:
        seen = Seen(session)
        await session.send("go")
        await seen.sees(b"tick")
        action = await session.user_control.terminal.begin(24, 80)
        session.user_control.terminal.type(b"\x03")
        await seen.sees(b"^C")
        session.user_control.terminal.type(b"echo yo''urs\r")
        await seen.sees(b"yours\r\n")
        assert b"mine" not in seen.shown
        assert session.state.is_busy
        session.user_control.terminal.give_back()
        await session.settled()
        events = await session.stream.read()
        first = next(e for e in events if isinstance(e.event, CmdOutputObservation))
        assert first.cause == action.id, "before the agent's own"
        told = of_type(events, CmdOutputObservation)
        assert "The user has taken over" in told[1].metadata.suffix
        assert told[2].content == "mine"


async def test_user_terminal_prevents_suspension(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        await send_and_settle(session)
        seen = Seen(session)
        await session.user_control.terminal.begin(24, 80)
        session.user_control.terminal.type(b"echo he''re\r")
        await seen.sees(b"here\r\n")
        assert not await session.suspend(TOO_MANY)
        session.user_control.terminal.give_back()
        await session.user_control.terminal.wait_for_return()
        await session.stream.settle()
        assert await session.suspend(TOO_MANY)
        await session.user_control.terminal.begin(24, 80)  # wakes it up
        session.user_control.terminal.type(b"echo awa''ke\r")
        await seen.sees(b"awake\r\n")


async def test_terminal_is_taken_once(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        await session.user_control.terminal.begin(24, 80)
        with pytest.raises(UsageError, match="already control the terminal"):
            await session.user_control.terminal.begin(24, 80)
        with pytest.raises(UsageError, match="taken over the terminal"):
            await session.user_control.run_command("ls")
        assert not session.rests, "it is not put to sleep under the user's hands"
        session.user_control.terminal.give_back()
        await session.user_control.terminal.wait_for_return()
        assert session.rests


async def test_lost_sandbox_ends_the_user_terminal(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(answer=lambda action: gone())
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        observation = (await answer_to(session, await session.user_control.terminal.begin(24, 80))).event
        assert isinstance(observation, ErrorObservation)
        await session.user_control.terminal.wait_for_return()
        assert not session.user_control.terminal.is_on


async def test_closing_ends_the_user_terminal(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(answer=lambda action: None)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        await session.user_control.terminal.begin(24, 80)
        await runtime.started.wait()
        stream = session.stream
        session.user_control.terminal.interrupt()
        await session.user_control.terminal.wait_for_return()
        (observation,) = of_type(await stream.read(), CmdOutputObservation)
        assert "ended before they gave it back" in observation.metadata.suffix


class Terminal(ScriptedRuntime):
    """A sandbox that records terminal input; it accepts keys when the test says so."""

    def __init__(self) -> None:
        super().__init__(lambda action: None)
        self.sent: list[object] = []
        self.changed = asyncio.Event()
        self.takes: FrameSink | None = None
        self.loses = False
        self.is_slow = False
        self.may_end = asyncio.Event()
        """What `execute` waits for behind the end, if the terminal is slow."""

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        self.takes = on_frame
        self.started.set()
        while "end" not in self.sent:
            await self._next()
        if self.is_slow:
            await self.may_end.wait()
        return CmdOutputObservation(command="", content="ok")

    async def _next(self) -> None:
        await self.changed.wait()
        self.changed.clear()

    def _note(self, what: object) -> None:
        self.sent.append(what)
        self.changed.set()

    async def resize_terminal(self, rows: int, columns: int) -> None:
        self._note((rows, columns))

    async def type_keys(self, keys: bytes) -> None:
        if self.loses:
            raise UsageError("The keys are lost.")
        self._note(keys)

    async def give_terminal_back(self) -> None:
        self._note("end")

    async def has(self, *sent: object) -> None:
        """Return when exactly this has been sent."""
        async with asyncio.timeout(20):
            while self.sent != list(sent):
                await asyncio.sleep(0)


async def test_size_and_keys_are_sent_in_order_when_the_sandbox_is_ready(
    tmp_path: Path,
) -> None:
    runtime = Terminal()
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        terminal = session.user_control.terminal
        terminal.type(b"nobody has it")
        terminal.resize(1, 2)
        told = heard(session.frames)
        await session.user_control.terminal.begin(24, 80)
        await runtime.started.wait()
        terminal.type(b"a")
        terminal.type(b"b")
        assert not terminal.is_ready
        assert runtime.sent == [], "they wait for the sandbox"
        assert runtime.takes is not None
        runtime.takes(Status("info", READY, ""))
        await runtime.has((24, 80), b"ab")
        terminal.resize(24, 80)
        terminal.type(b"c")
        await runtime.has((24, 80), b"ab", b"c")
        terminal.resize(30, 90)
        await runtime.has((24, 80), b"ab", b"c", (30, 90))
        runtime.loses = True
        terminal.type(b"d")
        async with asyncio.timeout(20):
            while ("error", "STATUS$KEYS_LOST", "The keys are lost.") not in told:
                await asyncio.sleep(0)
        terminal.give_back()
        await terminal.wait_for_return()
        assert not terminal.is_on
        assert [id for _, id, _ in told].count(GIVEN_BACK) == 1
        assert READY not in [id for _, id, _ in told]
        runtime.sent.clear()
        await session.user_control.terminal.begin(24, 80)
        assert not terminal.is_ready
        terminal.interrupt()
        await terminal.wait_for_return()


async def test_size_of_the_screen_is_not_sent_after_the_return(tmp_path: Path) -> None:
    runtime = Terminal()
    runtime.is_slow = True
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        terminal = session.user_control.terminal
        await terminal.begin(24, 80)
        await runtime.started.wait()
        assert runtime.takes is not None
        runtime.takes(Status("info", READY, ""))
        await runtime.has((24, 80))
        terminal.give_back()
        await runtime.has((24, 80), "end")
        terminal.resize(20, 61)  # the pane gets its place beside the others again
        for _ in range(20):
            await asyncio.sleep(0)
        assert runtime.sent == [(24, 80), "end"]
        runtime.may_end.set()
        await terminal.wait_for_return()


async def test_too_many_unread_keys_are_refused(tmp_path: Path) -> None:
    runtime = Terminal()
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        terminal = session.user_control.terminal
        await session.user_control.terminal.begin(24, 80)
        terminal.type(b"x" * (MAX_WAITING_BYTES - 1))
        terminal.type(b"y")
        with pytest.raises(UsageError, match="does not read its input"):
            terminal.type(b"z")
        terminal.interrupt()
        await terminal.wait_for_return()


async def test_terminal_is_not_taken_if_it_cannot_be_stored(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: Terminal()) as session:
        await session.settled()
        user, append, before = session.user_control, session.stream.append_all, await session.stream.read()

        async def full(*given: object, **named: object) -> object:
            raise StoreError("The disk is full.")

        session.stream.append_all = full  # type: ignore[method-assign, assignment]
        for begin in (user.terminal.begin(24, 80), user.browser.begin(), user.commands.run("ls")):
            with pytest.raises(StoreError):
                await begin
        assert not user.is_on
        session.stream.append_all = append  # type: ignore[method-assign]
        assert await session.stream.read() == before


# -- without a conversation around it ----------------------------------------------------------------------------------


class Place:
    """A terminal takeover: a sandbox that becomes ready when the test says so, or never."""

    def __init__(self, stream: EventStream, runtime: Terminal, error: RuntimeUnavailableError | None = None) -> None:
        self.stream, self.is_there = stream, asyncio.Event()
        self.waits = 0
        self._error = error
        frames = Frames()
        self.told = heard(frames)
        self.terminal = UserTerminal(runtime, UserActionContext(stream, frames, self._ready, asyncio.ensure_future))

    async def _ready(self) -> None:
        self.waits += 1
        await self.is_there.wait()
        if self._error is not None:
            raise self._error

    async def answer(self) -> tuple[Observation, int | None]:
        """The newest observation and its action, after the terminal was given back."""
        async with asyncio.timeout(20):
            await self.terminal.wait_for_return()
        assert not self.terminal.is_on
        *_, answer = await self.stream.read()
        assert isinstance(answer.event, Observation)
        return answer.event, answer.cause


@pytest.mark.parametrize("end", [UserTerminal.give_back, UserTerminal.interrupt])
async def test_terminal_can_be_given_back_before_the_sandbox_is_ready(
    tmp_path: Path, end: Callable[[UserTerminal], None]
) -> None:
    runtime = Terminal()
    async with opened_stream(tmp_path) as stream:
        place = Place(stream, runtime)
        for n in range(2):
            action = await place.terminal.begin(24, 80)
            place.terminal.type(b"x")
            while place.waits == n:
                await asyncio.sleep(0)
            end(place.terminal)
            observation, cause = await place.answer()
            assert isinstance(observation, CmdOutputObservation)
            assert (cause, observation.metadata.suffix, observation.content) == (action.id, CUT_SHORT, "")
            assert [id for _, id, _ in place.told] == [GIVEN_BACK] * (n + 1)
        assert not runtime.started.is_set()
        place.terminal.give_back()
        place.is_there.set()
        await place.terminal.begin(30, 90)
        await runtime.started.wait()
        assert runtime.takes is not None
        runtime.takes(Status("info", READY, ""))
        await runtime.has((30, 90))
        assert place.terminal.is_ready
        place.terminal.give_back()
        assert (await place.answer())[0] == CmdOutputObservation(command="", content="ok")
        assert runtime.sent == [(30, 90), "end"], "neither keys nor the end of the time before"
        assert not place.terminal.is_ready


async def test_sandbox_error_is_the_result_of_the_terminal(tmp_path: Path) -> None:
    async with opened_stream(tmp_path) as stream:
        place = Place(stream, Terminal(), RuntimeUnavailableError("No room."))
        await place.terminal.begin(24, 80)
        place.is_there.set()
        observation, _ = await place.answer()
        assert isinstance(observation, ErrorObservation)
        assert observation.content == "No room."


async def test_failed_key_transfer_does_not_end_the_terminal(tmp_path: Path) -> None:
    class Lost(Terminal):
        async def type_keys(self, keys: bytes) -> None:
            self._note("lost")
            raise RuntimeUnavailableError("Gone.")

    runtime = Lost()
    async with opened_stream(tmp_path) as stream:
        place = Place(stream, runtime)
        place.is_there.set()
        await place.terminal.begin(24, 80)
        await runtime.started.wait()
        assert runtime.takes is not None
        runtime.takes(Status("info", READY, ""))
        runtime.takes(TerminalOutput(0, b"typed", is_echo=True))
        runtime.takes(TerminalOutput(0, b"shown"))
        place.terminal.type(b"x")
        await runtime.has((24, 80), "lost")
        assert place.terminal.is_on
        place.terminal.interrupt()
        observation, _ = await place.answer()
        assert isinstance(observation, CmdOutputObservation)
        assert (observation.content, observation.metadata.suffix) == ("shown", CUT_SHORT)


async def test_action_waits_for_the_terminal_before_and_after(tmp_path: Path) -> None:
    runtime, agents = Terminal(), ScriptedRuntime()
    async with opened_stream(tmp_path) as stream:
        place = Place(stream, runtime)
        user = SimpleNamespace(terminal=place.terminal)
        execute = through(wait_for_terminal, agents, user=user)
        await execute(CmdRunAction(command="ls"), 1)
        await place.terminal.begin(24, 80)
        second = asyncio.ensure_future(execute(CmdRunAction(command="ls"), 2))
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(agents.executed) == 1
        place.terminal.interrupt()
        await second
        assert len(agents.executed) == 2
        may_end = asyncio.Event()

        class Slow(ScriptedRuntime):
            async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
                observation = await super().execute(action, action_id, on_frame)
                await may_end.wait()
                return observation

        slow = Slow()
        third = asyncio.ensure_future(through(wait_for_terminal, slow, user=user)(CmdRunAction(command="ls"), 3))
        await slow.started.wait()
        await place.terminal.begin(24, 80)
        may_end.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not third.done(), "the agent reads what the user did before it goes on"
        place.terminal.interrupt()
        await third
