"""What the chat says nothing of, and what it says of the agent's states."""

from __future__ import annotations

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
from tui.i18n import _

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
MASKED = _("What looks like {kind} was masked. If it is none: handloom secrets allow '{kind}'")
"""Said once of a kind, where the first such value came up."""
STATE_NOTES = {
    AgentState.STOPPED: _("Interrupted"),
    AgentState.PAUSED: _("Paused"),
    AgentState.ERROR: _("Stopped by an error"),
    AgentState.RATE_LIMITED: _("Waiting for the model's rate limit"),
    AgentState.FINISHED: _("Finished"),
    AgentState.REJECTED: _("Rejected by the agent"),
}
