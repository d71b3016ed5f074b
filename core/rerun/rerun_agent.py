"""AgainAgent: gives the recorded actions of a saved session, one a step, and no model takes part.

A step is a function of the history: the n-th action that it gives is the n-th that was recorded, so every recorded
action has exactly one in the new log. What is not run again is a message in its place that says so. The gate holds the
agent back while the user's part of the recording is to come, and while the run is paused.
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
    """Where a run waits: for the user's part of the recording, and for whoever paused it."""

    def __init__(self) -> None:
        self.is_open = True
        """Whether it goes on by itself."""
        self.waiting: int | None = None
        """The number of the agent's action before which the user's part is to come; None where nobody waits for it."""
        self.holds = False
        """Whether somebody waits to be let through."""
        self.on_wait: Callable[[], None] = lambda: None
        """Called whenever somebody begins to wait here."""
        self._opened = asyncio.Event()
        self._said = -1
        self._steps = 0

    def pause(self) -> None:
        """Let nothing more through; what runs comes to its end."""
        self.is_open, self._steps = False, 0
        self._opened.set()

    def go_on(self) -> None:
        """Let everything through."""
        self.is_open = True
        self._opened.set()

    def step(self) -> None:
        """Let one action through, and pause."""
        self.is_open, self._steps = False, 1
        self._opened.set()

    def said(self, position: int) -> None:
        """The user's part is done up to the agent's action of this number."""
        self._said = position
        self._opened.set()

    async def users_part(self, position: int) -> None:
        """Return when the user has said what comes before the agent's action of this number."""
        try:
            while self._said < position:
                await self._wait(waiting=position)
        finally:
            self.waiting = None

    async def passed(self) -> None:
        """Return when one more action may begin. Cancelling leaves the gate as it was."""
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


class AgainAgent:
    """Implements core.protocols.Agent.

    `lacking` says why the sandbox cannot carry out an action, `moved` gives it the folder of the run, `look` sees the
    history before each step.
    """

    name = "AgainAgent"

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
        """Whether the agent's next action follows, with nothing of the user's between."""
        self._gate = gate
        self._lacking = lacking
        self._moved = moved
        self._look = look
        self._read = self._given_before = 0
        """How much of the history was counted, so that each event is looked at once, and what it came to."""

    def system_message(self) -> SystemMessageAction:
        """What the conversation begins with."""
        return SystemMessageAction(content=ABOUT, agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """The next recorded action, once the gate lets it through; after the last one, the end."""
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
        """The action as it is given again. Where the recording goes on after it, it does not end the turn."""
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
    """What stands in place of an action that is not run: why, what it was, and what came of it then."""
    lines = [not_run(why), step.action.message]
    result = step.result.event if step.result else None
    if isinstance(result, Observation) and result.content:
        lines += ["What was recorded:", result.content]
    return "\n".join(line for line in lines if line)
