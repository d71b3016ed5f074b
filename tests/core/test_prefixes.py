"""A log may end anywhere: every prefix of long recorded logs folds to the state that was live, and goes on from there.

The logs are recorded here, from sessions that do all that a conversation can do: questions, refusals, interrupts,
pauses, limits, loops, errors of model and sandbox, delegates, condensations, queued messages.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.controller.controller import AgentController
from core.controller.decide import fold
from core.controller.halts import Way
from core.controller.state import Limits, State
from core.events import (
    Action,
    AgentState,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    Observation,
    envelope_from_dict,
    envelope_to_dict,
)
from core.manager.conversation_manager import ConversationManager
from core.memory.condensers.making import room_of
from core.memory.condensers.settings import CondenserSettings
from core.session.agent_session import AgentSession
from core.session.snapshots import can_be_kept, restored, written
from core.settings.config import Settings
from core.store.event_store import EventStore
from core.store.writer import Draft
from tests.doubles import FINISH, ScriptedRuntime, bash, call, gone, write_script

LEAST = 300
"""Events of a log."""
TURNS = 400
LIMITS = Limits(25, 2.0, 100_000, 3600, room_of(CondenserSettings()))


def turns(chance: random.Random) -> list[dict[str, Any]]:
    """What the model does, at random, with everything that can go wrong."""
    found: list[dict[str, Any]] = []
    for number in range(TURNS):
        usage = {"prompt_tokens": 50, "completion_tokens": 5, "cost": 0.05}
        calls = [bash(f"echo {number}.{n}") for n in range(chance.randint(1, 3))]
        dice = chance.random()
        if dice < 0.1:
            calls = [call("think", thought=str(number)), call("no_such_tool")]
        elif dice < 0.15:
            calls = [call("delegate", task=str(number)), call("delegate", task="another")]
        elif dice < 0.2:
            calls = [call("finish", message="done")]
        turn: dict[str, Any] = {"tool_calls": calls, "usage": usage}
        if chance.random() < 0.1:
            turn["fault"] = chance.choice(["server_error", "context_window", "malformed_arguments", "empty"])
        found.append(turn)
    return found


async def meddle(session: AgentSession, chance: random.Random) -> None:
    """What the user does next, at random, where the agent rests."""
    state = session.state
    if state.awaiting is not None:
        await (session.confirm() if chance.random() < 0.8 else session.reject(chance.choice(["", "because"])))
    elif state.halt is not None:
        await session.ways.take(chance.choice([way for way in state.halt.ways if way is not Way.SWITCH_MODEL]))
    else:
        await session.send(f"message {chance.random()}")
    match chance.randrange(12):
        case 0:
            await session.interrupt()
        case 1:
            await session.pause()
        case 2:
            await session.queue("later")
        case 3:
            await session.send("and this, too")


def answer(chance: random.Random, action: Action) -> Observation | BaseException:
    if chance.random() < 0.05:
        return gone() if chance.random() < 0.5 else RuntimeError("a bug of the sandbox")
    return CmdOutputObservation(command=action.command if isinstance(action, CmdRunAction) else "", content="ok")


def settings(tmp_path: Path) -> Settings:
    agent = {
        "confirm": "risky",
        "delegate_model": write_script(tmp_path, [FINISH], "child.yaml"),
        "max_iterations": LIMITS.max_iterations,
        "max_budget": LIMITS.max_budget,
        "max_tokens": LIMITS.max_tokens,
        "max_seconds": LIMITS.max_seconds,
    }
    return Settings.model_validate({"agent": agent})


async def record(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Sequence[Envelope], dict[int, State]]:
    """A log of at least LEAST events, and the state that was live after each."""
    chance, live = random.Random(seed), dict[int, State]()
    on_event = AgentController.on_event

    async def watched(self: AgentController, envelope: Envelope) -> None:
        work = on_event(self, envelope)
        await work
        if self.stream.conversation_id == conversation:
            live[envelope.id] = fold_of(self)

    def fold_of(controller: AgentController) -> State:
        return controller.state

    conversation = ""
    monkeypatch.setattr(AgentController, "on_event", watched)
    make_runtime = lambda folder: ScriptedRuntime(lambda action: answer(chance, action))  # noqa: E731
    async with ConversationManager(
        tmp_path / "recorded", settings(tmp_path), make_runtime=make_runtime, environ={}
    ) as manager:
        model = write_script(tmp_path, turns(chance), "recorded.yaml")
        session = await manager.create(workspace=str(tmp_path), model=model)
        conversation = session.info.id
        while session.stream.latest_id < LEAST:
            await meddle(session, chance)
            async with asyncio.timeout(20):
                await session.settled()
        log = await session.stream.read()
    return log, live


async def stored(home: Path, logs: Sequence[Sequence[Envelope]], workspace: str, model: str) -> list[str]:
    """A home with these logs in it; their ids."""
    names: list[str] = []
    async with EventStore(home) as store:
        for log in logs:
            names.append(f"prefix-{len(names)}")
            lease = await store.create_conversation(names[-1], title="t", workspace=workspace, model=model)
            if log:
                await store.append(lease, [Draft(e.event, e.source, e.cause) for e in log])
    return names


@pytest.mark.timeout(400)
@pytest.mark.parametrize("log_number", range(3))
async def test_every_prefix_of_a_recorded_log_folds_to_what_was_live_and_goes_on(
    tmp_path: Path, seed: int, log_number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, live = await record(tmp_path, seed + log_number, monkeypatch)
    assert len(log) >= LEAST
    kept, whole = 0, [envelope_from_dict(envelope_to_dict(e)) for e in log]
    for count in range(1, len(log) + 1):
        state = fold(whole[:count], LIMITS)
        if count - 1 in live:
            assert state == live[count - 1], f"after event {count - 1}"
        if can_be_kept(state):
            kept += 1
            assert restored(written(state)) == state, f"after event {count - 1}"
    assert len(live) > LEAST * 0.9
    assert kept > LEAST * 0.05
    finishes = write_script(tmp_path, [FINISH] * (2 * TURNS), "finishes.yaml")
    names = await stored(tmp_path / "home", [log[:count] for count in range(len(log) + 1)], str(tmp_path), finishes)
    monkeypatch.undo()
    async with ConversationManager(
        tmp_path / "home", settings(tmp_path), make_runtime=lambda folder: ScriptedRuntime(), environ={}
    ) as manager:
        for name in names:
            await goes_on(manager, name)


async def goes_on(manager: ConversationManager, name: str) -> None:
    """Open a conversation as it was left, and bring its work to an end."""
    session = await manager.open(name)
    for _ in range(6):
        await session.send("go on")
        async with asyncio.timeout(20):
            await session.settled()
        if session.state.awaiting is not None:
            await session.reject("no")
        elif session.state.halt is not None:
            await session.ways.take(Way.EXTEND if Way.EXTEND in session.state.halt.ways else Way.STOP)
        async with asyncio.timeout(20):
            await session.settled()
        if session.state.agent_state is AgentState.FINISHED:
            break
    assert session.state.agent_state is AgentState.FINISHED, f"{name} rests in {session.state}"
    events = await session.stream.read()
    answers = [e.cause for e in events if isinstance(e.event, Observation)]
    for envelope in events:
        if isinstance(envelope.event, Action) and envelope.event.acts:
            assert answers.count(envelope.id) == 1, f"{name}: action {envelope.id} has {answers.count(envelope.id)}"
    await manager.close(name)


async def test_clocks_that_jump_change_nothing_but_the_time_that_is_told(tmp_path: Path) -> None:
    moments = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=days) for days in (0, 400, -400, 3, -3) * 40)
    async with EventStore(tmp_path / "home", clock=lambda: next(moments)) as store:
        lease = await store.create_conversation("c", title="", workspace="/", model="m")
        for number in range(20):
            await store.append(lease, [Draft(CmdRunAction(command=str(number)), event_source(number))])
        log = await store.read("c")
    assert [e.id for e in log] == list(range(20))
    assert fold(log).worked_s >= 0


def event_source(number: int) -> Any:
    from core.events import EventSource

    return list(EventSource)[number % 3]
