"""The rules' own voice, and the model's: what it says of its action can make the risk higher and never lower."""

from __future__ import annotations

from collections.abc import Sequence

from core.events import Action, ActionSecurityRisk
from core.security.analyzers import Assessment
from core.security.analyzers.action_history import Past
from core.security.facts import Facts


class Local:
    """The rules (`core.security.risk_rules`)."""

    name = "local"

    async def assess(self, action: Action, facts: Facts, history: Sequence[Past]) -> Assessment:
        """What reading the action told."""
        return Assessment(facts.risk, facts.reasons)


class ModelRating:
    """`security_risk` as the model gave it; none is no voice."""

    name = "model"

    async def assess(self, action: Action, facts: Facts, history: Sequence[Past]) -> Assessment | None:
        """The model's rating of its own action."""
        risk = getattr(action, "security_risk", ActionSecurityRisk.UNKNOWN)
        if risk is ActionSecurityRisk.UNKNOWN:
            return None
        loud = risk is not ActionSecurityRisk.LOW
        return Assessment(risk, (f"The model rated this action {risk.name}.",) if loud else ())
