"""The judgement of an action: may it be carried out, must the user be asked, or may it not. Data alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.events import ActionSecurityRisk

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
