"""The observations: results of actions, and events of the environment.

One class each, with the name and fields of OpenHands V0 (`openhands/events/observation/*.py`). `content` is the text
for the model; the other fields are stored as `extras`.
"""

from __future__ import annotations

import re
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, JsonValue

from core.events.base import AgentState, FileEditSource, FileReadSource, Observation, RecallType

MAX_CMD_OUTPUT_CHARS = 30_000
"""The longest command output that the model sees: more would fill its context."""
TRUNCATION_NOTICE = "\n[... Observation truncated due to length ...]\n"

_KERNEL_LINES = re.compile(r"\n\[Jupyter current working directory: [^\n]*\]\n\[Jupyter Python interpreter: [^\n]*\]\Z")


def truncate_middle(text: str, limit: int = MAX_CMD_OUTPUT_CHARS) -> str:
    """Replace the middle of a text of more than `limit` characters with a notice."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return text[:half] + TRUNCATION_NOTICE + text[-half:]


class CmdOutputMetadata(BaseModel):
    """Facts that the shell reports after a command."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    exit_code: int = -1
    """-1 while the command is running, or if unknown."""
    pid: int = -1
    username: str | None = None
    hostname: str | None = None
    working_dir: str | None = None
    py_interpreter_path: str | None = None
    prefix: str = ""
    suffix: str = ""


class NullObservation(Observation):
    """No observation. Exists so that old trajectories load."""

    kind: ClassVar[str] = "null"

    @property
    def message(self) -> str:
        return "No observation"


class CmdOutputObservation(Observation):
    """The output of a shell command."""

    kind: ClassVar[str] = "run"

    command: str
    hidden: bool = False
    metadata: CmdOutputMetadata = CmdOutputMetadata()

    @property
    def exit_code(self) -> int:
        return self.metadata.exit_code

    @property
    def success(self) -> bool:
        return self.metadata.exit_code == 0

    @property
    def message(self) -> str:
        return f"Command `{self.command}` executed with exit code {self.exit_code}."

    def to_agent_text(self) -> str:
        """The text for the model, in the form that V0 uses: output, then cwd, interpreter, exit code."""
        m = self.metadata
        text = f"{m.prefix}{self.content}{m.suffix}"
        if m.working_dir:
            text += f"\n[Current working directory: {m.working_dir}]"
        if m.py_interpreter_path:
            text += f"\n[Python interpreter: {m.py_interpreter_path}]"
        if m.exit_code != -1:
            text += f"\n[Command finished with exit code {m.exit_code}]"
        return text


class IPythonRunCellObservation(Observation):
    """The output of a cell."""

    kind: ClassVar[str] = "run_ipython"
    ours: ClassVar[frozenset[str]] = frozenset({"exception"})
    pictures: ClassVar[tuple[str, ...]] = ("image_urls",)

    code: str
    image_urls: list[str] | None = None
    exception: str = ""
    """The exception that ended the cell, in one line: `ValueError: no such key`. Empty if there was none."""

    @property
    def success(self) -> bool:
        return not self.exception

    @property
    def output(self) -> str:
        """The content without the two lines about the kernel at its end, which are for the agent."""
        return _KERNEL_LINES.sub("", self.content)

    @property
    def message(self) -> str:
        return "Code executed in IPython cell."


class BrowserOutputObservation(Observation):
    """A web page after a browser step."""

    kind: ClassVar[str] = "browse"
    ours: ClassVar[frozenset[str]] = frozenset({"look"})
    pictures: ClassVar[tuple[str, ...]] = ("screenshot", "set_of_marks", "goal_image_urls")

    url: str
    trigger_by_action: str
    screenshot: str = ""
    screenshot_path: str | None = None
    set_of_marks: str = ""
    error: bool = False
    goal_image_urls: list[str] = []
    open_pages_urls: list[str] = []
    active_page_index: int = -1
    dom_object: dict[str, JsonValue] = {}
    axtree_object: dict[str, JsonValue] = {}
    extra_element_properties: dict[str, JsonValue] = {}
    last_browser_action: str = ""
    last_browser_action_error: str = ""
    focused_element_bid: str = ""
    filter_visible_only: bool = False
    look: dict[str, JsonValue] = {}
    """The words and marked elements of the page with their positions, for the user's screen."""

    @property
    def success(self) -> bool:
        return not self.error

    @property
    def message(self) -> str:
        return "Visited " + self.url


class FileReadObservation(Observation):
    """The content of a file."""

    kind: ClassVar[str] = "read"

    path: str
    impl_source: FileReadSource = FileReadSource.DEFAULT

    @property
    def message(self) -> str:
        return f"I read the file {self.path}."


class FileWriteObservation(Observation):
    """A file was written."""

    kind: ClassVar[str] = "write"

    path: str

    @property
    def message(self) -> str:
        return f"I wrote to the file {self.path}."


class FileEditObservation(Observation):
    """A file was edited. Old and new content are the whole file."""

    kind: ClassVar[str] = "edit"

    path: str = ""
    prev_exist: bool = False
    old_content: str | None = None
    new_content: str | None = None
    impl_source: FileEditSource = FileEditSource.LLM_BASED_EDIT
    diff: str | None = None

    @property
    def message(self) -> str:
        return f"I edited the file {self.path}."


class AgentDelegateObservation(Observation):
    """The result of a delegated task."""

    kind: ClassVar[str] = "delegate"

    outputs: dict[str, JsonValue] = {}


class SuccessObservation(Observation):
    """An action succeeded."""

    kind: ClassVar[str] = "success"

    @property
    def success(self) -> bool:
        return True

    @property
    def message(self) -> str:
        return self.content


class ErrorObservation(Observation):
    """An action failed. `content` says why and what to do next."""

    kind: ClassVar[str] = "error"
    ours: ClassVar[frozenset[str]] = frozenset({"thought"})

    error_id: str = ""
    thought: str = ""
    """What the model said with a tool call that made no action."""

    @property
    def success(self) -> bool:
        return False

    @property
    def message(self) -> str:
        return self.content


class AgentStateChangedObservation(Observation):
    """The controller's state changed."""

    kind: ClassVar[str] = "agent_state_changed"

    agent_state: AgentState
    reason: str = ""


class UserRejectObservation(Observation):
    """The user rejected an action."""

    kind: ClassVar[str] = "user_rejected"

    @property
    def message(self) -> str:
        return self.content


class AgentCondensationObservation(Observation):
    """A summary instead of forgotten events. Exists only in the model's view."""

    kind: ClassVar[str] = "condense"

    @property
    def message(self) -> str:
        return self.content


class AgentThinkObservation(Observation):
    """A thought was logged."""

    kind: ClassVar[str] = "think"

    @property
    def message(self) -> str:
        return self.content


class MicroagentKnowledge(BaseModel):
    """Knowledge of a microagent that a trigger word activated."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    name: str
    trigger: str
    content: str


class RecallObservation(Observation):
    """What memory found."""

    kind: ClassVar[str] = "recall"
    ours: ClassVar[frozenset[str]] = frozenset({"environment"})

    recall_type: RecallType
    repo_name: str = ""
    repo_directory: str = ""
    repo_branch: str = ""
    repo_instructions: str = ""
    runtime_hosts: dict[str, int] = {}
    additional_agent_instructions: str = ""
    date: str = ""
    custom_secrets_descriptions: dict[str, str] = {}
    conversation_instructions: str = ""
    working_dir: str = ""
    microagent_knowledge: list[MicroagentKnowledge] = []
    environment: dict[str, str] = {}
    """What the agent is told about its system, shell, sandbox, network, programs and git; later what has changed."""

    @property
    def message(self) -> str:
        if self.recall_type is RecallType.WORKSPACE_CONTEXT:
            return "Added workspace context"
        return "Added microagent knowledge"


class MCPObservation(Observation):
    """The result of an MCP tool."""

    kind: ClassVar[str] = "mcp"
    pictures: ClassVar[tuple[str, ...]] = ("image_urls",)
    ours: ClassVar[frozenset[str]] = frozenset({"image_urls", "is_error"})

    name: str = ""
    arguments: dict[str, JsonValue] = {}
    image_urls: list[str] | None = None
    is_error: bool = False
    """Whether the tool reported a failure."""

    @property
    def success(self) -> bool | None:
        return False if self.is_error else None

    @property
    def message(self) -> str:
        return self.content


class FileDownloadObservation(Observation):
    """The browser downloaded a file."""

    kind: ClassVar[str] = "download"

    file_path: str

    @property
    def message(self) -> str:
        return f"Downloaded file at location: {self.file_path}"


class TaskTrackingObservation(Observation):
    """The current task list."""

    kind: ClassVar[str] = "task_tracking"

    command: str = ""
    task_list: list[dict[str, JsonValue]] = []

    @property
    def message(self) -> str:
        return self.content


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"


class CheckpointObservation(Observation):
    """A checkpoint of the workspace was taken. Not part of V0."""

    kind: ClassVar[str] = "checkpoint"

    checkpoint: str
    """Its id in the checkpoint store."""
    after: int
    """The event before it: the message that begins a turn, or the state change that ends one."""
    files: int = 0
    """Number of files in it."""
    changed: int = 0
    """Number of files that changed since the checkpoint before."""
    skipped: list[str] = []
    """Some of the files that were left out, each with the reason."""

    @property
    def message(self) -> str:
        left = f", {len(self.skipped)} left out" if self.skipped else ""
        return f"Checkpoint: {_files(self.files)}, {self.changed} changed{left}"


class UndoObservation(Observation):
    """The result of an undo. `content` is for a model that still sees the undone events. Not part of V0."""

    kind: ClassVar[str] = "undo"

    done: bool = True
    """Whether it succeeded. Otherwise nothing changed, and `why` says why."""
    why: str = ""
    before: str = ""
    """The checkpoint of the files before it; empty if files were not included."""
    after: str = ""
    changed: int = 0
    """Number of files that were written or removed."""
    kept: list[str] = []
    """Some of the files that could not be removed."""

    @property
    def success(self) -> bool:
        return self.done

    @property
    def message(self) -> str:
        if not self.done:
            return f"Not undone. {self.why}"
        return f"Undone; {_files(self.changed)} changed" if self.before else "Undone"


class SecretMaskedObservation(Observation):
    """Something in the previous event looked like a secret and was not stored. Not part of V0."""

    kind: ClassVar[str] = "secret_masked"

    masked: dict[str, int] = {}
    """The number of different values of each kind, named as in `handloom secrets allow`."""

    @property
    def message(self) -> str:
        return self.content


class LoopDetectionObservation(Observation):
    """The agent seems stuck in a loop. `content` offers options for recovery."""

    kind: ClassVar[str] = "loop_detection"

    @property
    def message(self) -> str:
        return self.content
