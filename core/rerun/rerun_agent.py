"""An agent that gives the recorded actions of a saved session, one a step, without a model.

A step is a function of the history: the n-th action that it gives is the n-th that was recorded, so every recorded
action has exactly one event in the new log. An action that is not run again is a message that says so. The gate holds
the agent while the user's part of the recording is due, and while the run is paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentFinishAction,
    AgentRejectAction,
    Envelope,
    Event,
    LLMMetrics,
    MessageAction,
    Observation,
    SystemMessageAction,
)
from core.protocols import FrameSink
from core.rerun.alignment import not_run
from core.rerun.recipe import Step, is_given

ABOUT = "The actions of a saved session are run again. No model takes part."
END = "This is the end of what was recorded."


class Gate:
    """Where a run waits: for the user's part of the recording, and while it is paused."""

    def __init__(self) -> None:
        self.is_open = True
        """Whether it is not paused."""
        self.waiting: int | None = None
        """The number of the agent's action before which the user's part is due; None if nothing waits for it."""
        self.holds = False
        """Whether something waits here."""
        self.on_wait: Callable[[], None] = lambda: None
        """Called when something begins to wait here."""
        self._opened = asyncio.Event()
        self._said = -1
        self._steps = 0

    def pause(self) -> None:
        """Pause; the running action ends."""
        self.is_open, self._steps = False, 0
        self._opened.set()

    def go_on(self) -> None:
        """Continue."""
        self.is_open = True
        self._opened.set()

    def step(self) -> None:
        """Let one action through, and pause."""
        self.is_open, self._steps = False, 1
        self._opened.set()

    def said(self, position: int) -> None:
        """The user's part before the agent's action with this number is done."""
        self._said = position
        self._opened.set()

    async def users_part(self, position: int) -> None:
        """Return when the user's part before the agent's action with this number is done."""
        try:
            while self._said < position:
                await self._wait(waiting=position)
        finally:
            self.waiting = None

    async def passed(self) -> None:
        """Return when one more action may begin. Cancelling leaves the gate unchanged."""
        try:
            while not self.is_open and not self._steps:
                await self._wait(holds=True)
        finally:
            self.holds = False
        self._steps = 0

    async def _wait(self, *, waiting: int | None = None, holds: bool = False) -> None:
        if (self.waiting, self.holds) != (waiting, holds):
            self.waiting, self.holds = waiting, holds
            self.on_wait()
        self._opened.clear()
        await self._opened.wait()


class RerunAgent:
    """Implements core.protocols.Agent.

    `lacking` says why the sandbox cannot carry out an action, `moved` changes an action for the folder of the run,
    `look` gets the history before each step.
    """

    name = "RerunAgent"

    def __init__(
        self,
        steps: Sequence[Step],
        gate: Gate,
        *,
        lacking: Callable[[Action], str],
        moved: Callable[[Action], Action],
        look: Callable[[Sequence[Envelope]], None],
    ) -> None:
        self._steps = [step for step in steps if not step.is_users]
        after = [*steps[1:], None]
        self._leads_on = [
            next_ is not None and not next_.is_users
            for step, next_ in zip(steps, after, strict=True)
            if not step.is_users
        ]
        """Whether the next action of the agent follows without a part of the user."""
        self._gate = gate
        self._lacking = lacking
        self._moved = moved
        self._look = look
        self._read = self._given_before = 0
        """How much of the history was counted, so that each event is looked at once, and the count."""

    def system_message(self) -> SystemMessageAction:
        """The system message of the recording."""
        return SystemMessageAction(content=ABOUT, agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """The next recorded action, when the gate lets it through; after the last one, the end."""
        self._given_before += sum(map(is_given, history[self._read :]))
        self._read = len(history)
        position = self._given_before
        await self._gate.users_part(position)
        self._look(history)
        if position >= len(self._steps):
            return [AgentFinishAction(final_thought=END)]
        await self._gate.passed()
        return [self._given(position)]

    def _given(self, position: int) -> Event:
        """The action to give. It does not end the turn if the recording goes on after it."""
        step, leads_on = self._steps[position], self._leads_on[position]
        action, is_last = step.action, position == len(self._steps) - 1
        if why := step.why_not or self._lacking(action):
            return MessageAction(content=told(step, why))
        if isinstance(action, AgentFinishAction | AgentRejectAction) and leads_on:
            return MessageAction(content=getattr(action, "final_thought", "") or action.message)
        update: dict[str, object] = {"llm_metrics": None}
        if action.tool_call_metadata is not None:  # one action a step, so that a run can pause between any two
            alone = action.tool_call_metadata.model_copy(update={"total_calls_in_response": 1})
            update["tool_call_metadata"] = alone
        if hasattr(action, "confirmation_state"):
            update["confirmation_state"] = ActionConfirmationStatus.CONFIRMED
        if isinstance(action, MessageAction):
            update["wait_for_response"] = not leads_on and not is_last
        return self._moved(action.model_copy(update=update))


def told(step: Step, why: str) -> str:
    """The message for an action that is not run: the reason, the action, and the recorded result."""
    lines = [not_run(why), step.action.message]
    result = step.result.event if step.result else None
    if isinstance(result, Observation) and result.content:
        lines += ["What was recorded:", result.content]
    return "\n".join(line for line in lines if line)
