"""Actions of the agent and the user that no sandbox carries out: messages, thoughts, state changes, user decisions.

One class each, with the name, fields and defaults of OpenHands V0 (`openhands/events/action/*.py`). Actions for the
sandbox are in `sandbox_actions`. To add one, add a class with a `kind`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import JsonValue, model_validator

from core.events.base import Action, ActionConfirmationStatus, ActionSecurityRisk, AgentState, Event, RecallType

NAMED_IDS = 1000
"""Ids that `message` lists individually."""


class NullAction(Action):
    """No action. Exists so that old trajectories load."""

    kind: ClassVar[str] = "null"

    @property
    def message(self) -> str:
        return "No action"


class MessageAction(Action):
    """A message of the user or the agent."""

    kind: ClassVar[str] = "message"
    pictures: ClassVar[tuple[str, ...]] = ("image_urls",)
    ours: ClassVar[frozenset[str]] = frozenset({"queued", "context", "reasoning"})

    content: str
    file_urls: list[str] | None = None
    image_urls: list[str] | None = None
    wait_for_response: bool = False
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    queued: bool = False
    """It waits until the agent is idle. A message that has it as its cause sends it, a NullAction cancels it."""
    context: str = ""
    """Text for the model that the user did not write: the content of what the message refers to."""
    reasoning: str = ""
    """The model's reasoning before this message. Shown to the user, never sent back."""

    @property
    def message(self) -> str:
        return self.content


class SystemMessageAction(Action):
    """The system prompt and tools of the agent."""

    kind: ClassVar[str] = "system"

    content: str
    tools: list[JsonValue] | None = None
    openhands_version: str | None = None
    agent_class: str | None = None

    @property
    def message(self) -> str:
        return self.content


class AgentDelegateAction(Action):
    """A task that is delegated to another agent."""

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
    """A thought of the agent, logged without any effect."""

    kind: ClassVar[str] = "think"
    runnable: ClassVar[bool] = True

    thought: str = ""

    @property
    def only_reads(self) -> bool:
        return True

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
    """The agent says that it cannot or will not do the task."""

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
    """A request to change the controller's state: interrupt, pause, resume, confirm, reject."""

    kind: ClassVar[str] = "change_agent_state"

    agent_state: AgentState
    thought: str = ""

    @property
    def message(self) -> str:
        return f"Agent state changed to {self.agent_state}"


class CondensationAction(Action):
    """The events that the model no longer sees, and the summary that replaces them."""

    kind: ClassVar[str] = "condensation"
    ours: ClassVar[frozenset[str]] = frozenset({"note"})

    forgotten_event_ids: list[int] | None = None
    forgotten_events_start_id: int | None = None
    forgotten_events_end_id: int | None = None
    summary: str | None = None
    summary_offset: int | None = None
    note: str = ""
    """Why a requested summary is missing, for the user."""

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
        """The forgotten ids, in order. An imported log may name very many, and ids that do not exist."""
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
    """A request to condense the history."""

    kind: ClassVar[str] = "condensation_request"
    ours: ClassVar[frozenset[str]] = frozenset({"keep", "why"})

    keep: str = ""
    """What the summary should keep, in the user's words."""
    why: Literal["wanted", "full", "overflow"] = "wanted"
    """It was requested; the history has grown too large; or the model refused it because of its size."""

    @property
    def message(self) -> str:
        return "Requesting a condensation of the conversation history."


class TaskTrackingAction(Action):
    """View or replace the task list."""

    kind: ClassVar[str] = "task_tracking"
    runnable: ClassVar[bool] = True

    command: Literal["view", "plan"] = "view"
    task_list: list[dict[str, JsonValue]] = []
    thought: str = ""

    @property
    def only_reads(self) -> bool:
        return True

    @property
    def message(self) -> str:
        count = len(self.task_list)
        if not count:
            return "Clearing the task list." if self.command == "plan" else "Viewing the task list."
        return f"Managing {count} task item{'s' if count > 1 else ''}."


# -- what the user decides: Handloom's own actions, except LoopRecoveryAction ----------------------------------------


class LoopRecoveryAction(Action):
    """The user's choice of how to recover from a loop."""

    kind: ClassVar[str] = "loop_recovery"

    option: Literal[1, 2, 3] = 1

    @property
    def message(self) -> str:
        return f"Recovering from a loop by option {self.option}."


class UndoAction(Action):
    """The user undoes a turn and everything after it, or redoes that. Not part of V0.

    The observation says whether it succeeded.
    """

    kind: ClassVar[str] = "undo"

    first: int
    """The first event that is undone, a message of the user. Everything from there to this action is undone."""
    chat: bool = True
    """Whether the model no longer sees those events."""
    files: bool = False
    """Whether the files that they changed are restored."""
    checkpoint: str = ""
    """The checkpoint that is restored."""
    before: str = ""
    """The checkpoint of the files before the undo."""
    spared: list[str] = []
    """Files that differ between the two and are left unchanged."""
    redoes: int | None = None
    """The undo that is redone; None for an undo."""

    @property
    def message(self) -> str:
        what = " and ".join(name for name, is_meant in (("chat", self.chat), ("files", self.files)) if is_meant)
        return f"Undo {self.redoes} taken back: {what}" if self.redoes is not None else f"Undo to {self.first}: {what}"


class ReviewAction(Action):
    """The user reviewed and accepted changes of the conversation. Not part of V0."""

    kind: ClassVar[str] = "review"

    checkpoint: str
    """The checkpoint that later changes are compared with."""
    path: str = ""
    """The accepted file; empty for all files."""
    hunks: list[int] = []
    """The accepted hunks of the file, counted from 0; empty for the whole file."""

    @property
    def message(self) -> str:
        what = f"{len(self.hunks)} of the changes to {self.path}" if self.hunks else self.path or "all changes"
        return f"Accepted: {what}"


PLANNER = "Planner"
"""The agent class that plans before it works."""


class PlanAction(Action):
    """The user approves the plan as given here, or asks for another one. Not part of V0.

    Until the first approval a Planner only reads; then it works, until another plan is requested.
    """

    kind: ClassVar[str] = "plan"

    approved: bool = True
    task_list: list[dict[str, JsonValue]] = []
    """The tasks as edited by the user, in the form of TaskTrackingAction."""

    @property
    def message(self) -> str:
        count = len(self.task_list)
        tasks = f"{count} task{'' if count == 1 else 's'}"
        return f"Plan approved: {tasks}" if self.approved else "Another plan is wanted; nothing changes until then"


class ConsentAction(Action):
    """The user agreed that an imported conversation continues, or has yet to be asked. Not part of V0."""

    kind: ClassVar[str] = "consent"

    origin: str
    """Where the conversation comes from, as shown to the user."""
    given: bool = True

    @property
    def message(self) -> str:
        return (
            f"Goes on although it was imported from {self.origin}." if self.given else f"Imported from {self.origin}."
        )


class PermissionAction(Action):
    """The user allows or denies the actions that a pattern covers in this conversation. Not part of V0."""

    kind: ClassVar[str] = "permission"

    verdict: Literal["allow", "deny"]
    pattern: str
    """As in a policy: `bash(git push *)`."""
    revoked: bool = False
    """Whether the permission is revoked."""
    informed: bool = False
    """Whether it answered a question that was caused by earlier content or actions."""

    @property
    def message(self) -> str:
        what = "Taken back" if self.revoked else "Permission"
        return f"{what}: {self.verdict} {self.pattern} in this conversation"


class ModeAction(Action):
    """The user changes how much the agent may do without approval. Not part of V0."""

    kind: ClassVar[str] = "mode"

    mode: Literal["always", "risky", "auto-edit", "plan", "never"]
    own: bool = False
    """Whether the mode follows the settings again."""

    @property
    def message(self) -> str:
        return f"Mode: {self.mode}"


# -- the model's answer ------------------------------------------------------------------------------------------------


def reasoning_of(event: Event) -> str:
    """The reasoning before the answer that an event begins; empty for other events. Untrusted, like the answer."""
    if isinstance(event, MessageAction):
        return event.reasoning
    message = answer_of(event)
    text = message.get("reasoning_content")
    return text if isinstance(text, str) else "\n".join(_texts(message.get("thinking_blocks")))


def said_and_thought(event: AgentThinkAction) -> tuple[str, str]:
    """What the model said to the user with a thought, and the thought; `thought` has both, one after the other."""
    said = answer_of(event).get("content")
    if isinstance(said, str) and said and event.thought.startswith(f"{said}\n"):
        return said, event.thought[len(said) + 1 :]
    return "", event.thought


def answer_of(event: Event) -> dict[str, Any]:
    """The assistant message of the answer that an event with a tool call begins; empty for other events."""
    metadata = event.tool_call_metadata
    match metadata.model_response if metadata is not None else {}:
        case {"choices": [{"message": dict() as message}, *_]}:
            return message
        case _:
            return {}


def _texts(blocks: Any) -> Iterable[str]:
    for block in blocks if isinstance(blocks, list) else []:
        if isinstance(block, dict) and isinstance(text := block.get("thinking"), str):
            yield text
