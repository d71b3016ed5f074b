"""The actions of a conversation: what is said, thought, handed over, recalled and condensed, and how it goes on.

One class each, named and with the fields and defaults of OpenHands V0 (`openhands/events/action/*.py`). What a runtime
carries out is in `sandbox_actions`, what the user decides in `user_actions`. To add one, add a class with a `kind`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import JsonValue, model_validator

from core.events.base import Action
from core.events.schema import ActionConfirmationStatus, ActionSecurityRisk, AgentState, RecallType

NAMED_IDS = 1000
"""Ids that a message names one by one."""


class NullAction(Action):
    """Nothing is wanted. Kept so that old trajectories load."""

    kind: ClassVar[str] = "null"

    @property
    def message(self) -> str:
        return "No action"


class MessageAction(Action):
    """Something said, by the user or by the agent."""

    kind: ClassVar[str] = "message"
    pictures: ClassVar[tuple[str, ...]] = ("image_urls",)
    ours: ClassVar[frozenset[str]] = frozenset({"queued", "context", "reasoning"})

    content: str
    file_urls: list[str] | None = None
    image_urls: list[str] | None = None
    wait_for_response: bool = False
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    queued: bool = False
    """To be said once the agent rests, by a message whose cause this one is; a NullAction with that cause drops it."""
    context: str = ""
    """What the model reads behind the content, and the user did not write: what the message refers to."""
    reasoning: str = ""
    """What the model thought before it said this. Shown beside it, and never sent back."""

    @property
    def message(self) -> str:
        return self.content


class SystemMessageAction(Action):
    """The system prompt and the tools that the agent starts with."""

    kind: ClassVar[str] = "system"

    content: str
    tools: list[JsonValue] | None = None
    openhands_version: str | None = None
    agent_class: str | None = None

    @property
    def message(self) -> str:
        return self.content


class AgentDelegateAction(Action):
    """A task for another agent."""

    kind: ClassVar[str] = "delegate"
    delegated: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = frozenset({"confirmation_state", "security_risk"})

    agent: str
    inputs: dict[str, JsonValue] = {}
    thought: str = ""
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED

    @property
    def message(self) -> str:
        return f"I'm asking {self.agent} for help with this task."


class AgentThinkAction(Action):
    """A thought, logged and answered at once."""

    kind: ClassVar[str] = "think"
    runnable: ClassVar[bool] = True

    thought: str = ""

    @property
    def message(self) -> str:
        return f"I am thinking...: {self.thought}"


class AgentFinishAction(Action):
    """The agent says that the task is done."""

    kind: ClassVar[str] = "finish"

    final_thought: str = ""
    outputs: dict[str, JsonValue] = {}
    thought: str = ""

    @property
    def message(self) -> str:
        return self.thought or "All done! What's next on the agenda?"


class AgentRejectAction(Action):
    """The agent says that it will not or cannot do the task."""

    kind: ClassVar[str] = "reject"

    outputs: dict[str, JsonValue] = {}
    thought: str = ""

    @property
    def message(self) -> str:
        reason = self.outputs.get("reason")
        return "Task is rejected by the agent." + (f" Reason: {reason}" if reason else "")


class RecallAction(Action):
    """What memory should look up."""

    kind: ClassVar[str] = "recall"

    recall_type: RecallType
    query: str = ""
    thought: str = ""

    @property
    def message(self) -> str:
        return f"Retrieving content for: {self.query[:50]}"


class ChangeAgentStateAction(Action):
    """A wish to change the controller's state: interrupt, pause, resume, confirm, reject."""

    kind: ClassVar[str] = "change_agent_state"

    agent_state: AgentState
    thought: str = ""

    @property
    def message(self) -> str:
        return f"Agent state changed to {self.agent_state}"


class CondensationAction(Action):
    """Which events the model no longer sees, and what stands in for them."""

    kind: ClassVar[str] = "condensation"
    ours: ClassVar[frozenset[str]] = frozenset({"note"})

    forgotten_event_ids: list[int] | None = None
    forgotten_events_start_id: int | None = None
    forgotten_events_end_id: int | None = None
    summary: str | None = None
    summary_offset: int | None = None
    note: str = ""
    """Why there is no summary where one was wanted; for people."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        by_ids = self.forgotten_event_ids is not None
        bounds = {self.forgotten_events_start_id is None, self.forgotten_events_end_id is None}
        by_range = bounds == {False}
        if len(bounds) == 2 or by_ids == by_range or (self.summary is None) != (self.summary_offset is None):
            raise ValueError("Invalid configuration of the optional fields.")
        return self

    @property
    def forgotten(self) -> Sequence[int]:
        """The ids that are forgotten, in order. A log from elsewhere may name ids that no event has, and very many."""
        if self.forgotten_event_ids is not None:
            return self.forgotten_event_ids
        start, end = self.forgotten_events_start_id, self.forgotten_events_end_id
        return range(start, end + 1) if start is not None and end is not None else ()

    @property
    def message(self) -> str:
        if self.summary:
            return f"Summary: {self.summary}"
        ids = self.forgotten
        if isinstance(ids, range) and ids.stop - ids.start > NAMED_IDS:
            return f"Condenser is dropping the events: {ids.start} to {ids.stop - 1}."
        return f"Condenser is dropping the events: {list(ids)}."


class CondensationRequestAction(Action):
    """A wish for a shorter history."""

    kind: ClassVar[str] = "condensation_request"
    ours: ClassVar[frozenset[str]] = frozenset({"keep", "why"})

    keep: str = ""
    """What the summary is to keep above all, in the user's words."""
    why: Literal["wanted", "full", "overflow"] = "wanted"
    """Somebody wanted it; what the model sees has grown too large; or the model has refused it for that."""

    @property
    def message(self) -> str:
        return "Requesting a condensation of the conversation history."


class TaskTrackingAction(Action):
    """The plan, to be shown or replaced."""

    kind: ClassVar[str] = "task_tracking"
    runnable: ClassVar[bool] = True

    command: Literal["view", "plan"] = "view"
    task_list: list[dict[str, JsonValue]] = []
    thought: str = ""

    @property
    def message(self) -> str:
        count = len(self.task_list)
        if not count:
            return "Clearing the task list." if self.command == "plan" else "Viewing the task list."
        return f"Managing {count} task item{'s' if count > 1 else ''}."
