"""Answers to waiting actions in real conversations, and what survives a restart and a fork."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.approval.approval import Approval
from core.controller.not_executed import NOT_EXECUTED_DENIED
from core.controller.state import Pending, State
from core.conversations.conversation_manager import ConversationManager
from core.errors import UsageError
from core.events import (
    AgentState,
    ChangeAgentStateAction,
    CmdRunAction,
    ConsentAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    Judged,
    MessageAction,
    ModeAction,
    Observation,
    PermissionAction,
    UndoAction,
    UndoObservation,
    envelope_from_dict,
    envelope_to_dict,
    event_to_dict,
)
from core.security.confirmation import NOT_WANTED, ConfirmMode, Verdict
from core.security.guard import Guard
from core.security.permissions import Scope
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from core.store.conversations import ConversationInfo
from core.store.writer import Draft
from core.stream import EventStream, EventStreamSubscriber
from tests.doubles import FINISH, bash, call
from tests.session.test_session import conversation, of_type, send_and_settle
from tests.streams import opened_stream
from tests.warm_servers import WarmRuntime
from tui.chat.model import ChatModel

ASKS = Settings()


def policy(tmp_path: Path, text: str) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "policy.toml").write_text(text, "utf-8")


def made(tmp_path: Path, name: str = "made") -> bool:
    return (tmp_path / "workspace" / name).exists()


def commands(*lines: str) -> dict[str, Any]:
    return {"tool_calls": [bash(line) for line in lines]}


async def settled(session: AgentSession) -> None:
    async with asyncio.timeout(20):
        await session.settled()


async def test_denied_action_gets_one_observation_and_agent_goes_on(tmp_path: Path) -> None:
    policy(tmp_path, '# mine\ndeny = ["bash(touch *)"]')
    turns = [commands("touch made"), {"expect": "policy.toml:2 deny bash", **FINISH}]
    async with conversation(tmp_path, turns) as session:
        events = await send_and_settle(session)
        (action,) = [e for e in events if isinstance(e.event, CmdRunAction)]
        (result,) = [e.event for e in events if e.cause == action.id and isinstance(e.event, Observation)]
        assert isinstance(result, ErrorObservation)
        assert result.error_id == NOT_EXECUTED_DENIED
        assert not made(tmp_path)
        assert session.state.agent_state is AgentState.FINISHED


async def test_agent_that_repeats_denied_actions_is_stuck(tmp_path: Path) -> None:
    policy(tmp_path, 'deny = ["bash(touch *)"]')
    async with conversation(tmp_path, [commands("touch made")] * 6) as session:
        await send_and_settle(session)
        assert session.state.halt is not None
        assert session.state.halt.kind == "stuck"


async def test_judgement_is_stored_only_for_actions_that_ask(tmp_path: Path) -> None:
    policy(tmp_path, 'ask = ["bash(touch *)"]')
    async with conversation(tmp_path, [commands("echo x"), commands("touch made"), FINISH]) as session:
        events = await send_and_settle(session)
        free, held = (e for e in events if isinstance(e.event, CmdRunAction))
        assert "judgement" not in envelope_to_dict(free)
        data = envelope_to_dict(held)
        assert data["judgement"] == {
            "verdict": "ask",
            "rule": "policy.toml:1 ask bash(touch *)",
            "reasons": [],
            "stays": True,
            "risk": "low",
        }
        assert "judgement" not in data["args"]
        assert envelope_from_dict(data) == held
        await session.approval.confirm()
        await settled(session)
        assert made(tmp_path)


async def test_conversation_permission_survives_restart_and_fork(tmp_path: Path) -> None:
    turns = [commands("touch a"), commands("touch b"), {"text": "so far"}, commands("touch c"), FINISH]
    async with conversation(tmp_path, turns, settings=ASKS) as session:
        await send_and_settle(session)
        await session.approval.permit("bash(touch *)", Scope.CONVERSATION)
        await session.approval.confirm_allowed()
        await settled(session)
        assert made(tmp_path, "b")
        assert session.state.agent_state is AgentState.AWAITING_USER_INPUT
        id, last = session.id, (await session.stream.page(limit=1))[0].id
    async with ConversationManager(tmp_path / "home", ASKS, make_runtime=WarmRuntime, environ={}) as manager:
        for again in (await manager.open(id), await manager.fork(id, last, copy_files=False)):
            assert (await again.guard.judge(CmdRunAction(command="touch x"))).verdict is Verdict.ALLOW
            assert (await again.guard.judge(CmdRunAction(command="rm x"))).verdict is Verdict.ASK
        (kept,) = again.guard.conversation_permissions
        await again.approval.revoke(kept)
        assert (await again.guard.judge(CmdRunAction(command="touch x"))).verdict is Verdict.ASK


async def test_permissions_before_consent_allow_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], settings=ASKS) as session:
        await session.stream.append(PermissionAction(verdict="allow", pattern="*"), EventSource.USER)
        await session.stream.append(ConsentAction(origin="elsewhere"), EventSource.USER)
        await session.approval.load()
        assert session.guard.conversation_permissions == []
        await session.approval.permit("bash(ls)", Scope.CONVERSATION)
        await session.approval.load()
        assert [str(one.pattern) for one in session.guard.conversation_permissions] == ["bash(ls)"]


async def test_of_two_screens_only_the_first_answer_counts(tmp_path: Path) -> None:
    async with conversation(tmp_path, [commands("touch a", "touch b"), FINISH], settings=ASKS) as session:
        await send_and_settle(session)
        shown = session.state.awaiting
        await session.approval.confirm(shown)
        await settled(session)
        assert session.state.awaiting not in (None, shown)
        for answer in (session.approval.confirm(shown), session.approval.reject("no", shown)):
            with pytest.raises(UsageError, match="already answered"):
                await answer
        assert made(tmp_path, "a")
        assert not made(tmp_path, "b")


async def test_two_simultaneous_answers_run_one_action(tmp_path: Path) -> None:
    async with conversation(tmp_path, [commands("touch a", "touch b"), FINISH], settings=ASKS) as session:
        await send_and_settle(session)
        shown = session.state.awaiting
        await asyncio.gather(session.approval.confirm(shown), session.approval.confirm(shown), return_exceptions=True)
        await settled(session)
        assert made(tmp_path, "a")
        assert not made(tmp_path, "b")


async def test_denying_for_the_conversation_denies_later_actions(tmp_path: Path) -> None:
    turns = [commands("touch a"), commands("touch b"), {"expect": "permission", **FINISH}]
    async with conversation(tmp_path, turns, settings=ASKS) as session:
        await send_and_settle(session)
        await session.approval.permit("bash(touch *)", Scope.PROJECT, Verdict.DENY)
        await session.approval.reject(NOT_WANTED)
        await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
        assert not made(tmp_path, "a")
        assert not made(tmp_path, "b")


async def test_plan_mode_is_noted_for_the_model_and_blocks_changes(tmp_path: Path) -> None:
    turns = [commands("touch made"), {"expect": "mode plan", "text": "My plan: first this."}]
    async with conversation(tmp_path, turns) as session:
        session.approval.set_mode(ConfirmMode.PLAN)
        events = await send_and_settle(session)
        message = next(of_type(events, MessageAction).__iter__())
        assert "wants a plan first" in message.context
        assert not made(tmp_path)


async def test_delegate_follows_permissions_of_its_parent(tmp_path: Path) -> None:
    policy(tmp_path, 'deny = ["bash(touch *)"]')
    (tmp_path / "task.yaml").write_text("")
    turns = [{"tool_calls": [call("delegate", agent="CodeActAgent", task="do it", security_risk="LOW")]},
             commands("touch made"), FINISH, FINISH]  # fmt: skip
    async with conversation(tmp_path, turns) as session:
        await send_and_settle(session)
        assert not made(tmp_path)


def test_stored_confirmation_keeps_the_format_of_v0() -> None:
    assert set(event_to_dict(CmdRunAction(command="x"))) == {"message", "action", "args"}


async def test_each_of_several_actions_asks_and_gets_its_own_result(tmp_path: Path) -> None:
    policy(tmp_path, 'allow = ["bash(touch d)"]')
    turns = [commands("touch a", "touch b", "touch c", "touch d"), FINISH]
    async with conversation(tmp_path, turns, settings=ASKS) as session:
        await send_and_settle(session)
        asked = session.state.awaiting
        await session.approval.reject("not that one")
        await settled(session)
        assert session.state.awaiting != asked
        await session.approval.confirm()
        await settled(session)
        await session.approval.reject("nor that one")
        await settled(session)
        assert session.state.awaiting is not None, "what is allowed asks, too, behind one that was denied"
        await session.approval.confirm()
        await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
        assert [made(tmp_path, name) for name in "abcd"] == [False, True, False, True]
        events = await session.stream.read()
        calls = [e.id for e in events if isinstance(e.event, CmdRunAction)]
        results = [[r.event for r in events if r.cause == id and isinstance(r.event, Observation)] for id in calls]
        assert [type(one).__name__ for (one,) in results] == [
            "UserRejectObservation",
            "CmdOutputObservation",
            "UserRejectObservation",
            "CmdOutputObservation",
        ]
        assert "not that one" in results[0][0].content


async def test_denial_without_reason_drops_later_actions(tmp_path: Path) -> None:
    async with conversation(tmp_path, [commands("touch a", "touch b"), FINISH], settings=ASKS) as session:
        await send_and_settle(session)
        await session.approval.reject()
        await settled(session)
        assert session.state.agent_state is AgentState.AWAITING_USER_INPUT
        (dropped,) = of_type(await session.stream.read(), ErrorObservation)
        assert "the user denied an action of the same answer" in dropped.content
        chat = ChatModel()
        for envelope in await session.stream.read():
            chat.apply(envelope)
        assert "you denied another" in " ".join(block.meta for block in chat.blocks)


async def test_permanent_denial_denies_matching_waiting_actions(tmp_path: Path) -> None:
    turns = [commands("touch a", "echo x", "touch b"), FINISH]
    async with conversation(tmp_path, turns, settings=ASKS) as session:
        await send_and_settle(session)
        await session.approval.permit("bash(touch *)", Scope.CONVERSATION, Verdict.DENY)
        await session.approval.reject_denied(NOT_WANTED)
        await settled(session)
        await session.approval.confirm()
        await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
        assert not made(tmp_path, "b")


async def test_chosen_mode_survives_restart_and_fork(tmp_path: Path) -> None:
    async with conversation(tmp_path, [{"text": "so far"}], settings=ASKS) as session:
        await send_and_settle(session)
        await session.approval.store_mode(ConfirmMode.AUTO_EDIT)
        id, last = session.id, (await session.stream.page(limit=1))[0].id
    home, careful = tmp_path / "home", Settings.model_validate({"agent": {"confirm": "risky"}})
    async with ConversationManager(home, careful, make_runtime=WarmRuntime, environ={}) as manager:
        again = await manager.open(id)
        fork = await manager.fork(id, last, copy_files=False)
        assert (again.approval.mode, fork.approval.mode) == (ConfirmMode.AUTO_EDIT, ConfirmMode.AUTO_EDIT)
        await again.approval.store_mode(ConfirmMode.RISKY, own=True)
    async with ConversationManager(home, ASKS, make_runtime=WarmRuntime, environ={}) as manager:
        assert (await manager.open(id)).approval.mode is ConfirmMode.ALWAYS


async def test_undo_revokes_permissions_of_its_turns_and_redo_does_not_restore_them(
    tmp_path: Path,
) -> None:
    turns = [{"text": "one"}, {"text": "two"}]
    async with conversation(tmp_path, turns, settings=ASKS) as session:
        await send_and_settle(session)
        await session.approval.permit("bash(touch *)", Scope.CONVERSATION)
        await send_and_settle(session, "and then")
        await session.approval.permit("bash(rm *)", Scope.CONVERSATION)
        await session.approval.permit("bash(git push *)", Scope.CONVERSATION, Verdict.DENY)
        await session.undo.undo(files=False)
        assert patterns(session) == ["bash(touch *)", "bash(git push *)"]
        told = [e.message for e in of_type(await session.stream.read(), PermissionAction)]
        assert told[-1] == "Taken back: allow bash(rm *) in this conversation"
        await session.undo.redo()
        assert patterns(session) == ["bash(touch *)", "bash(git push *)"]
        id = session.id
    async with ConversationManager(tmp_path / "home", ASKS, make_runtime=WarmRuntime, environ={}) as manager:
        assert patterns(await manager.open(id)) == ["bash(touch *)", "bash(git push *)"]


async def test_permission_revoked_by_undo_stays_revoked_after_a_crash(
    tmp_path: Path,
) -> None:
    async with conversation(tmp_path, [{"text": "one"}], settings=ASKS) as session:
        await send_and_settle(session)
        await session.approval.permit("bash(rm *)", Scope.CONVERSATION)
        session.stream.unsubscribe(EventStreamSubscriber.RUNTIME, "approval")
        await session.undo.undo(files=False)
        assert patterns(session) == ["bash(rm *)"]
        id = session.id
    async with ConversationManager(tmp_path / "home", ASKS, make_runtime=WarmRuntime, environ={}) as manager:
        assert patterns(await manager.open(id)) == []


def patterns(session: AgentSession) -> list[str]:
    return [str(permission.pattern) for permission in session.guard.conversation_permissions]


async def test_confirm_allowed_confirms_only_permitted_actions(
    tmp_path: Path,
) -> None:
    turns = [commands("touch a", "mkdir b", "touch c"), FINISH]
    async with conversation(tmp_path, turns, settings=ASKS) as session:
        await send_and_settle(session)
        first, *_ = [pending.id for pending in session.state.queue]
        await session.approval.permit("bash(touch *)", Scope.CONVERSATION)
        with pytest.raises(UsageError, match="already answered"):
            await session.approval.confirm_allowed(first + 1)
        await session.approval.confirm_allowed(first)
        await settled(session)
        assert [made(tmp_path, name) for name in "abc"] == [True, False, False]
        (asked, behind) = session.state.queue
        assert (asked.held, behind.held) == (True, False), "touch c was agreed to before"
        await session.approval.confirm()
        await settled(session)
        assert [made(tmp_path, name) for name in "abc"] == [True, True, True]


async def test_confirm_allowed_skips_actions_that_only_the_mode_allows(tmp_path: Path) -> None:
    turns = [commands("touch a", "mkdir b", "touch c"), FINISH]
    async with conversation(tmp_path, turns, settings=ASKS) as session:
        await send_and_settle(session)
        first, second, _third = [pending.id for pending in session.state.queue]
        session.approval.set_mode(ConfirmMode.NEVER)
        await session.approval.permit("bash(touch *)", Scope.CONVERSATION)
        await session.approval.confirm_allowed(first)
        await settled(session)
        assert session.state.awaiting == second
        assert (made(tmp_path, "a"), made(tmp_path, "b")) == (True, False)


async def test_permanent_permission_can_be_revoked_and_once_stores_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], settings=ASKS) as session:
        await session.approval.permit("bash(touch *)", Scope.ONCE)
        assert (session.guard.conversation_permissions, session.guard.file.read()) == ([], ())
        with pytest.raises(UsageError):
            await session.approval.permit("nothing(", Scope.CONVERSATION)
        await session.approval.permit("bash(touch *)", Scope.EVERYWHERE)
        await session.approval.permit("bash(mkdir *)", Scope.PROJECT)
        kept = session.guard.file.read()
        assert [(str(p.pattern), p.scope, p.folder, p.informed) for p in kept] == [
            ("bash(touch *)", Scope.EVERYWHERE, "", False),
            ("bash(mkdir *)", Scope.PROJECT, session.info.workspace, False),
        ]
        await session.approval.revoke(kept[0])
        assert [p.scope for p in session.guard.file.read()] == [Scope.PROJECT]


async def test_last_answer_to_a_pattern_counts_and_unknown_patterns_are_ignored(
    tmp_path: Path,
) -> None:
    async with conversation(tmp_path, [FINISH], settings=ASKS) as session:
        for informed in (True, False):
            given = PermissionAction(verdict="allow", pattern="bash(ls)", informed=informed)
            await session.stream.append(given, EventSource.USER)
        await session.stream.append(PermissionAction(verdict="deny", pattern="bash(ls)"), EventSource.USER)
        await session.stream.append(PermissionAction(verdict="allow", pattern="newer(("), EventSource.USER)
        await session.approval.load()
        found = [(p.verdict, str(p.pattern), p.informed) for p in session.guard.conversation_permissions]
        assert found == [(Verdict.ALLOW, "bash(ls)", True), (Verdict.DENY, "bash(ls)", False)]
        last = [e.id for e in await session.stream.read() if isinstance(e.event, PermissionAction)]
        assert [p.id for p in session.guard.conversation_permissions] == [f"c{last[1]}", f"c{last[2]}"]
        await session.approval.revoke(session.guard.conversation_permissions[0])
        assert [p.verdict for p in session.guard.conversation_permissions] == [Verdict.DENY]


# -- without a conversation around it ----------------------------------------------------------------------------------

TOUCH, LIST = "bash(touch *)", "bash(ls)"


def allows(pattern: str, **more: Any) -> PermissionAction:
    return PermissionAction(verdict="allow", pattern=pattern, **more)


@dataclass
class Alone:
    """Approval on the log of one conversation, whose state a test sets; notes the answers that are given."""

    approval: Approval
    stream: EventStream
    state: State
    answers: list[tuple[AgentState, int | None, str]]

    @property
    def patterns(self) -> list[str]:
        return [str(permission.pattern) for permission in self.approval.guard.conversation_permissions]


@asynccontextmanager
async def alone(tmp_path: Path, *events: Event, origin: str = "") -> AsyncIterator[Alone]:
    """After a log of these events was loaded; the settings ask about everything."""
    now, answers = datetime.now(UTC), list[tuple[AgentState, int | None, str]]()
    guard = Guard(home=tmp_path, folder="/work", workspace=lambda: "/work", mode=ConfirmMode.ALWAYS)

    async with opened_stream(tmp_path / "store") as stream:

        async def add(event: Event, cause: int | None) -> Envelope:
            if isinstance(event, ChangeAgentStateAction):
                answers.append((event.agent_state, cause, event.thought))
            return await stream.append(event, EventSource.USER, cause)

        for event in events:
            cause = stream.latest_id if isinstance(event, UndoObservation) else None
            await stream.append(event, EventSource.USER, cause)
        found = Alone(
            Approval(
                stream=stream,
                info=ConversationInfo("c", "", "/work", "m", now, now, 0, origin=origin),
                guard=guard,
                state=lambda: found.state,
                add=add,
            ),
            stream,
            State(),
            answers,
        )
        await found.approval.load()
        yield found


def undo(first: int, **more: Any) -> UndoAction:
    return UndoAction(**{"first": first, "chat": True, "files": False, **more})


UNDONE, NOT_DONE = UndoObservation(), UndoObservation(done=False)


@pytest.mark.parametrize(
    ("events", "patterns"),
    [
        ([allows(TOUCH), allows(LIST)], [TOUCH, LIST]),
        ([allows(TOUCH), allows(TOUCH, revoked=True)], []),
        ([allows(TOUCH), allows(LIST), undo(1), UNDONE], [TOUCH]),
        ([allows(TOUCH), allows(LIST), undo(0), UNDONE], []),
        ([allows(TOUCH), allows(LIST), undo(2), UNDONE], [TOUCH, LIST]),
        ([allows(TOUCH), undo(0)], [TOUCH]),
        ([allows(TOUCH), undo(0), NOT_DONE], [TOUCH]),
        ([allows(TOUCH), undo(0, chat=False, files=True), UNDONE], [TOUCH]),
        ([allows(TOUCH), undo(0, redoes=0), UNDONE], [TOUCH]),
        ([allows(TOUCH), undo(0), allows(LIST), UNDONE], [TOUCH, LIST]),
        ([allows(TOUCH), undo(0), UNDONE, allows(LIST)], [LIST]),
        ([PermissionAction(verdict="deny", pattern=TOUCH), undo(0), UNDONE], [TOUCH]),
    ],
)
async def test_permissions_are_loaded_without_undone_ones(
    tmp_path: Path, events: list[Event], patterns: list[str]
) -> None:
    async with alone(tmp_path, *events) as found:
        assert found.patterns == patterns


YES, NO, AUTO = ConsentAction(origin="x"), ConsentAction(origin="x", given=False), ModeAction(mode="auto-edit")


@pytest.mark.parametrize(
    ("origin", "events", "patterns", "mode"),
    [
        ("", [allows(TOUCH), AUTO], [TOUCH], ConfirmMode.AUTO_EDIT),
        ("", [AUTO, ModeAction(mode="risky", own=True)], [], ConfirmMode.ALWAYS),
        ("", [allows(TOUCH), AUTO, YES], [], ConfirmMode.ALWAYS),
        ("", [YES, allows(TOUCH), AUTO], [TOUCH], ConfirmMode.AUTO_EDIT),
        ("", [NO, allows(TOUCH), AUTO], [], ConfirmMode.ALWAYS),
        ("import", [allows(TOUCH), AUTO], [], ConfirmMode.ALWAYS),
        ("import", [allows(TOUCH), AUTO, YES, allows(LIST)], [LIST], ConfirmMode.ALWAYS),
        ("fork", [allows(TOUCH), AUTO], [TOUCH], ConfirmMode.AUTO_EDIT),
    ],
)
async def test_imported_permissions_do_not_count(
    tmp_path: Path, origin: str, events: list[Event], patterns: list[str], mode: ConfirmMode
) -> None:
    async with alone(tmp_path, *events, origin=origin) as found:
        assert (found.patterns, found.approval.guard.mode) == (patterns, mode)


async def test_permissions_of_a_long_log_are_loaded_completely(tmp_path: Path) -> None:
    async with alone(tmp_path) as found:
        await found.stream.append_all([Draft(allows(f"bash(x{n})"), EventSource.USER) for n in range(1200)])
        await found.approval.load()
        assert len(found.patterns) == 1200
        found.approval.watch()
        last = found.stream.latest_id
        asked = await found.stream.append(undo(last), EventSource.USER)
        await found.stream.append(UNDONE, EventSource.ENVIRONMENT, asked.id)
        await found.stream.settle()
        assert len(found.patterns) == 1199
        (told,) = [e for e in await found.stream.read(after=last) if isinstance(e.event, PermissionAction)]
        assert (told.event, told.source) == (allows("bash(x1199)", revoked=True), EventSource.ENVIRONMENT)


async def test_permission_for_a_delegate_is_stored_in_the_top_conversation(tmp_path: Path) -> None:
    async with alone(tmp_path / "a") as top, alone(tmp_path / "b") as middle, alone(tmp_path / "c") as low:
        middle.approval.share(top.approval)
        low.approval.share(middle.approval)
        assert low.approval.guard.parent is middle.approval.guard
        await low.approval.permit(TOUCH, Scope.CONVERSATION)
        assert (top.patterns, middle.patterns, low.patterns) == ([TOUCH], [], [])
        assert [len(await one.stream.read()) for one in (top, middle, low)] == [1, 0, 0]


def waiting(id: int, command: str, *, held: bool = True, rule: str = "mode") -> Pending:
    judged = Judged(verdict="ask", rule=rule)
    return Pending(id, CmdRunAction(command=command, judgement=judged), held)


def asking(*queue: Pending) -> State:
    return State(agent_state=AgentState.AWAITING_USER_CONFIRMATION, queue=queue)


@pytest.mark.parametrize(
    ("state", "informed"),
    [
        (asking(waiting(1, "ls", rule="taint")), True),
        (asking(waiting(1, "ls", rule="analyzers")), True),
        (asking(waiting(1, "ls", rule="mode")), False),
        (asking(waiting(1, "ls", rule="mode"), waiting(2, "rm", rule="taint")), False),
        (asking(waiting(1, "ls", rule="taint", held=False), waiting(2, "rm", rule="mode")), False),
        (State(queue=(waiting(1, "ls", rule="taint"),)), False),
        (State(), False),
    ],
)
async def test_permission_given_on_a_taint_question_covers_later_taint_questions(
    tmp_path: Path, state: State, informed: bool
) -> None:
    async with alone(tmp_path) as found:
        found.state = state
        await found.approval.permit(LIST, Scope.CONVERSATION)
        await found.approval.permit(LIST, Scope.EVERYWHERE)
        kept = (*found.approval.guard.conversation_permissions, *found.approval.guard.file.read())
        assert [permission.informed for permission in kept] == [informed] * 2


async def test_answer_names_its_action_and_covers_decided_ones(tmp_path: Path) -> None:
    confirmed, rejected = AgentState.USER_CONFIRMED, AgentState.USER_REJECTED
    async with alone(tmp_path) as found:
        approval = found.approval
        with pytest.raises(UsageError, match="already answered"):
            await approval.confirm()
        queue = (waiting(3, "touch a"), waiting(4, "ls"), waiting(5, "touch b"), waiting(6, "ls", held=False))
        found.state = asking(*queue)
        await approval.confirm()
        await approval.confirm(3)
        await approval.reject("why")
        await approval.reject()
        for wrong in (approval.confirm(4), approval.reject("why", 5), approval.reject_denied("why", 4)):
            with pytest.raises(UsageError, match="already answered"):
                await wrong
        assert found.answers == [(confirmed, 3, "")] * 2 + [(rejected, 3, "why"), (rejected, 3, "")]
        found.answers.clear()
        await approval.permit(LIST, Scope.CONVERSATION)
        await approval.confirm_allowed()
        assert found.answers == [(confirmed, 4, ""), (confirmed, 3, "")]
        found.answers.clear()
        await approval.permit(TOUCH, Scope.CONVERSATION, Verdict.DENY)
        await approval.reject_denied("no")
        assert found.answers == [(rejected, 5, "no"), (rejected, 3, "no")]
