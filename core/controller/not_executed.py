"""The observations of actions that are not carried out. Every action gets exactly one observation."""

from __future__ import annotations

from core.controller.state import Owed
from core.events import Action, ErrorObservation, EventSource, Judged, Observation, UserRejectObservation

NOT_EXECUTED_STOPPED = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"
NOT_EXECUTED_ERROR = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_ERROR"
NOT_EXECUTED_BEHIND = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_BEHIND"
NOT_EXECUTED_PLANNING = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_PLANNING"
NOT_EXECUTED_DENIED = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_DENIED"

LOST = ErrorObservation(
    content="The action has not been executed due to a runtime error. The runtime system may have crashed and "
    "restarted due to resource constraints. Any previously established system state, dependencies, or environment "
    "variables may have been lost.",
    error_id=NOT_EXECUTED_ERROR,
)
"""The observation of an agent's action that was running when the last process ended."""
USER_ACTION_LOST = ErrorObservation(
    content="Handloom ended while this was running, so its result is not recorded. If the user had taken over the "
    "terminal or the browser, the agent has it again. The sandbox may have been restarted: check before relying on "
    "earlier state.",
    error_id=NOT_EXECUTED_ERROR,
)
"""The same for an action of the user: a command, or a takeover of the terminal or the browser."""
_ERRORS = {
    "stopped": (NOT_EXECUTED_STOPPED, "Stop button pressed. The action has not been executed."),
    "behind": (
        NOT_EXECUTED_BEHIND,
        "The action has not been executed: the user denied an action of the same answer, and stopped.",
    ),
    "planned": (
        NOT_EXECUTED_PLANNING,
        "The action has not been executed: nothing changes before the user has approved a plan. Look, plan, show the "
        "plan.",
    ),
}


def observation_for(owed: Owed) -> tuple[Observation, EventSource]:
    """The observation of an action that is not carried out, and its source."""
    match owed.why:
        case "rejected":
            reason = f"Reason: {owed.note}" if owed.note else "Waiting for further user input."
            rejected = UserRejectObservation(content=f"Action has been rejected by the user! {reason}")
            return rejected, EventSource.USER
        case "denied":
            return ErrorObservation(content=owed.note, error_id=NOT_EXECUTED_DENIED), EventSource.ENVIRONMENT
    error_id, text = _ERRORS[owed.why]
    return ErrorObservation(content=text, error_id=error_id), EventSource.AGENT


def denial_text(action: Action) -> str:
    """What the agent reads about an action that a rule forbids: the rule and its reasons."""
    judged = action.judgement or Judged(verdict="deny")
    text = f"This was not carried out, because a rule of the user's forbids it: {judged.rule}."
    return " ".join([text, "Do not try to circumvent the rule.", *judged.reasons])
