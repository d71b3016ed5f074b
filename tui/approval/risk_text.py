"""Texts for the rule that asks about an action and for its risk, the same in questions, the chat and replays. Pure."""

from __future__ import annotations

from core.events import Action, ActionConfirmationStatus, ActionSecurityRisk
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

RISKS = {"high": _("high"), "unknown": _("not known"), "medium": _("medium"), "low": _("low")}
"""The strictest first."""
MODE_RULES = {
    "always": _("mode “ask before everything”"),
    "risky": _("mode “ask before risky actions”"),
    "auto-edit": _("mode “auto-approve edits”"),
    "plan": _("mode “plan only”"),
    "never": _("mode “full auto”"),
}
OTHER_RULES = {
    "taint": _("untrusted content read earlier"),
    "analyzers": _("risk analyzers"),
    "a broken file": _("an unreadable rules file"),
    "a check that failed": _("a failed check"),
    "behind": _("you denied an earlier action"),
}
"""Other names of rules in judgements, and their texts."""
BROKEN = "a broken file"
NOT_UNDERSTOOD = frozenset({BROKEN, "a check that failed"})
"""Rules of judgements that could not be made."""
REASON_CELLS = 300


def asker(action: Action) -> str:
    """The rule, mode or check that asks about a waiting action; empty if it was not stored."""
    if action.judgement is not None:
        return action.judgement.rule
    held = action.confirmation is not ActionConfirmationStatus.CONFIRMED
    return "" if held else "behind"


def rule_words(rule: str) -> str:
    """The text of a rule: modes and the names above have texts, other rules are as the user wrote them."""
    if rule in OTHER_RULES:
        return OTHER_RULES[rule]
    kind, _space, name = rule.partition(" ")
    if kind == "mode" and name in MODE_RULES:
        return MODE_RULES[name]
    return sanitize_line(rule, REASON_CELLS)


def risk_words(action: Action, read: ActionSecurityRisk | None = None) -> str:
    """The risk of an action in words; empty if it was not rated."""
    return RISKS.get(risk_of(action, read), "")


def risk_of(action: Action, read: ActionSecurityRisk | None = None) -> str:
    """The strictest of the stored judgement, the static analysis, and the rating of the model. Empty if not rated.

    An imported log may contain any rating, so it can only raise the risk.
    """
    rated = getattr(action, "security_risk", ActionSecurityRisk.UNKNOWN)
    risks: set[str] = {action.judgement.risk} if action.judgement is not None else set()
    risks |= {rated.name.lower()} if rated is not ActionSecurityRisk.UNKNOWN else set()
    risks |= {read.name.lower()} if read is not None else set()
    return next((risk for risk in RISKS if risk in risks), "")


def asked_line(action: Action) -> str:
    """The rule that asks about an action, and its risk, in one sanitized line; empty if it was not stored."""
    judged = action.judgement
    if judged is None or judged.verdict != "ask" or not judged.rule:
        return ""
    text = _("approval required: {rule}").format(rule=rule_words(judged.rule))
    risk = risk_words(action)
    return f"{text} " + _("(risk: {risk})").format(risk=risk) if risk else text
