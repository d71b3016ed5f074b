"""Which handler carries out an action: one table for each conversation, read from the top.

    AgentDelegateAction               another conversation, with its own rules, hooks and sandbox
    MCPAction recall_conversations    Handloom itself, from the stored conversations
    MCPAction of any other tool       an MCP server
    FileEditAction with a draft       a model writes the lines, the sandbox puts them into the file
    every other action                the sandbox, also those of plugins

A row exists only if its handler does: without MCP servers a call of their tools goes to the sandbox, which refuses it.
RecallAction is not in the table: memory subscribes to it, as in OpenHands V0. What happens before and after the handler
is `core.actions.middleware`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from core.edits.model_edit import is_model_edit
from core.events import (
    RECALL_TOOL,
    Action,
    AgentDelegateAction,
    FileEditAction,
    MCPAction,
    Observation,
)
from core.mcp.tool_registry import Toolbox
from core.memory.past_conversations import PastConversations
from core.protocols import Executor, FrameSink

Delegate = Callable[[AgentDelegateAction, int], Awaitable[Observation]]
"""Has another agent carry out the action with this id. Cancelling interrupts that agent, and still returns."""
Handler = Callable[[Action, int, FrameSink], Awaitable[Observation]]
"""Carries out an action: `Executor.execute`."""


class Place(StrEnum):
    """Where an action is carried out, which decides what middleware applies to it."""

    CONVERSATION = "conversation"
    """In the conversation of a delegate."""
    HANDLOOM = "handloom"
    """In this process. Changes no files and needs no sandbox."""
    SERVER = "server"
    """In an MCP server, which needs no sandbox but may change files of the workspace."""
    SANDBOX = "sandbox"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the actions that match it, where they are carried out, and the handler."""

    action: type[Action]
    place: Place
    handler: Handler
    condition: Callable[[Action], bool] = lambda action: True
    """Which of these actions match."""

    def matches(self, action: Action) -> bool:
        """Whether this row is for the action."""
        return isinstance(action, self.action) and self.condition(action)


class ActionTable:
    """The rows of one conversation."""

    def __init__(
        self,
        sandbox: Executor,
        delegate: Delegate,
        toolbox: Toolbox | None = None,
        past: PastConversations | None = None,
        edits: Executor | None = None,
    ) -> None:
        async def start_delegate(action: Action, action_id: int, on_frame: FrameSink) -> Observation:
            assert isinstance(action, AgentDelegateAction)
            return await delegate(action, action_id)

        async def call_server(action: Action, action_id: int, on_frame: FrameSink) -> Observation:
            assert isinstance(action, MCPAction)
            assert toolbox is not None
            return await toolbox.call(action)

        async def recall(action: Action, action_id: int, on_frame: FrameSink) -> Observation:
            assert isinstance(action, MCPAction)
            assert past is not None
            return await past.answer(action)

        self.rows = [
            Row(AgentDelegateAction, Place.CONVERSATION, start_delegate),
            *([] if past is None else [Row(MCPAction, Place.HANDLOOM, recall, _asks_to_recall)]),
            *([] if toolbox is None else [Row(MCPAction, Place.SERVER, call_server)]),
            *([] if edits is None else [Row(FileEditAction, Place.SANDBOX, edits.execute, is_model_edit)]),
            Row(Action, Place.SANDBOX, sandbox.execute),
        ]

    def row_of(self, action: Action) -> Row:
        """The first row that matches."""
        return next(row for row in self.rows if row.matches(action))


def _asks_to_recall(action: Action) -> bool:
    return isinstance(action, MCPAction) and action.name == RECALL_TOOL
