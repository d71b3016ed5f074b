"""AgentSession: what each method does, and the errors when it is not possible now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

import pytest

from core.controller.exit_reasons import Halt, HaltKind
from core.conversations.conversation_manager import ConversationManager
from core.delegation.delegation import DELEGATES_STATUS
from core.errors import ConsentError, RuntimeUnavailableError, UsageError
from core.events import (
    Action,
    AgentDelegateAction,
    AgentState,
    CmdOutputObservation,
    CmdRunAction,
    ConsentAction,
    Envelope,
    EventSource,
    MessageAction,
    NullAction,
    Observation,
    RecallAction,
    RecallObservation,
    UndoAction,
    UndoObservation,
)
from core.llm.model_catalogue import Capabilities
from core.protocols import LLM
from core.sandbox_types import Say, silently
from core.security.confirmation import ConfirmMode
from core.security.guard import PLANNING_NOTE
from core.security.permissions import Scope
from core.session.agent_session import AgentSession
from core.session.suspend import TOO_MANY
from core.settings.config import Settings
from core.store.database import sqlite3
from core.stream import EventStreamSubscriber
from tests.delegation.test_delegation import DELEGATE, has_child, parent
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script
from tests.llm.test_router import Known, Model
from tests.session.test_session import FREE, conversation, of_type, send_and_settle
from tests.streams import heard

ENDLESS = {"text": "a long answer " * 500, "tokens_per_s": 50}
STEP = [{"tool_calls": [bash("true")]}, FINISH]


def never(action: Action) -> Observation | None:
    return None


def runtimes(
    answer: Callable[[Action], Observation | BaseException | None] | None = None,
) -> Callable[[str], ScriptedRuntime]:
    return lambda _: ScriptedRuntime(answer)


async def state_is(session: AgentSession, wanted: AgentState) -> None:
    async with asyncio.timeout(20):
        while session.state.agent_state is not wanted:
            await session.changed()


async def test_a_sent_message_is_returned_as_it_was_stored(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=runtimes()) as session:
        sent = await session.send("go", context="read this first")
        assert sent in await session.stream.read()
        assert isinstance(sent.event, MessageAction)
        assert (sent.event.content, sent.event.context) == ("go", "read this first")


async def test_resting_session_is_suspended_and_resumed_by_a_message(tmp_path: Path) -> None:
    async with conversation(tmp_path, [*STEP, *STEP], make_runtime=runtimes()) as session:
        await send_and_settle(session)
        assert (session.rests, session.suspension.is_on) == (True, False)
        told, before = heard(session.frames), session.rests_since
        assert await session.suspend(TOO_MANY)
        assert (session.suspension.is_on, session.rests_since) == (True, before)
        assert told == [(TOO_MANY.level, TOO_MANY.id, TOO_MANY.message)]
        model = session.active_model._llm
        await send_and_settle(session, "again")
        assert not session.suspension.is_on
        assert session.active_model._llm is not model
        assert session.rests_since >= before
        assert len(of_type(await session.stream.read(), CmdRunAction)) == 2
        assert (TOO_MANY.level, TOO_MANY.id, "") in told


async def test_working_or_closed_session_is_not_suspended(tmp_path: Path) -> None:
    async with conversation(tmp_path, [ENDLESS]) as session:
        await session.send("go")
        await state_is(session, AgentState.RUNNING)
        assert not session.rests
        assert not await session.suspend(TOO_MANY)
        assert not session.suspension.is_on
        await session.aclose()
        assert not await session.suspend(TOO_MANY)
        assert not session.suspension.is_on


@pytest.mark.parametrize("hands", ["commands", "terminal", "browser"])
async def test_user_control_of_the_sandbox_prevents_suspension(tmp_path: Path, hands: str) -> None:
    runtime = ScriptedRuntime(never)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        assert session.rests
        begin = {
            "commands": lambda: session.user_control.run_command("sleep 600"),
            "terminal": lambda: session.user_control.terminal.begin(24, 80),
            "browser": session.user_control.browser.begin,
        }[hands]
        taken = await begin()
        await runtime.started.wait()
        assert session.user_control.is_on
        assert not session.rests
        assert not await session.suspend(TOO_MANY)
        assert session.user_control.commands.is_busy is (hands == "commands")
        with pytest.raises(UsageError):
            await begin() if hands != "commands" else await session.user_control.run_command("ls")
        with pytest.raises(UsageError, match="still working"):
            await session.undo.preview()
        session.user_control.interrupt()
        async with asyncio.timeout(20):
            await session.user_control.commands.ended()
            await session.user_control.terminal.wait_for_return()
            await session.user_control.browser.settled()
        assert [e.cause for e in await session.stream.read() if isinstance(e.event, Observation)][-1] == taken.id
        assert not session.user_control.is_on
        assert session.rests


async def test_user_commands_restores_and_undos_are_refused_while_the_agent_works(tmp_path: Path) -> None:
    async with conversation(tmp_path, [ENDLESS, FINISH]) as session:
        await session.send("go")
        await state_is(session, AgentState.RUNNING)
        with pytest.raises(UsageError, match="is using this shell"):
            await session.user_control.run_command("ls")
        with pytest.raises(UsageError, match="The agent is working"):
            await session.leftovers.put_back("x")
        with pytest.raises(UsageError, match="still working"):
            await session.undo.preview()
        await session.interrupt()
        await session.settled()
        with pytest.raises(UsageError, match="Name the file to restore"):
            await session.leftovers.put_back("x")
        assert of_type(await session.stream.read(), CmdRunAction) == []


async def test_command_is_refused_while_the_user_has_the_terminal(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=runtimes(never)) as session:
        await session.user_control.terminal.begin(24, 80)
        with pytest.raises(UsageError, match="You have taken over the terminal"):
            await session.user_control.run_command("ls")
        session.user_control.terminal.interrupt()


async def test_nothing_starts_after_a_pause_until_resume(tmp_path: Path) -> None:
    may_end, runtime = asyncio.Event(), ScriptedRuntime()
    inner = runtime.execute

    async def execute(*given: object) -> Observation:
        observation = await inner(*given)  # type: ignore[arg-type]
        await may_end.wait()
        return observation

    runtime.execute = execute  # type: ignore[method-assign, assignment]
    async with conversation(tmp_path, [STEP[0], *STEP], make_runtime=lambda _: runtime) as session:
        await session.send("go")
        await runtime.started.wait()
        await session.pause()
        may_end.set()
        async with asyncio.timeout(20):
            await session.settled()
        await state_is(session, AgentState.PAUSED)
        events = await session.stream.read()
        assert (len(of_type(events, CmdRunAction)), len(of_type(events, CmdOutputObservation))) == (1, 1)
        await session.resume()
        async with asyncio.timeout(20):
            await session.settled()
        assert session.state.agent_state is AgentState.FINISHED
        assert len(of_type(await session.stream.read(), CmdRunAction)) == 2


async def test_images_are_refused_before_they_are_sent_to_a_model_that_does_not_read_them(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        session.active_model._llm = Known(Model("openai/small"), Capabilities(vision=False))
        for send in (session.send, session.queue):
            with pytest.raises(UsageError, match="not sent: openai/small is not known to read images"):
                await send("look", ["data:image/png;base64,AAAA"])
        assert of_type(await session.stream.read(), MessageAction) == []


async def test_queued_message_is_sent_with_its_pictures_and_context(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH, ENDLESS, FINISH]) as session:
        await send_and_settle(session)
        await session.send("go on")
        await state_is(session, AgentState.RUNNING)
        picture = "data:image/png;base64,AAAA"
        kept = await session.queue("later", [picture], "beside")
        dropped = await session.queue("never")
        assert isinstance(kept.event, MessageAction)
        assert (kept.event.queued, kept.event.image_urls, kept.event.context) == (True, [picture], "beside")
        assert isinstance(dropped.event, MessageAction)
        assert dropped.event.image_urls is None
        await session.unqueue(dropped.id)
        assert [queued.id for queued in session.state.queued] == [kept.id]
        assert of_type(await session.stream.read(after=dropped.id), NullAction)
        await session.interrupt()
        async with asyncio.timeout(20):
            await session.settled()
        said = [m.content for m in of_type(await session.stream.read(), MessageAction) if not m.queued]
        assert "never" not in said


async def test_compacting_an_empty_conversation_is_refused(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        with pytest.raises(UsageError, match="No messages yet"):
            await session.compact()


async def test_closed_session_starts_nothing_and_can_be_closed_twice(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        await session.aclose()
        await session.aclose()
        for wish in (
            session.send("go"),
            session.user_control.run_command("ls"),
            session.user_control.browser.begin(),
            session.resume(),
        ):
            with pytest.raises(UsageError, match=f"Conversation {session.id} is closed here"):
                await wish


async def test_working_delegates_are_listed_in_order(tmp_path: Path) -> None:
    async with parent(tmp_path, [{"tool_calls": [DELEGATE, DELEGATE]}, FINISH], [ENDLESS]) as (_, session):
        told = heard(session.frames)
        assert not session.delegation.attended
        session.delegation.attended = True
        assert (session.delegation.attended, session.delegation.attended) == (True, True)
        await session.send("go")
        children = await has_child(session, 2)
        actions = [e.id for e in await session.stream.read() if isinstance(e.event, AgentDelegateAction)]
        assert [child.info.parent_action for child in session.delegates] == actions
        assert {child.id for child in session.delegates} == {child.id for child in children}
        assert told.count(("info", DELEGATES_STATUS, "")) == 2
        with pytest.raises(UsageError, match="in the conversation that began it"):
            await session.delegates[0].undo.preview()
        await session.interrupt()
        async with asyncio.timeout(20):
            await session.settled()
        assert session.delegates == []


class Starting(ScriptedRuntime):
    """A sandbox that is ready when the test says so; records its starts and its end."""

    def __init__(self, error: RuntimeUnavailableError | None = None, host: str = "") -> None:
        super().__init__()
        self.is_there, self.starting = asyncio.Event(), asyncio.Event()
        self.notes: list[str] = []
        self.workspace_host = host
        self._error = error

    async def start(self, say: Say = silently) -> None:
        self.notes.append("start")
        self.starting.set()
        try:
            await self.is_there.wait()
        except asyncio.CancelledError:
            self.notes.append("interrupted")
            raise
        if self._error is not None:
            raise self._error

    async def rest(self) -> None:
        self.notes.append("rest")

    async def aclose(self) -> None:
        self.notes.append("close")


async def steps() -> None:
    """Let every task go on as far as it can without others."""
    for _ in range(50):
        await asyncio.sleep(0)


def recalls(events: list[Envelope]) -> list[str]:
    return [e.event.kind for e in events if isinstance(e.event, RecallAction | RecallObservation)]


@pytest.mark.parametrize("error", [None, RuntimeUnavailableError("Nobody answers there.")])
async def test_recall_that_needs_the_sandbox_waits_for_its_start(
    tmp_path: Path, error: RuntimeUnavailableError | None
) -> None:
    runtime = Starting(error, "there:22")
    async with conversation(tmp_path, [{"text": "I see."}], make_runtime=lambda _: runtime) as session:
        await session.send("go")
        async with asyncio.timeout(20):
            await runtime.starting.wait()
            await session.stream.settle()
            await steps()
            assert recalls(await session.stream.read()) == ["recall"]
            runtime.is_there.set()
            await session.settled()
        assert recalls(await session.stream.read()) == ["recall", "recall"]


async def test_model_answers_while_the_sandbox_starts(tmp_path: Path) -> None:
    runtime = Starting()
    async with conversation(tmp_path, [{"text": "one"}, {"text": "two"}], make_runtime=lambda _: runtime) as session:
        for text in ("go", "go on"):
            await send_and_settle(session, text)
        assert runtime.notes == ["start"]
        assert not session.rests
        assert not await session.suspend(TOO_MANY)
        undoing = asyncio.create_task(session.undo.preview())
        await steps()
        assert not undoing.done(), "it may still bring files"
        runtime.is_there.set()
        assert (await undoing).text == "go on"
        assert session.rests
        await send_and_settle(session, "and on")
        assert runtime.notes == ["start"] * 2


async def test_interrupt_ends_user_command_and_sandbox_start(tmp_path: Path) -> None:
    runtime = Starting()
    async with conversation(tmp_path, [{"text": "one"}], make_runtime=lambda _: runtime) as session:
        action = await session.user_control.run_command("ls")
        async with asyncio.timeout(20):
            await runtime.starting.wait()
            await session.interrupt()
            await session.user_control.commands.ended()
        (answer,) = [e for e in await session.stream.read() if e.cause == action.id]
        assert isinstance(answer.event, CmdOutputObservation)
        assert answer.event.exit_code == 130
        await steps()
        assert runtime.notes == ["start", "interrupted"]


@pytest.mark.parametrize("broken", [False, True])
async def test_closing_releases_everything_even_if_the_sandbox_fails(tmp_path: Path, broken: bool) -> None:
    class Closing(ScriptedRuntime):
        notes: ClassVar[list[str]] = []

        async def rest(self) -> None:
            self.notes.append("rest")
            if broken:
                raise OSError("It does not end.")

    Closing.notes.clear()
    store_home = tmp_path / "home"
    async with ConversationManager(store_home, FREE, make_runtime=lambda _: Closing(), environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, [FINISH, FINISH]))
        assert session.opened_after == -1
        await send_and_settle(session)
        model = closing(session)
        last = session.stream.latest_id
        with pytest.raises(OSError, match="does not end") if broken else nullcontext():
            await session.aclose()
        assert (Closing.notes, model, session.closed.is_set()) == (["rest"], ["closed"], True)
        with sqlite3.connect(store_home / "handloom.db") as database:
            ((kept,),) = database.execute("SELECT event FROM snapshots").fetchall()
        assert kept == last
        broken = False
        await manager.close(session.id)
        again = await manager.open(session.id)
        assert (again.opened_after, again.stream.latest_id) == (last, last)
        await send_and_settle(again)


def closing(session: AgentSession) -> list[str]:
    """Gets a word when the session's model of now is closed."""
    llm, told = session.active_model._llm, list[str]()
    real = llm.aclose

    async def aclose() -> None:
        told.append("closed")
        await real()

    llm.aclose = aclose  # type: ignore[method-assign]
    return told


async def test_switched_model_gives_the_next_answer_and_the_old_one_is_closed(tmp_path: Path) -> None:
    async with conversation(tmp_path, [{"text": "of the first"}]) as session:
        await send_and_settle(session)
        other = write_script(tmp_path, [{"text": "of the other"}] * 2, "other.yaml")
        model = closing(session)
        await session.active_model.switch(other)
        assert (model, session.active_model.name, session.info.model) == (["closed"], other, other)
        events = await send_and_settle(session)
        assert [m.content for m in of_type(events, MessageAction)][-1] == "of the other"


async def test_reopened_session_restores_state_from_the_log(tmp_path: Path) -> None:
    asks = Settings()
    turns = [{"text": "one"}, {"text": "two"}]
    async with conversation(tmp_path, turns, settings=asks) as session:
        for text in ("go", "go on"):
            await send_and_settle(session, text)
        await session.approval.permit("bash(touch *)", Scope.CONVERSATION)
        last = [e.id for e in await session.stream.read() if isinstance(e.event, MessageAction)][-2]
        begun = await session.stream.append(UndoAction(first=last, chat=True, files=False), EventSource.USER)
        id = session.id
    async with ConversationManager(tmp_path / "home", asks, make_runtime=runtimes(), environ={}) as manager:
        again = await manager.open(id)
        (answer,) = [e for e in await again.stream.read() if isinstance(e.event, UndoObservation)]
        assert (answer.cause, again.state.undoing) == (begun.id, None)
        assert again.guard.conversation_permissions == [], "what was allowed in a turn that is undone"
        await again.approval.permit("bash(touch *)", Scope.CONVERSATION)
        await again.undo.undo()
        assert again.guard.conversation_permissions == [], "an undo of now is heard, too"
        await again.stream.append(ConsentAction(origin="elsewhere", given=False), EventSource.USER)
    async with ConversationManager(tmp_path / "home", asks, make_runtime=runtimes(), environ={}) as manager:
        again = await manager.open(id)
        for wish in (
            again.send("go"),
            again.user_control.run_command("ls"),
            again.user_control.terminal.begin(24, 80),
            again.queue("x"),
        ):
            with pytest.raises(ConsentError, match="elsewhere"):
                await wish
        await again.consent.give()
        await send_and_settle(again)


async def test_plan_mode_note_is_added_to_each_message(tmp_path: Path) -> None:
    async with conversation(tmp_path, [{"text": "one"}, {"text": "two"}]) as session:
        await session.send("go", context="beside")
        await session.settled()
        session.approval.set_mode("plan")
        assert session.approval.mode is ConfirmMode.PLAN
        await send_and_settle(session)
        first, second = [m.context for m in of_type(await session.stream.read(), MessageAction) if m.content == "go"]
        assert (first, second) == ("beside", PLANNING_NOTE)


async def test_busy_subscriber_prevents_suspension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.session.suspend.SETTLE_S", 0.0)
    may_end = asyncio.Event()

    async def chew(envelope: Envelope) -> None:
        await may_end.wait()

    async with conversation(tmp_path, [FINISH], make_runtime=runtimes()) as session:
        await send_and_settle(session)
        session.stream.subscribe(EventStreamSubscriber.TEST, chew, "test")
        await session.unqueue(0)
        assert session.rests
        assert not await session.suspend(TOO_MANY)
        may_end.set()
        await session.stream.settle()
        monkeypatch.setattr("core.session.suspend.SETTLE_S", 20.0)
        assert await session.suspend(TOO_MANY)


async def test_session_closed_while_resuming_closes_the_new_model(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=runtimes()) as session:
        await send_and_settle(session)
        assert await session.suspend(TOO_MANY)
        make, asked, may_go_on = session.active_model._make_llm, asyncio.Event(), asyncio.Event()

        async def slowly(name: str) -> LLM:
            asked.set()
            await may_go_on.wait()
            return await make(name)

        session.active_model._make_llm = slowly
        waking = asyncio.create_task(session.send("go"))
        await asked.wait()
        session.closed.set()
        may_go_on.set()
        with pytest.raises(UsageError, match="is closed here"):
            await waking
        assert session.suspension.is_on
        session.closed.clear()


async def test_daily_limits_are_checked_if_configured(tmp_path: Path) -> None:
    dear = [{**FINISH, "usage": {"prompt_tokens": 10, "cost": 0.6}}] * 3
    settings = Settings.model_validate({"agent": {"confirm": "never"}, "day": {"max_budget": 0.5}})
    for given, halt in ((FREE, None), (settings, Halt(HaltKind.LIMIT, "day_budget"))):
        async with conversation(tmp_path, dear, settings=given, make_runtime=runtimes()) as session:
            await send_and_settle(session)
            await send_and_settle(session)
            assert session.state.halt == halt


async def test_mcp_server_changes_are_shown_while_the_session_is_open(tmp_path: Path) -> None:
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=runtimes(), environ={}) as manager:
        before = len(manager.mcp.listeners)
        session = await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, [FINISH]))
        assert len(manager.mcp.listeners) == before + 1
        await session.aclose()
        assert len(manager.mcp.listeners) == before
