"""A log may end anywhere: every prefix of long recorded logs folds to the state that was live, and goes on from there.

The short form folds every prefix, too, and lets every `STRIDE`th go on, each log from another one.

The logs are recorded here, from sessions that do all that a conversation can do: questions, refusals, interrupts,
pauses, limits, loops, errors of model and sandbox, delegates, condensations, queued messages.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.controller.controller import AgentController
from core.controller.decide import evolve, fold
from core.controller.exit_reasons import HaltOption
from core.controller.state import Limits, State
from core.conversations.conversation_manager import ConversationManager
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
from core.memory.condensers.condenser import context_limit
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from core.settings.sections import CondenserSettings
from core.snapshots.state_snapshots import is_storable, state_from_json, state_to_json
from core.store.event_store import EventStore
from core.store.writer import Draft
from tests.campaign.trial import Facts, Result, check, run_trials
from tests.doubles import FINISH, ScriptedRuntime, bash, call, gone, write_script

PROMISE = "A conversation goes on from wherever its log ends, and its state is the fold of what is there."
LOGS, STRIDE = 3, 6
LEAST = 300
"""Events of a log."""
TURNS = 400
LIMITS = Limits(25, 2.0, 100_000, 3600, context_limit(CondenserSettings()))


def turns(chance: random.Random) -> list[dict[str, Any]]:
    """A random model, with every fault."""
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
    """A random action of the user while the agent rests."""
    state = session.state
    if state.awaiting is not None:
        await (
            session.approval.confirm()
            if chance.random() < 0.8
            else session.approval.reject(chance.choice(["", "because"]))
        )
    elif state.halt is not None:
        await session.recover(chance.choice([way for way in state.halt.options if way is not HaltOption.SWITCH_MODEL]))
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


async def record(folder: Path, seed: int, least: int = LEAST) -> tuple[Sequence[Envelope], dict[int, State]]:
    """A log of at least so many events, and the state that was live after each."""
    chance, live = random.Random(seed), dict[int, State]()
    make_runtime = lambda workspace: ScriptedRuntime(lambda action: answer(chance, action))  # noqa: E731
    async with ConversationManager(
        folder / "recorded", settings(folder), make_runtime=make_runtime, environ={}
    ) as manager:
        model = write_script(folder, turns(chance), "recorded.yaml")
        with _watched(live) as conversations:
            session = await manager.create(workspace=str(folder), model=model)
            conversations.append(session.info.id)
            while session.stream.latest_id < least:
                await meddle(session, chance)
                async with asyncio.timeout(20):
                    await session.settled()
            return await session.stream.read(), live


@contextmanager
def _watched(live: dict[int, State]) -> Iterator[list[str]]:
    """Keep the state after each event of the conversations that are named in the list."""
    on_event, conversations = AgentController.on_event, list[str]()

    async def watched(self: AgentController, envelope: Envelope) -> None:
        await on_event(self, envelope)
        if self.stream.conversation_id in conversations:
            live[envelope.id] = self.state

    AgentController.on_event = watched  # type: ignore[method-assign]
    try:
        yield conversations
    finally:
        AgentController.on_event = on_event  # type: ignore[method-assign]


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


def run(stride: int, seed: int, logs: int = LOGS) -> Result:
    """So many logs, with seeds in a row; of each, one prefix in `stride` goes on."""
    return run_trials("prefixes", PROMISE, trial, [(seed + n, stride, n) for n in range(logs)], seed=seed)


def trial(case: tuple[int, int, int]) -> Facts:
    """One log: all its prefixes are folded, and one in `stride` goes on, from the `first` on."""
    seed, stride, first = case
    with tempfile.TemporaryDirectory(prefix="handloom-prefixes-") as folder:
        return asyncio.run(_every_prefix(Path(folder), seed, stride, first))


async def _every_prefix(folder: Path, seed: int, stride: int, first: int) -> Facts:
    log, live = await record(folder, seed)
    facts = folds(log, live)
    check(facts.counts["kept"] > LEAST * 0.05, f"only {facts.counts['kept']} states could be kept")
    finishes = write_script(folder, [FINISH] * (2 * TURNS), "finishes.yaml")
    chosen = range(first % stride, len(log) + 1, stride)
    names = await stored(folder / "home", [log[:count] for count in chosen], str(folder), finishes)
    async with ConversationManager(
        folder / "home", settings(folder), make_runtime=lambda workspace: ScriptedRuntime(), environ={}
    ) as manager:
        for name in names:
            await goes_on(manager, name)
    facts.counts["went on"] += len(names)
    return facts


def folds(log: Sequence[Envelope], live: dict[int, State]) -> Facts:
    """Every prefix folds to the live state, and stored states are complete. Raises Violation."""
    facts, state = Facts(), fold([], LIMITS)
    for envelope in log:
        state = evolve(state, envelope_from_dict(envelope_to_dict(envelope)))
        if envelope.id in live:
            check(state == live[envelope.id], f"after event {envelope.id}: {state} is not {live[envelope.id]}")
            facts.counts["folded"] += 1
        if is_storable(state):
            facts.counts["kept"] += 1
            check(state_from_json(state_to_json(state)) == state, f"kept after event {envelope.id}: {state}")
    check(state == fold(log, LIMITS), f"at the end: {state}")
    return facts


async def goes_on(manager: ConversationManager, name: str) -> None:
    """Open a conversation as it was left, and bring its work to an end."""
    session = await manager.open(name)
    for _ in range(6):
        await session.send("go on")
        async with asyncio.timeout(20):
            await session.settled()
        if session.state.awaiting is not None:
            await session.approval.reject("no")
        elif session.state.halt is not None:
            options = session.state.halt.options
            await session.recover(HaltOption.EXTEND if HaltOption.EXTEND in options else HaltOption.STOP)
        async with asyncio.timeout(20):
            await session.settled()
        if session.state.agent_state is AgentState.FINISHED:
            break
    check(session.state.agent_state is AgentState.FINISHED, f"{name} rests in {session.state}")
    events = await session.stream.read()
    answers = [e.cause for e in events if isinstance(e.event, Observation)]
    for envelope in events:
        if isinstance(envelope.event, Action) and envelope.event.acts:
            count = answers.count(envelope.id)
            check(count == 1, f"{name}: action {envelope.id} has {count} observations")
    await manager.close(name)
