"""Why a prompt ended, in the protocol's words. Pure."""

from __future__ import annotations

from acp.schema import StopReason

from core.controller.halts import HaltKind
from core.controller.state import State
from core.events import AgentState


def stop_reason(state: State) -> StopReason | None:
    """Why a prompt ended, by the state in which the agent rests; None for a failure, which is an error's answer.

    Never `refusal`: an editor takes that for a message that was not taken into the conversation, and here it was.
    """
    if state.halt is not None:
        match state.halt.kind:
            case HaltKind.LIMIT:
                return "max_tokens" if state.halt.what == "tokens" else "max_turn_requests"
            case HaltKind.STUCK:
                return "end_turn"
        return None
    if state.agent_state is AgentState.STOPPED:
        return "cancelled"
    return None if state.agent_state is AgentState.ERROR else "end_turn"
