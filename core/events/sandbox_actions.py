"""The actions that a runtime or an MCP server carries out: shell, cells, files, pages, tools.

One class each, with the name, fields and defaults of OpenHands V0 (`openhands/events/action/*.py`). To add one, add a
class with a `kind`, and `runnable`.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import JsonValue

from core.events.base import (
    CONFIRMATION,
    Action,
    ActionConfirmationStatus,
    ActionSecurityRisk,
    FileEditSource,
    FileReadSource,
)

SEARCH_TOOLS = frozenset({"grep", "glob"})
"""Tools whose commands only read."""


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
    """Whether the user takes over the terminal; the command is a comment that says so."""
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN

    @property
    def only_reads(self) -> bool:
        called = self.tool_call_metadata
        return called is not None and called.function_name in SEARCH_TOOLS and not self.is_input

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
    """Read a file. Lines count from 0; an `end` of -1 is the end of the file."""

    kind: ClassVar[str] = "read"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = CONFIRMATION

    path: str
    start: int = 0
    end: int = -1
    thought: str = ""
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    impl_source: FileReadSource = FileReadSource.DEFAULT
    view_range: list[int] | None = None

    @property
    def only_reads(self) -> bool:
        return True

    @property
    def message(self) -> str:
        return f"Reading file: {self.path}"


class FileWriteAction(Action):
    """Write a file, or its lines from `start` to `end`."""

    kind: ClassVar[str] = "write"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = CONFIRMATION

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
    ours: ClassVar[frozenset[str]] = CONFIRMATION

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
    def only_reads(self) -> bool:
        return self.command == "view"

    @property
    def message(self) -> str:
        return f"Editing file: {self.path}"


class BrowseURLAction(Action):
    """Open a web page."""

    kind: ClassVar[str] = "browse"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = CONFIRMATION

    url: str
    thought: str = ""
    return_axtree: bool = False
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED

    @property
    def message(self) -> str:
        return f"I am browsing the URL: {self.url}"


class BrowseInteractiveAction(Action):
    """Calls of browser functions, one on each line."""

    kind: ClassVar[str] = "browse_interactive"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = CONFIRMATION | {"by_user", "hidden_text"}

    browser_actions: str
    thought: str = ""
    browsergym_send_msg_to_user: str = ""
    return_axtree: bool = False
    by_user: bool = False
    """Whether the user, who has taken over the browser, does this. The result has no accessibility tree."""
    hidden_text: str = ""
    """The text that replaces HIDDEN in the calls, such as a password. Only for the sandbox, never stored."""
    security_risk: ActionSecurityRisk = ActionSecurityRisk.UNKNOWN
    confirmation_state: ActionConfirmationStatus = ActionConfirmationStatus.CONFIRMED

    HIDDEN: ClassVar[str] = "<hidden>"
    GIVEN_BACK: ClassVar[str] = "The user gave the browser back."
    """The thought of the step that gives the browser back to the agent."""

    @property
    def message(self) -> str:
        return f"I am interacting with the browser:\n```\n{self.browser_actions}\n```"


RECALL_TOOL = "recall_conversations"
"""Our tool that searches earlier conversations. It is an MCPAction, so that V0 can read it."""


class MCPAction(Action):
    """Call a tool of an MCP server."""

    kind: ClassVar[str] = "call_tool_mcp"
    runnable: ClassVar[bool] = True
    ours: ClassVar[frozenset[str]] = CONFIRMATION

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
