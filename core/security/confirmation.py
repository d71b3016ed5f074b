"""The modes: what waits for the user's yes where no rule and no permission says otherwise. Pure.

V0 never asked before writing a file, opening a page or calling an MCP tool; here every action that acts asks.

The judgement of an action: may it be carried out, must the user be asked, or may it not. Data alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.events import (
    RECALL_TOOL,
    Action,
    ActionSecurityRisk,
    AgentThinkAction,
    FileReadAction,
    MCPAction,
    TaskTrackingAction,
)


class ConfirmMode(StrEnum):
    """How much the agent may do by itself."""

    ALWAYS = "always"
    """Every action that acts waits."""
    RISKY = "risky"
    """Actions of high or unknown risk wait."""
    AUTO_EDIT = "auto-edit"
    """Files of the workspace may be read and edited; the rest waits."""
    PLAN = "plan"
    """Nothing is changed: the agent looks and plans."""
    NEVER = "never"
    """Nothing waits but what foreign content could have asked for."""


NOT_WANTED = "The user does not want this. Find another way, or ask."
"""What the agent reads of an action that was denied without a reason."""
_ONLY_THOUGHTS = (AgentThinkAction, TaskTrackingAction)
"""Actions that touch nothing outside the conversation."""


def only_thinks(action: Action) -> bool:
    """Whether an action touches nothing outside the conversation, so that nobody has to be asked about it."""
    return isinstance(action, _ONLY_THOUGHTS) or (isinstance(action, MCPAction) and action.name == RECALL_TOOL)


def needs_confirmation(action: Action, mode: ConfirmMode, risk: ActionSecurityRisk | None = None) -> bool:
    """Whether `action` has to wait for the user's yes, by the mode alone; `risk` is what reading it has told.

    AUTO_EDIT and PLAN ask like ALWAYS: what they let through or refuse, the guard knows.
    """
    if mode is ConfirmMode.NEVER or only_thinks(action):
        return False
    if mode is not ConfirmMode.RISKY:
        return True
    if risk is None:
        if isinstance(action, FileReadAction):
            return False
        risk = getattr(action, "security_risk", ActionSecurityRisk.UNKNOWN)
    return risk in (ActionSecurityRisk.UNKNOWN, ActionSecurityRisk.HIGH)


TAINT, ANALYZERS = "taint", "analyzers"
VOICES = (TAINT, ANALYZERS)
"""The rules of those who judge an action by what was read or done before it."""


class Verdict(StrEnum):
    """What becomes of an action."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, with the rule that gave it."""

    verdict: Verdict
    rule: str
    """Which rule decided, as the user finds it again: `policy.toml:3 deny bash(git push *)`."""
    reasons: tuple[str, ...] = ()
    """Why, one short sentence each; may quote what the agent wrote, so it is foreign text."""
    stays: bool = False
    """Whether a permission does not change it: it asks each time."""
    in_every_mode: bool = False
    """Whether it asks where the mode would not, too."""
    risk: ActionSecurityRisk = ActionSecurityRisk.LOW
    """How much harm it could do, as far as whoever judged can tell."""
