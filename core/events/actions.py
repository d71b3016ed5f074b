"""The actions: commands of the agent, the user and the system.

One class each, named and with the fields and defaults of OpenHands V0 (`openhands/events/action/*.py`). To add an
action, add a class with a `kind`; where a runtime has to carry it out, say `runnable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import ClassVar, Literal, Self

from pydantic import JsonValue, model_validator

from core.events.base import Action

NAMED_IDS = 1000
"""Ids that a message names one by one."""


class ActionSecurityRisk(IntEnum):
    """How much harm an action could do."""

    UNKNOWN = -1
    LOW = 0
    MEDIUM = 1
    HIGH = 2


class ActionConfirmationStatus(StrEnum):
    """Whether the user has to agree before an action is carried out."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    AWAITING_CONFIRMATION = "awaiting_confirmation"


class AgentState(StrEnum):
    """What the controller of a conversation is doing."""

    LOADING = "loading"
    RUNNING = "running"
    AWAITING_USER_INPUT = "awaiting_user_input"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"
    REJECTED = "rejected"
    ERROR = "error"
    AWAITING_USER_CONFIRMATION = "awaiting_user_confirmation"
    USER_CONFIRMED = "user_confirmed"
    USER_REJECTED = "user_rejected"
    RATE_LIMITED = "rate_limited"


class RecallType(StrEnum):
    """What memory is asked for."""

    WORKSPACE_CONTEXT = "workspace_context"
    KNOWLEDGE = "knowledge"


class FileEditSource(StrEnum):
    """Which editor an edit is written for."""

    LLM_BASED_EDIT = "llm_based_edit"
    OH_ACI = "oh_aci"


class FileReadSource(StrEnum):
    """Which reader a read is written for."""

    OH_ACI = "oh_aci"
    DEFAULT = "default"


_CONFIRMATION = frozenset({"confirmation_state"})
"""V0 never asks before these; here every action that acts can wait for the user's yes."""


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


class CmdRunAction(Action):
    """A shell command, or input for the one that is running (`is_input`)."""

    kind: ClassVar[str] = "run"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = frozenset({"takes_over"})

    command: str
    is_input: bool = False
    thought: str = ""
    blocking: bool = False
    is_static: bool = False
    cwd: str | None = None
    hidden: bool = False
    takes_over: bool = False
    """The user has the terminal until they give it back; the command is a comment that says so."""
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN

    @property
    def message(self) -> str:
        return f"Running command: {self.command}"


class IPythonRunCellAction(Action):
    """Python for the persistent kernel."""

    kind: ClassVar[str] = "run_ipython"
    runnable: ClassVar[bool] = True

    code: str
    thought: str = ""
    include_extra: bool = True
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    kernel_init_code: str = ""

    @property
    def message(self) -> str:
        return f"Running Python code interactively: {self.code}"


class FileReadAction(Action):
    """A file to read; lines count from 0, `end` -1 is the end."""

    kind: ClassVar[str] = "read"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = _CONFIRMATION

    path: str
    start: int = 0
    end: int = -1
    thought: str = ""
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    impl_source: FileReadSource = FileReadSource.DEFAULT
    view_range: list[int] | None = None

    @property
    def message(self) -> str:
        return f"Reading file: {self.path}"


class FileWriteAction(Action):
    """A file to write, whole or from line `start` to line `end`."""

    kind: ClassVar[str] = "write"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = _CONFIRMATION

    path: str
    content: str
    start: int = 0
    end: int = -1
    thought: str = ""
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN

    @property
    def message(self) -> str:
        return f"Writing file: {self.path}"


class FileEditAction(Action):
    """An edit by the editor's commands (view, create, str_replace, insert, undo_edit)."""

    kind: ClassVar[str] = "edit"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = _CONFIRMATION

    path: str
    command: str = ""
    file_text: str | None = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None
    content: str = ""
    start: int = 1
    end: int = -1
    thought: str = ""
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    impl_source: FileEditSource = FileEditSource.OH_ACI

    @property
    def message(self) -> str:
        return f"Editing file: {self.path}"


class BrowseURLAction(Action):
    """A page to open."""

    kind: ClassVar[str] = "browse"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = _CONFIRMATION

    url: str
    thought: str = ""
    return_axtree: bool = False
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED

    @property
    def message(self) -> str:
        return f"I am browsing the URL: {self.url}"


class BrowseInteractiveAction(Action):
    """Browser functions to call, one a line."""

    kind: ClassVar[str] = "browse_interactive"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = _CONFIRMATION | {"by_user", "hidden_text"}

    browser_actions: str
    thought: str = ""
    browsergym_send_msg_to_user: str = ""
    return_axtree: bool = False
    by_user: bool = False
    """The user has taken the browser over and does this: the keyboard is theirs too, and no tree is told after it."""
    hidden_text: str = ""
    """What HIDDEN stands for in the calls, such as a password. For the sandbox alone: it is never appended."""
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED

    HIDDEN: ClassVar[str] = "<hidden>"
    GIVEN_BACK: ClassVar[str] = "The user gave the browser back."
    """The thought of the step with which the agent has the browser again."""

    @property
    def message(self) -> str:
        return f"I am interacting with the browser:\n```\n{self.browser_actions}\n```"


RECALL_TOOL = "recall_conversations"
"""The tool of ours that looks into earlier conversations. It is an MCPAction, so that V0 can read it."""


class MCPAction(Action):
    """A tool of an MCP server to call."""

    kind: ClassVar[str] = "call_tool_mcp"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = _CONFIRMATION

    name: str
    arguments: dict[str, JsonValue] = {}
    thought: str = ""
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED

    @property
    def message(self) -> str:
        return (
            f"I am interacting with the MCP server with name:\n```\n{self.name}\n```\n"
            f"and arguments:\n```\n{self.arguments}\n```"
        )


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


class LoopRecoveryAction(Action):
    """The user's choice of a way out of a loop."""

    kind: ClassVar[str] = "loop_recovery"

    option: Literal[1, 2, 3] = 1

    @property
    def message(self) -> str:
        return f"Recovering from a loop by option {self.option}."


class UndoAction(Action):
    """The user takes back a turn and all that came after it, or takes back such an undo. Handloom's own: V0 has none.

    It only says what shall be; its observation says whether it is so.
    """

    kind: ClassVar[str] = "undo"

    first: int
    """The first event that is undone, a message of the user. What lies between it and this action is undone."""
    chat: bool = True
    """Whether the model no longer sees those events."""
    files: bool = False
    """Whether the files that they changed are brought back."""
    checkpoint: str = ""
    """How the files shall be."""
    before: str = ""
    """How they were."""
    spared: list[str] = []
    """Files that differ between these two and are left alone."""
    redoes: int | None = None
    """The undo that is taken back; None where this is none of that."""

    @property
    def message(self) -> str:
        what = " and ".join(name for name, is_meant in (("chat", self.chat), ("files", self.files)) if is_meant)
        return f"Undo {self.redoes} taken back: {what}" if self.redoes is not None else f"Undo to {self.first}: {what}"


class ReviewAction(Action):
    """The user has looked through what the conversation changed, and accepts it. Handloom's own: V0 has none."""

    kind: ClassVar[str] = "review"

    checkpoint: str
    """From here on, changes are counted from these files."""
    path: str = ""
    """The file that was accepted; empty for all of them."""
    hunks: list[int] = []
    """Which of its hunks, counted from 0; none for the whole file."""

    @property
    def message(self) -> str:
        what = f"{len(self.hunks)} of the changes to {self.path}" if self.hunks else self.path or "all changes"
        return f"Accepted: {what}"


PLANNER = "Planner"
"""The class of the agent that plans before it carries out."""


class PlanAction(Action):
    """The user approves the plan, as it stands here, or wants another before anything else changes. Handloom's own.

    Until the first approval a Planner only reads; from there on it carries out, until another plan is wanted.
    """

    kind: ClassVar[str] = "plan"

    approved: bool = True
    task_list: list[dict[str, JsonValue]] = []
    """The tasks as the user has edited them, in the form of a TaskTrackingAction's."""

    @property
    def message(self) -> str:
        count = len(self.task_list)
        tasks = f"{count} task{'' if count == 1 else 's'}"
        return f"Plan approved: {tasks}" if self.approved else "Another plan is wanted; nothing changes until then"


class ConsentAction(Action):
    """The user lets a conversation that came from elsewhere go on, or is still to be asked. Handloom's own."""

    kind: ClassVar[str] = "consent"

    origin: str
    """Where it comes from, as the user was told."""
    given: bool = True

    @property
    def message(self) -> str:
        return (
            f"Goes on although it was imported from {self.origin}." if self.given else f"Imported from {self.origin}."
        )


class PermissionAction(Action):
    """The user allows or denies, for this conversation, whatever a pattern covers. Handloom's own."""

    kind: ClassVar[str] = "permission"

    verdict: Literal["allow", "deny"]
    pattern: str
    """As in a policy: `bash(git push *)`."""
    revoked: bool = False
    """Whether it is taken back."""
    informed: bool = False
    """Whether it answered a question that was asked because of what had been read or done before."""

    @property
    def message(self) -> str:
        what = "Taken back" if self.revoked else "Permission"
        return f"{what}: {self.verdict} {self.pattern} in this conversation"
