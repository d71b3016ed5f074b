"""What the chat says nothing of, and what it says of the agent's states.

What was recalled, as a block of the chat: a line with the names, and what the agent was told when it is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.events import (
    AgentCondensationObservation,
    AgentState,
    AgentThinkObservation,
    ChangeAgentStateAction,
    CondensationRequestAction,
    NullAction,
    NullObservation,
    RecallAction,
    RecallObservation,
    SystemMessageAction,
    UndoAction,
)
from tui.chat.action_text import clean
from tui.chat.blocks import Block, Kind
from tui.chat.text_pieces import PieceKind
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.events import RecallObservation


HIDDEN = (
    SystemMessageAction,
    RecallAction,
    RecallObservation,
    UndoAction,
    NullAction,
    NullObservation,
    ChangeAgentStateAction,
    CondensationRequestAction,
    AgentThinkObservation,
    AgentCondensationObservation,
)
REDACTED = _("A value that looks like {kind} was redacted. If it is not a secret, run: handloom secrets allow '{kind}'")
"""Said once of a kind, where the first such value came up."""
STATE_NOTES = {
    AgentState.STOPPED: _("Interrupted"),
    AgentState.PAUSED: _("Paused"),
    AgentState.ERROR: _("Stopped after an error"),
    AgentState.RATE_LIMITED: _("Waiting for the model's rate limit"),
    AgentState.FINISHED: _("Finished"),
    AgentState.REJECTED: _("The agent declined the task"),
}


NAMES_CELLS = 120


def knowledge_block(event: RecallObservation) -> Block | None:
    """The block of what memory found; None where that is no more than the folder and the day."""
    names = [one.name for one in event.microagent_knowledge]
    parts = [f"[{one.name} · {one.trigger}]\n{one.content}" for one in event.microagent_knowledge]
    told = [event.repo_instructions, event.additional_agent_instructions, event.conversation_instructions]
    if any(told):
        names.insert(0, _("instructions"))
    text = "\n\n".join([*filter(None, told), *parts])
    if not text:
        return None
    title = _("loaded: {names}").format(names=sanitize_line(", ".join(names), NAMES_CELLS))
    return Block(Kind.TOOL, title, clean(text), body=PieceKind.TEXT, shown=0)
