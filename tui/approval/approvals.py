"""Questions to the user: approval of an action, how to continue after a halt, approval of a plan.

An answer always applies to the action that the question was about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tui.approval.answers import HALTED, Asked, action_list, can_permit, halt_list, host_list, plan_list, scope_list
from tui.approval.view import QuestionView
from tui.commands import keyed
from tui.dialogs.answer_list import Effect, QuestionList, Row
from tui.dialogs.dialog import LineScreen
from tui.i18n import _
from tui.models.commands import choose_model
from tui.plan.commands import edit_plan
from tui.plan.model import plan_text
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.footer import ABOUT

if TYPE_CHECKING:
    from core.controller.state import State
    from core.security.confirmation import Judgement
    from core.security.suggested_rules import Reach
    from core.session.agent_session import AgentSession
    from tui.approval.question import Question
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab

PART_CELLS, HOST_CELLS = 80, 260
SHOWN_PARTS = 3


async def _take(session: AgentSession, way: str, model: str = "") -> None:
    from core.controller.exit_reasons import HaltOption  # with the first conversation, not with the first frame

    await session.recover(HaltOption(way), model)


async def _permit(session: AgentSession, action_id: int, pattern: str, scope: str, *, denies: bool) -> None:
    from core.security.confirmation import NOT_WANTED, Verdict
    from core.security.permissions import Scope

    await session.approval.permit(pattern, Scope(scope), Verdict.DENY if denies else Verdict.ALLOW)
    if denies:
        await session.approval.reject_denied(NOT_WANTED, action_id)
    else:
        await session.approval.confirm_allowed(action_id)


async def _answer_host(session: AgentSession, host: str, scope: str) -> None:
    """Open a host in a scope, or keep it closed without one."""
    from core.security.permissions import Scope

    await (session.network.allow(host, Scope(scope)) if scope else session.network.dismiss(host))


async def _deny(session: AgentSession, action_id: int) -> None:
    from core.security.confirmation import NOT_WANTED

    await session.approval.reject(NOT_WANTED, action_id)


class Approvals:
    """Shows questions and carries out answers."""

    def __init__(self, app: Context, on_question: Callable[[], object]) -> None:
        """`on_question` is called before a question is shown."""
        self._app, self._on_question = app, on_question
        self._shown: tuple[str, object] | None = None
        """The subject of the question that is shown."""

    # -- shown -----------------------------------------------------------------------------------------------------

    def ask(self, tab: ConversationTab) -> None:
        """Show the question that the state of the conversation needs, if any."""
        state = tab.session.state
        wanted: tuple[str, object] | None = None
        if state.halt is not None:
            wanted = ("halt", state.halt)
        elif state.awaiting is not None:
            wanted = ("action", state.awaiting)
        elif tab.has_open_plan:
            wanted = ("plan", tab.plan.version)
        elif tab.session.network.offers:
            wanted = ("host", tab.session.network.offers[0].host)
        if wanted == self._shown:
            return
        self._shown = wanted
        if wanted is not None:
            self._on_question()
        match wanted:
            case None:
                self._app.workspace.ask(None)
            case ("halt", _halt):
                self._show_halt(state)
            case ("plan", _version):
                self._show_plan(tab)
            case ("host", str(host)):
                title = _("Allow network access to {host}?").format(host=sanitize_line(host, HOST_CELLS))
                self._show(Asked(title, _("The sandbox refused it."), host=host), host_list())
            case (_kind, int(action_id)):
                self._app.attempt(self._ask_about(tab, action_id))

    def clear(self) -> None:
        """Hide the question, because another tab is shown."""
        self._shown = None
        self._app.workspace.ask(None)

    async def _ask_about(self, tab: ConversationTab, action_id: int) -> None:
        """Show the question about an action, unless another one is current by then."""
        found = await self._asked_about(tab, action_id)
        if found is not None and self._app.tabs.current is tab and self._shown == ("action", action_id):
            self._show(*found)

    def _show(self, asked: Asked, answers: QuestionList) -> None:
        """Show a question and replace the current one."""
        view = QuestionView(
            asked,
            answers,
            clock=self._app.clock,
            guard_s=self._app.options.screen.question_guard_ms / 1000,
            styles=lambda: self._app.workspace.chat.styles_used,
        )
        self._app.workspace.ask(view)

    def _show_halt(self, state: State) -> None:
        """Show what stopped the agent, and the choices."""
        assert state.halt is not None
        kind = str(state.halt.kind)
        text = f"{state.reason}\n{_spent(state)}" if kind == "limit" else state.reason
        asked = Asked(HALTED.get(kind, _("The agent has stopped")), sanitize(text))
        self._show(asked, halt_list(kind, [str(way) for way in state.halt.options]))

    def _show_plan(self, tab: ConversationTab) -> None:
        """Show the plan that waits for its approval."""
        asked = Asked(_("Approve this plan?"), plan_text(tab.plan.tasks))
        self._show(asked, plan_list())

    async def _asked_about(
        self, tab: ConversationTab, action_id: int, judgement: Judgement | None = None
    ) -> tuple[Asked, QuestionList] | None:
        """The question about an action, with its stored judgement or a new one; None if it is gone."""
        from tui.approval.question import ask_about, judged_again, placed

        if (envelope := await tab.event(action_id)) is None:
            return None
        if judgement is not None:
            envelope = judged_again(envelope, judgement)
        folders = tab.session.guard.folders

        def look() -> tuple[Question, Reach | None]:
            question = ask_about(envelope, folders)
            return question, question.look(question.pattern) if question.look and question.pattern else None

        question, reach = await asyncio.to_thread(look)
        question = placed(question, tab.session.state.queue)
        return _asked(question, reach, str(judgement.verdict) if judgement is not None else ""), _answers(
            question, reach, judgement
        )

    async def judge_again(self, tab: ConversationTab) -> None:
        """Judge the waiting action in the current mode and show the result. It still needs an answer."""
        view = self._app.workspace.question
        if view is None or view.is_answered or (action_id := view.asked.action_id) is None:
            return
        envelope = await tab.event(action_id)
        if envelope is None:
            return
        judgement = await tab.session.guard.judge(envelope.event)  # type: ignore[arg-type]
        found = await self._asked_about(tab, action_id, judgement)
        if found is not None and self._app.workspace.question is view and not view.is_answered:
            asked, answers = found
            view.change(answers, asked)

    # -- answered --------------------------------------------------------------------------------------------------

    def take(self, message: QuestionView.Taken) -> None:
        """Carry out the chosen row, unless its question is no longer shown."""
        view, row, tab = message.view, message.row, self._app.tabs.conversation
        if tab is None or view is not self._app.workspace.question or view.is_answered:
            return
        session, action_id = tab.session, view.asked.action_id
        match row.effect:
            case Effect.OPEN:
                view.change(scope_list(view.answers, view.pattern, denies=row.denies))
            case Effect.PATTERN:
                self._app.attempt(self._change_pattern(view, denies=row.denies))
            case Effect.EDIT_PLAN:
                self._app.attempt(edit_plan(self._app, tab))
            case Effect.APPROVE_PLAN:
                self._answer(view, session.planning.approve(tab.plan.raw_tasks))
            case Effect.OPEN_HOST | Effect.KEEP_CLOSED:
                self._answer(view, _answer_host(session, view.asked.host, row.value))
            case Effect.WAY if row.value == "switch_model":
                choose_model(self._app, lambda name: self._answer(view, _take(session, "switch_model", name)))
            case Effect.WAY:
                self._answer(view, _take(session, row.value))
            case _ if action_id is not None:
                self._answer(view, _carry_out(session, action_id, row))

    def _answer(self, view: QuestionView, answer: Coroutine[Any, Any, None]) -> None:
        self._app.attempt(self._give(view, answer))

    async def _give(self, view: QuestionView, answer: Coroutine[Any, Any, None]) -> None:
        """Give an answer. If that fails, the question can be answered again."""
        view.is_answered = True
        try:
            await answer
        except BaseException:
            view.is_answered = False
            raise

    async def _change_pattern(self, view: QuestionView, *, denies: bool) -> None:
        """Let the user edit the pattern. Nothing is stored."""
        question = view.asked.question
        if question is None or (look := question.look) is None:
            return
        example = _("For example: bash(git push *)")
        text = await self._app.push_screen_wait(LineScreen(_("Pattern"), example, view.pattern))
        pattern = (text or "").strip()
        if not pattern or pattern == view.pattern or self._app.workspace.question is not view:
            return
        reach = await asyncio.to_thread(look, pattern)
        if problem := _unusable(reach, denies=denies):
            view.say(_("Not changed. {problem}").format(problem=problem))
            return
        view.pattern = pattern
        answers = action_list(question, reach, pattern)
        view.change(scope_list(answers, pattern, denies=denies), _asked(question, reach))
        if broad := _broad(reach):
            view.say(broad)

    async def deny_with(self, tab: ConversationTab, view: QuestionView, text: str) -> bool:
        """Deny the action of a question, with a message for the agent. Returns whether there is such an action."""
        if (action_id := view.asked.action_id) is None or view.is_answered:
            return False
        await self._give(view, tab.session.approval.reject(text, action_id))
        return True

    def leave(self) -> None:
        """Esc: keep a host closed, which nothing waits for; explain that it answers no other question."""
        view, tab = self._app.workspace.question, self._app.tabs.conversation
        if view is None:
            return
        if view.asked.host and tab is not None:
            if not view.is_answered:
                self._answer(view, _answer_host(tab.session, view.asked.host, ""))
        elif view.asked.action_id is not None:
            view.say(_("This action is still waiting. Choose “Deny” or “Deny and stop the agent” to cancel it."))
        else:
            view.say(_("This is still waiting for your answer. Choose one, or type a message."))


async def _carry_out(session: AgentSession, action_id: int, row: Row) -> None:
    match row.effect:
        case Effect.ALLOW:
            await session.approval.confirm(action_id)
        case Effect.PERMIT | Effect.FORBID:
            await _permit(session, action_id, row.stores, row.value, denies=row.effect is Effect.FORBID)
        case Effect.DENY:
            await _deny(session, action_id)
        case Effect.STOP:
            await session.approval.reject("", action_id)


# -- in words --------------------------------------------------------------------------------------------------------


def _asked(question: Question, reach: Reach | None, verdict: str = "") -> Asked:
    title = question.title
    if question.risk:  # first, because a narrow screen cuts the end
        title += "   " + _("(risk: {risk})").format(risk=question.risk)
    if question.of > 1:
        title += "   " + _("{n} of {count}").format(n=question.number, count=question.of)
    rule = _JUDGED_NOW[verdict].format(rule=question.rule) if verdict in _JUDGED_NOW else ""
    if not rule and question.rule:
        rule = _("Reason: {rule}").format(rule=question.rule)
    if question.stays:
        note = _("This rule always asks, so you can only allow the action once.")
    elif not can_permit(question, reach):
        note = _("This action is too complex to always allow. You can allow it once.")
    else:
        note = _broad(reach)
    return Asked(
        title,
        question.body,
        rule,
        " · ".join(question.reasons),
        _length(question.body),
        note,
        is_warning=bool(_broad(reach)),
        question=question,
    )


_JUDGED_NOW = {
    "allow": _("Now allowed by {rule}; this action is still waiting for your answer"),
    "deny": _("Now denied by {rule}; this action is still waiting for your answer"),
}


def _answers(question: Question, reach: Reach | None, judgement: Judgement | None) -> QuestionList:
    answers = action_list(question, reach)
    if judgement is not None and str(judgement.verdict) == "deny":
        answers = answers.highlighting(next(at for at, row in enumerate(answers.rows) if row.effect is Effect.DENY))
    return answers


def _length(body: str) -> str:
    from tui.approval.view import LONG_CHARACTERS, LONG_LINES

    lines = body.count("\n") + 1
    if lines <= LONG_LINES and len(body) <= LONG_CHARACTERS:
        return ""
    text = _(
        "{lines} lines, {characters} characters: {prompt.page_up} and {prompt.page_down} scroll, {prompt.end} goes to "
        "the end."
    )
    return keyed(text, lines=f"{lines:,}", characters=f"{len(body):,}")


def _unusable(reach: Reach, *, denies: bool) -> str:
    """Why a pattern cannot be stored; empty if it can."""
    if reach.problem:
        return sanitize(reach.problem)
    if reach.uncovered and not denies:
        what = ", ".join(sanitize_line(part, PART_CELLS) for part in reach.uncovered[:SHOWN_PARTS])
        return _("The pattern does not match this action: {what}.").format(what=what)
    return "" if reach.patterns else _("This is not a valid pattern.")


def _broad(reach: Reach | None) -> str:
    if reach is None or not reach.broad:
        return ""
    what = ", ".join(sanitize_line(pattern, PART_CELLS) for pattern in reach.broad[:SHOWN_PARTS])
    return _("This pattern allows almost anything: {pattern}.").format(pattern=what)


def _spent(state: State) -> str:
    """The usage so far, in one line."""
    cost = state.metrics.accumulated_cost
    about = ABOUT if state.metrics.accumulated_token_usage.is_estimated else ""
    spent = _("an unknown amount") if cost is None else f"{about}${cost:.4f}"
    text = _("Used so far: {answers} model responses, {tokens} tokens, {spent}.")
    return text.format(answers=state.iteration, tokens=f"{about}{state.tokens:,}", spent=spent)
