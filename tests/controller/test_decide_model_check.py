"""The controller's invariants under thousands of random interleavings, and proof that the check bites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from core.controller import decide
from core.controller.exit_reasons import HaltKind
from core.controller.state import State
from core.events import (
    ActionConfirmationStatus,
    AgentDelegateObservation,
    AgentState,
    ChangeAgentStateAction,
    CondensationRequestAction,
    Envelope,
    EventSource,
    MessageAction,
    Observation,
    PlanAction,
    UndoObservation,
)
from tests.controller.simulation import REAL, Violation, World

INTERLEAVINGS = 3000
"""Of the short form; `make campaign` runs the full count."""
EVERYTHING = {
    "limit:iterations",
    "limit:budget",
    "limit:tokens",
    "limit:time",
    "limit:unpriced",
    "limit:day_budget",
    "model:server",
    "model:context_window",
    "sandbox:",
    "stuck:repeating_action_observation",
    "undone",
    "had again",
    "read while planning",
    "condensed because full",
    "condensed because overflow",
    "condensed because wanted",
    "condensed at rest",
    "denied",
    "agreed to ahead",
    "denied one of several",
    "rate limited",
}
"""Situations that some interleavings must reach, so that they are known to have been tested."""


def test_the_invariants_hold_in_random_interleavings(seed: int) -> None:
    reached: set[str] = set()
    for number in range(seed, seed + INTERLEAVINGS):
        world = World(number, reached=reached)
        try:
            world.run()
        except Violation as violation:
            raise AssertionError(f"HANDLOOM_SEED={number}: {violation}") from violation
    assert reached >= EVERYTHING


def forgets_unread_messages(s: State, env: Envelope) -> State:
    """The lost wake-up: a message that arrives while the model thinks is overlooked."""
    after = decide.evolve(s, env)
    if isinstance(env.event, MessageAction) and env.source is EventSource.USER and s.asked is not None:
        return replace(after, unread=False)
    return after


def takes_stale_answers(s: State, env: Envelope) -> State:
    """An answer is accepted for any action."""
    if env.source is EventSource.AGENT and env.cause is not None and s.asked is None and s.answer_left == 0:
        return decide.evolve(replace(s, asked=env.cause), env)
    return decide.evolve(s, env)


def drops_the_queue_at_an_interrupt(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    stopped = isinstance(env.event, ChangeAgentStateAction) and after.agent_state is AgentState.STOPPED
    return replace(after, owed=s.owed) if stopped else after


def runs_held_actions(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    if after.agent_state is AgentState.AWAITING_USER_CONFIRMATION:
        return replace(after, agent_state=AgentState.RUNNING, running=(after.queue[0].id,))
    return after


def forgets_the_rest_of_an_answer(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, queue=after.queue[:1])


def asks_while_an_action_runs(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    if isinstance(env.event, MessageAction) and after.running and after.asked is None:
        return replace(after, asked=env.id)
    return after


def lets_the_limit_pass_silently(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    is_limit = after.halt is not None and after.halt.kind is HaltKind.LIMIT
    return replace(after, agent_state=AgentState.RUNNING) if is_limit else after


def forgets_who_owes(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, running=()) if isinstance(env.event, Observation) and env.cause not in s.running else after


def overlooks_the_budget(s: State, env: Envelope) -> State:
    """The price of the next call is not thought of."""
    return decide.evolve(replace(s, last_cost=0.0), env)


def ends_at_an_error(s: State, env: Envelope) -> State:
    """V0: an error is the end, with nothing to choose."""
    after = decide.evolve(s, env)
    return replace(after, halt=None) if after.agent_state is AgentState.ERROR else after


def forgets_the_queued_message(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, queued=()) if after.agent_state is AgentState.STOPPED else after


def lets_commands_run_side_by_side(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, running=tuple(p.id for p in after.queue if not p.held)) if after.running else after


def loses_delegates(s: State, env: Envelope) -> State:
    """The result of a delegate is taken for that of all of them."""
    after = decide.evolve(s, env)
    done = isinstance(env.event, AgentDelegateObservation)
    return replace(after, running=(), queue=()) if done else after


def waits_for_a_condensation_that_nobody_asks_for(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, condensing=True) if isinstance(env.event, CondensationRequestAction) else after


def condenses_again_and_again(s: State, env: Envelope) -> State:
    """A history that cannot be shortened is condensed endlessly."""
    return decide.evolve(replace(s, condensed=False), env)


def stays_awake_after_a_condensation_by_hand(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, resting_state=None)


def is_greeted_by_what_is_undone(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, first_message_id=s.first_message_id) if isinstance(env.event, UndoObservation) else after


def says_what_is_queued_because_of_an_undo(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    undone = isinstance(env.event, UndoObservation) and after.queued
    return replace(after, releasing=after.queued[0].id) if undone else after


def loses_the_halt_that_was_undone(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, undone=tuple(replace(undone, halt=None) for undone in after.undone))


def carries_out_before_the_approval(s: State, env: Envelope) -> State:
    """A call to change something is taken although the plan is not approved."""
    after = decide.evolve(replace(s, plans=()), env) if env.source is EventSource.AGENT else decide.evolve(s, env)
    return replace(after, plans=after.plans or s.plans)


def forgets_what_waits_when_another_plan_is_wanted(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    again = isinstance(env.event, PlanAction) and after.planning and not s.planning
    return replace(after, queue=s.queue, owed=s.owed, agent_state=s.agent_state) if again else after


def keeps_an_approval_that_was_undone(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, plans=s.plans) if isinstance(env.event, UndoObservation) else after


def carries_out_what_is_denied(s: State, env: Envelope) -> State:
    """The mark of the guard is overlooked."""
    if getattr(env.event, "confirmation_state", None) is ActionConfirmationStatus.REJECTED:
        agreed = {"confirmation_state": ActionConfirmationStatus.CONFIRMED}
        env = replace(env, event=env.event.model_copy(update=agreed))
    return decide.evolve(s, env)


def leaves_what_is_denied_unanswered(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    return replace(after, owed=tuple(owed for owed in after.owed if owed.why != "denied"))


def takes_one_yes_for_another(s: State, env: Envelope) -> State:
    """A yes to an action further back lets the one in front go."""
    if isinstance(env.event, ChangeAgentStateAction) and env.event.agent_state is AgentState.USER_CONFIRMED:
        return decide.evolve(s, replace(env, cause=None))
    return decide.evolve(s, env)


def carries_out_what_stands_behind_a_denied_one(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    if isinstance(env.event, ChangeAgentStateAction) and env.event.agent_state is AgentState.USER_REJECTED:
        held = {pending.id for pending in s.queue if pending.held}
        queue = tuple(replace(p, held=p.held and p.id in held) for p in after.queue)
        return replace(after, queue=queue, agent_state=AgentState.RUNNING, running=tuple(p.id for p in queue[:1]))
    return after


def waits_on_after_the_answer(s: State, env: Envelope) -> State:
    after = decide.evolve(s, env)
    is_answered = s.agent_state is AgentState.RATE_LIMITED and s.asked is not None and after.asked is None
    is_running = is_answered and after.agent_state is AgentState.RUNNING
    return replace(after, agent_state=AgentState.RATE_LIMITED) if is_running else after


def undoes_what_failed(s: State, env: Envelope) -> State:
    if isinstance(env.event, UndoObservation):
        env = replace(env, event=UndoObservation(done=True))
    return decide.evolve(s, env)


RARE: dict[Callable[[State, Envelope], State], int] = {keeps_an_approval_that_was_undone: 3300}
"""The seed at which the search starts, for something that one interleaving in a thousand shows."""


@pytest.mark.parametrize(
    "mutation",
    [
        forgets_unread_messages,
        takes_stale_answers,
        drops_the_queue_at_an_interrupt,
        runs_held_actions,
        forgets_the_rest_of_an_answer,
        asks_while_an_action_runs,
        lets_the_limit_pass_silently,
        forgets_who_owes,
        overlooks_the_budget,
        ends_at_an_error,
        forgets_the_queued_message,
        lets_commands_run_side_by_side,
        loses_delegates,
        waits_for_a_condensation_that_nobody_asks_for,
        condenses_again_and_again,
        stays_awake_after_a_condensation_by_hand,
        is_greeted_by_what_is_undone,
        says_what_is_queued_because_of_an_undo,
        loses_the_halt_that_was_undone,
        carries_out_before_the_approval,
        forgets_what_waits_when_another_plan_is_wanted,
        keeps_an_approval_that_was_undone,
        carries_out_what_is_denied,
        leaves_what_is_denied_unanswered,
        takes_one_yes_for_another,
        carries_out_what_stands_behind_a_denied_one,
        undoes_what_failed,
        waits_on_after_the_answer,
    ],
)
def test_mutation_of_evolve_is_caught(mutation: Callable[[State, Envelope], State]) -> None:
    first = RARE.get(mutation, 0)
    assert caught(SimpleNamespace(evolve=mutation, react=decide.react, resume=decide.resume), first)


@pytest.mark.parametrize(
    "effect_type", [decide.AskAgent, decide.Execute, decide.Emit], ids=["AskAgent", "Execute", "Emit"]
)
def test_lost_effect_is_caught(effect_type: type) -> None:
    def react(before: State, after: State, env: Envelope) -> tuple[decide.Effect, ...]:
        return tuple(e for e in decide.react(before, after, env) if not isinstance(e, effect_type))

    assert caught(SimpleNamespace(evolve=decide.evolve, react=react, resume=decide.resume))


def test_restart_that_settles_nothing_is_caught() -> None:
    assert caught(SimpleNamespace(evolve=decide.evolve, react=decide.react, resume=lambda state: ()))


def test_missing_cancel_leaves_a_model_call_running() -> None:
    def react(before: State, after: State, env: Envelope) -> tuple[decide.Effect, ...]:
        return tuple(e for e in decide.react(before, after, env) if not isinstance(e, decide.Cancel))

    assert caught(SimpleNamespace(evolve=decide.evolve, react=react, resume=decide.resume))


def caught(machine: Any, first: int = 0, seeds: int = 5000) -> bool:
    """Whether the check finds fault with a machine within so many interleavings, and not with the real one there."""
    for seed in range(first, first + seeds):
        try:
            World(seed, machine).run()
        except Violation:
            World(seed, REAL).run()
            return True
    return False
