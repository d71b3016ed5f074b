"""The observations of actions that are not carried out. Every action gets exactly one observation."""

from __future__ import annotations

from core.controller.state import Owed
from core.events import Action, ErrorObservation, EventSource, Observation, UserRejectObservation

NOT_EXECUTED_STOPPED = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"
NOT_EXECUTED_ERROR = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_ERROR"
NOT_EXECUTED_BEHIND = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_BEHIND"
NOT_EXECUTED_PLANNING = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_PLANNING"
NOT_EXECUTED_DENIED = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_DENIED"
REJECTED_TEXT = "Action has been rejected by the user!"
STOPPED_TEXT = "Stop button pressed. The action has not been executed."
BEHIND_TEXT = "The action has not been executed: the user denied an action of the same answer, and stopped."
PLANNING_TEXT = (
    "The action has not been executed: nothing changes before the user has approved a plan. Look, plan, show the plan."
)
DENIED_TEXT = (
    "This was not carried out, because a rule of the user's forbids it: {rule}. Do not try to circumvent the rule."
)
RESTART_TEXT = (
    "The action has not been executed due to a runtime error. The runtime system may have crashed and restarted due to "
    "resource constraints. Any previously established system state, dependencies, or environment variables may have "
    "been lost."
)
USER_ACTION_LOST_TEXT = (
    "Handloom ended while this was running, so its result is not recorded. If the user had taken over the terminal or "
    "the browser, the agent has it again. The sandbox may have been restarted: check before relying on earlier state."
)

LOST = ErrorObservation(content=RESTART_TEXT, error_id=NOT_EXECUTED_ERROR)
"""The observation of an agent's action that was running when the last process ended."""
USER_ACTION_LOST = ErrorObservation(content=USER_ACTION_LOST_TEXT, error_id=NOT_EXECUTED_ERROR)
"""The same for an action of the user: a command, or a takeover of the terminal or the browser."""


def observation_for(owed: Owed) -> tuple[Observation, EventSource]:
    """The observation of an action that is not carried out, and its source."""
    match owed.why:
        case "rejected":
            reason = f" Reason: {owed.note}" if owed.note else " Waiting for further user input."
            return UserRejectObservation(content=REJECTED_TEXT + reason), EventSource.USER
        case "denied":
            return denied_observation(owed.note), EventSource.ENVIRONMENT
        case "planned":
            return ErrorObservation(content=PLANNING_TEXT, error_id=NOT_EXECUTED_PLANNING), EventSource.AGENT
        case "behind":
            return ErrorObservation(content=BEHIND_TEXT, error_id=NOT_EXECUTED_BEHIND), EventSource.AGENT
        case "stopped":
            return ErrorObservation(content=STOPPED_TEXT, error_id=NOT_EXECUTED_STOPPED), EventSource.AGENT


def denied_observation(text: str) -> ErrorObservation:
    """The observation of an action that a rule forbids."""
    return ErrorObservation(content=text, error_id=NOT_EXECUTED_DENIED)


def denial_text(action: Action) -> str:
    """The text of that observation: the rule and its reasons."""
    judged = action.judgement
    text = DENIED_TEXT.format(rule=judged.rule if judged is not None else "")
    return " ".join([text, *(judged.reasons if judged is not None else ())])
