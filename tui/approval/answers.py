"""The answers to an action that waits, to a halt, to a plan and about a host that the sandbox refused.

Pure. Only Enter on an empty prompt chooses a row (`tui.approval.view`). Invariants: every row works, a row that stores
something shows what it stores, and if an action is risky or not understood, the highlight does not start on a row that
allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.dialogs.answer_list import Effect, QuestionList, Row
from tui.i18n import _

if TYPE_CHECKING:
    from core.security.suggested_rules import Reach
    from tui.approval.question import Question

CUT_CHARACTERS = 40
"""Characters of a pattern in a row that stores nothing yet."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The texts of a question beside its list, all sanitized."""

    title: str
    body: str
    rule: str = ""
    """The rule that asks."""
    reasons: str = ""
    """Why the action is not harmless."""
    length: str = ""
    """How long the action is, if it is long."""
    note: str = ""
    """Why answers are missing, or a warning about a broad pattern."""
    is_warning: bool = False
    """Whether the note is a warning."""
    question: Question | None = None
    """The action that waits; None for anything else."""
    host: str = ""
    """The host that the sandbox refused, if the question is about one."""

    @property
    def why(self) -> str:
        """The rule, the reasons and the length."""
        return "\n".join(filter(None, (" · ".join(filter(None, (self.rule, self.reasons))), self.length)))

    @property
    def short_why(self) -> str:
        """The same without the reasons."""
        return "\n".join(filter(None, (self.rule, self.length)))

    @property
    def action_id(self) -> int | None:
        """The action that waits; None for a halt or a plan."""
        return self.question.action_id if self.question is not None else None


# -- an action that waits ------------------------------------------------------------------------------------------


def action_list(question: Question, reach: Reach | None, pattern: str = "") -> QuestionList:
    """The answers about an action. `reach` is what the pattern would cover, if known."""
    rows = [Row(Effect.ALLOW, _("Allow once"))]
    pattern = pattern or question.pattern
    if can_permit(question, reach):
        rows.append(Row(Effect.OPEN, _("Always allow {pattern}…").format(pattern=_cut(pattern))))
    deny = len(rows)
    rows.append(Row(Effect.DENY, _("Deny")))
    stop = _("Deny and stop the agent")
    if question.behind:
        stop = _("Deny this and the queued actions ({n}), and stop the agent").format(n=question.behind)
    rows.append(Row(Effect.STOP, stop))
    if can_forbid(question, reach):
        rows.append(Row(Effect.OPEN, _("Always deny {pattern}…").format(pattern=_cut(pattern)), denies=True))
    typed = _("Or type a message: Enter denies this and sends it to the agent")
    return QuestionList(tuple(rows), deny if question.starts_at_deny else 0, typed)


def _cut(pattern: str) -> str:
    """Shorten a pattern; the next list shows all of it."""
    return pattern[:CUT_CHARACTERS]


def can_permit(question: Question, reach: Reach | None) -> bool:
    """Whether a permission would allow this action from now on."""
    return not question.stays and reach is not None and reach.is_usable


def can_forbid(question: Question, reach: Reach | None) -> bool:
    """Whether a denial can be stored."""
    return not question.is_broken and reach is not None and bool(reach.patterns) and not reach.problem


def scope_list(above: QuestionList, pattern: str, *, denies: bool) -> QuestionList:
    """The scopes of a permission or denial, the narrowest first."""
    if denies:
        does, titles = Effect.FORBID, _DENY_TITLES
    else:
        does, titles = Effect.PERMIT, _ALLOW_TITLES
    rows = [Row(does, title, scope, pattern, denies) for scope, title in titles.items()]
    rows.append(Row(Effect.PATTERN, _("Edit the pattern…"), denies=denies))
    return QuestionList(tuple(rows), 0, above.typed, above)


_ALLOW_TITLES = {
    "conversation": _("Always allow in this conversation"),
    "project": _("Always allow in this project"),
    "everywhere": _("Always allow everywhere"),
}
_DENY_TITLES = {
    "conversation": _("Always deny in this conversation"),
    "project": _("Always deny in this project"),
    "everywhere": _("Always deny everywhere"),
}


# -- a halt, a plan, a host -------------------------------------------------------------------------------------------

HALTED = {
    "limit": _("A limit was reached"),
    "model": _("The model did not answer"),
    "sandbox": _("The sandbox has stopped"),
    "stuck": _("The agent seems stuck in a loop"),
}
WAYS = {
    "retry": _("Try again"),
    "extend": _("Extend the limit by the same amount"),
    "condense": _("Compact the conversation, then try again"),
    "switch_model": _("Choose another model…"),
    "restart_sandbox": _("Restart the sandbox"),
    "skip": _("Continue and show the agent the error"),
    "tell": _("Tell the agent that it is repeating itself"),
    "cut_loop": _("Remove the loop from the context and wait for me"),
    "resend": _("Send my last request again"),
    "stop": _("Stop here and keep the work as it is"),
}


def halt_list(kind: str, ways: Sequence[str]) -> QuestionList:
    """The choices after a halt."""
    typed = _("Or type a message: Enter sends it to the agent")
    if kind == "limit":
        typed = _("Or type a message: Enter sends it, and the agent reads it once the limit is extended")
    return QuestionList(tuple(Row(Effect.WAY, WAYS[way], way) for way in ways), 0, typed)


def host_list() -> QuestionList:
    """The answers about a host that the sandbox refused. Nothing is opened by Enter alone."""
    rows = (
        Row(Effect.OPEN_HOST, _("Allow once, until the agent is done"), "once"),
        Row(Effect.OPEN_HOST, _("Allow in this conversation"), "conversation"),
        Row(Effect.OPEN_HOST, _("Allow in this project"), "project"),
        Row(Effect.KEEP_CLOSED, _("Do not allow")),
    )
    return QuestionList(rows, len(rows) - 1, _("Or type a message: Enter sends it to the agent"))


def plan_list() -> QuestionList:
    """The answers to a plan."""
    rows = (Row(Effect.APPROVE_PLAN, _("Approve the plan")), Row(Effect.EDIT_PLAN, _("Edit the plan first…")))
    return QuestionList(rows, 0, _("Or type what to change: Enter sends it to the agent"))
