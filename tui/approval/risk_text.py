"""Who asks about an action and how risky it is, in words: the same on its card, in the chat, live and in a replay.

Pure, from the event alone; the caller passes what reading the action says about its risk.
"""

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
VOICES = {
    "taint": _("untrusted content read earlier"),
    "analyzers": _("risk analyzers"),
    "a broken file": _("an unreadable rules file"),
    "a check that failed": _("a failed check"),
    "behind": _("you denied an earlier action"),
}
"""Other reasons for a question than rules and modes: the name in a judgement, and its words."""
BROKEN = "a broken file"
NOT_UNDERSTOOD = frozenset({BROKEN, "a check that failed"})
"""Who asks where a rule or a check could not be carried out."""
REASON_CELLS = 300


def asker(action: Action) -> str:
    """The rule, mode or voice that asks about an action that waits; empty where that was not kept."""
    if action.judgement is not None:
        return action.judgement.rule
    held = getattr(action, "confirmation_state", None) is not ActionConfirmationStatus.CONFIRMED
    return "" if held else "behind"


def rule_words(rule: str) -> str:
    """A rule in words: modes and the reasons above have words, the rest is as the user wrote it."""
    if rule in VOICES:
        return VOICES[rule]
    kind, _space, name = rule.partition(" ")
    if kind == "mode" and name in MODE_RULES:
        return MODE_RULES[name]
    return sanitize_line(rule, REASON_CELLS)


def risk_words(action: Action, read: ActionSecurityRisk | None = None) -> str:
    """The risk of an action in words; empty if it was not rated."""
    return RISKS.get(risk_of(action, read), "")


def risk_of(action: Action, read: ActionSecurityRisk | None = None) -> str:
    """The strictest of what was judged when it was held, what reading it tells, and the model's own rating.

    A log from elsewhere may say anything, so what it says only raises the risk. Empty if it was not rated.
    """
    rated = getattr(action, "security_risk", ActionSecurityRisk.UNKNOWN)
    risks: set[str] = {action.judgement.risk} if action.judgement is not None else set()
    risks |= {rated.name.lower()} if rated is not ActionSecurityRisk.UNKNOWN else set()
    risks |= {read.name.lower()} if read is not None else set()
    return next((risk for risk in RISKS if risk in risks), "")


def asked_line(action: Action) -> str:
    """Who asks about an action that is held, and its risk, in one clean line; empty where that was not kept."""
    judged = action.judgement
    if judged is None or judged.verdict != "ask" or not judged.rule:
        return ""
    text = _("approval required: {rule}").format(rule=rule_words(judged.rule))
    risk = risk_words(action)
    return f"{text} " + _("(risk: {risk})").format(risk=risk) if risk else text
