"""Which actions wait for the user's yes. Pure: an action and a mode give the answer.

V0 never asked before writing a file, opening a page or calling an MCP tool; here every action that acts asks.
"""

from __future__ import annotations

from enum import StrEnum

from core.events import Action, ActionSecurityRisk, AgentThinkAction, FileReadAction, TaskTrackingAction


class ConfirmMode(StrEnum):
    """How much the agent may do by itself."""

    ALWAYS = "always"
    """Every action that acts waits."""
    RISKY = "risky"
    """Actions of high or unknown risk wait."""
    NEVER = "never"
    """Nothing waits."""


_ONLY_THOUGHTS = (AgentThinkAction, TaskTrackingAction)
"""Actions that touch nothing outside the conversation."""


def needs_confirmation(action: Action, mode: ConfirmMode) -> bool:
    """Whether `action` has to wait for the user's yes."""
    if mode is ConfirmMode.NEVER or isinstance(action, _ONLY_THOUGHTS):
        return False
    if mode is ConfirmMode.ALWAYS:
        return True
    if isinstance(action, FileReadAction):
        return False
    risk = getattr(action, "security_risk", ActionSecurityRisk.UNKNOWN)
    return risk in (ActionSecurityRisk.UNKNOWN, ActionSecurityRisk.HIGH)
