"""Approval modes, and the judgement of an action: allowed, asked about, or denied. Pure.

The mode decides if no rule and no permission does. Unlike V0, writing a file, opening a page and calling an MCP tool
need approval too.
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
    """How much the agent may do without approval."""

    ALWAYS = "always"
    """Every action that acts needs approval."""
    RISKY = "risky"
    """Actions of high or unknown risk need approval."""
    AUTO_EDIT = "auto-edit"
    """Files of the workspace may be read and edited; the rest needs approval."""
    PLAN = "plan"
    """The agent may read and plan, but not change anything."""
    NEVER = "never"
    """Only actions that untrusted content could have caused need approval."""


NOT_WANTED = "The user does not want this. Find another way, or ask."
"""What the agent reads if an action is denied without a reason."""
_ONLY_THOUGHTS = (AgentThinkAction, TaskTrackingAction)
"""Actions without an effect outside the conversation."""


def only_thinks(action: Action) -> bool:
    """Whether an action has no effect outside the conversation, so it never needs approval."""
    return isinstance(action, _ONLY_THOUGHTS) or (isinstance(action, MCPAction) and action.name == RECALL_TOOL)


def needs_confirmation(action: Action, mode: ConfirmMode, risk: ActionSecurityRisk | None = None) -> bool:
    """Whether the mode asks about an action. `risk` is that of `facts_of`.

    AUTO_EDIT and PLAN ask like ALWAYS; the guard handles what they allow or deny.
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
FAILED_CHECK = "a check that failed"
CHECKS = (TAINT, ANALYZERS)
"""Judgement rules that depend on earlier events."""


class Verdict(StrEnum):
    """What happens to an action."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, with the rule that decided."""

    verdict: Verdict
    rule: str
    """The rule that decided, such as `policy.toml:3 deny bash(git push *)`."""
    reasons: tuple[str, ...] = ()
    """Short sentences for the user. Untrusted text, because they may quote the agent."""
    stays: bool = False
    """Whether it asks every time, even with a permission."""
    in_every_mode: bool = False
    """Whether it also asks in modes that ask for nothing."""
    risk: ActionSecurityRisk = ActionSecurityRisk.LOW
    """The highest risk that any of the checks reported."""
