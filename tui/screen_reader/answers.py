"""Typed answers to questions: may this action be carried out, and are the files of this folder trusted.

Every answer begins with a whole word, so that a letter that was meant for something else does nothing. It is about the
action that was read out, and a permission is given only if its pattern covers that action.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from core.security.confirmation import NOT_WANTED, Verdict
from core.security.permissions import Scope
from tui.approval.question import Question, ask_about
from tui.i18n import _
from tui.terminal_io.glyphs import in_ascii
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.events import Envelope
    from core.security.suggested_rules import Reach
    from core.session.agent_session import AgentSession
    from core.trust.folder_survey import Piece
    from core.trust.folder_trust import FolderTrust
    from core.trust.trust_store import TrustState

SCOPES = {str(scope): scope for scope in Scope}
LINE_CELLS = 300
MAX_PROBLEMS = 5


async def question_about(session: AgentSession, envelope: Envelope) -> tuple[Question, Reach | None]:
    """Return the question about a waiting action, and what its suggested pattern covers, if there is one."""

    def make() -> tuple[Question, Reach | None]:
        question = ask_about(envelope, session.guard.folders)
        return question, question.look(question.pattern) if question.look and question.pattern else None

    return await asyncio.to_thread(make)


def question_lines(question: Question, reach: Reach | None) -> list[str]:
    """Return the question, its reasons, and the possible answers."""
    title = _("Question: {question}").format(question=question.title)
    if question.risk:
        title = _("Question: {question} Risk: {risk}.").format(question=question.title, risk=question.risk)
    lines = [title, *question.body.split("\n")]
    if question.rule:
        lines.append(in_ascii(_("Reason: {rule}").format(rule=question.rule)))
    lines += [in_ascii(reason) for reason in question.reasons]
    if question.stays:
        lines.append(_("This rule always asks, even about allowed actions."))
    lines.append(_("Answer yes, no, no followed by a reason, or stop to deny the action and stop the agent."))
    if reach is not None and reach.is_usable:
        pattern = sanitize_line(question.pattern, LINE_CELLS)
        if not question.stays:
            allow = _("To always allow {pattern}, answer: always conversation, always project or always everywhere.")
            lines.append(allow.format(pattern=pattern))
        deny = _("To always deny {pattern}, answer: never conversation, never project or never everywhere.")
        lines.append(deny.format(pattern=pattern))
        lines.append(_("You can add a different pattern at the end."))
    return lines


async def answer(session: AgentSession, question: Question, text: str) -> str:
    """Carry out an answer. Returns what is wrong with it; empty if nothing is. Raises HandloomError."""
    id = question.action_id
    word, _space, rest = text.partition(" ")
    match word.lower().rstrip(",.:"), rest.strip():
        case "yes", "":  # "yes, but only in build" is not accepted
            await session.approval.confirm(id)
        case "no", reason:
            await session.approval.reject(reason or NOT_WANTED, id)
        case "stop", "":
            await session.approval.reject("", id)
        case ("always" | "never") as verb, rest if rest:
            scope, _space, pattern = rest.partition(" ")
            if scope.lower() not in SCOPES:
                return _("Name the scope: conversation, project or everywhere. The action is still waiting.")
            pattern = pattern.strip() or question.pattern
            return await _permit(session, question, SCOPES[scope.lower()], pattern, is_never=verb == "never")
        case _:
            return _("Answer yes, no, stop, always or never. The action is still waiting.")
    return ""


async def _permit(session: AgentSession, question: Question, scope: Scope, pattern: str, *, is_never: bool) -> str:
    if question.stays and not is_never:
        return _("This rule always asks. Answer yes to allow the action once.")
    reach = await asyncio.to_thread(question.look, pattern) if question.look is not None and pattern else None
    if reach is None:
        return _("This action is too complex to always allow. Answer yes to allow it once.")
    if reach.problem:
        return sanitize(reach.problem)
    if reach.uncovered and not is_never:
        what = ", ".join(sanitize_line(part, 80) for part in reach.uncovered[:3])
        return _("The pattern does not match this action: {what}.").format(what=what)
    await session.approval.permit(pattern, scope, Verdict.DENY if is_never else Verdict.ALLOW)
    if is_never:
        await session.approval.reject(NOT_WANTED, question.action_id)
    else:
        await session.approval.confirm_allowed(question.action_id)
    return ""


class TrustQuestion:
    """The question whether the files of a folder are trusted."""

    def __init__(self, trust: FolderTrust, folder: Callable[[], str]) -> None:
        self._trust, self._folder_of = trust, folder
        self._folder = ""
        self._state: TrustState | None = None

    @property
    def is_open(self) -> bool:
        return self._state is not None

    async def begin(self) -> list[str]:
        """Ask if the workspace would ask before a conversation; else return no lines."""
        if not self._trust.asks:
            return []
        self._folder = self._folder_of()
        state = await self._trust.state_of(self._folder)
        return self._ask(state) if state.needs_answer else []

    async def ask_again(self, along: Sequence[str]) -> list[str]:
        self._folder = self._folder_of()
        state = await self._trust.state_of(self._folder, along)
        if not (state.waiting or state.trusted):
            return [_("This folder contains no files that need your trust.")]
        return self._ask(state)

    def _ask(self, state: TrustState) -> list[str]:
        self._state = state
        folder = sanitize_line(state.survey.folder, LINE_CELLS)
        if not state.waiting:
            lines = [_("You trust these files in {folder}.").format(folder=folder)]
            answers = _(
                "Answer revoke to stop trusting them, read and a number to read a file, or no to change nothing."
            )
        else:
            what = _(
                "Question: Trust {folder}? It contains files that can instruct your agent or "
                "run commands. The agent ignores them until you answer yes."
            )
            lines = [what.format(folder=folder)]
            if state.changed:
                lines.append(_("You trusted this folder before. The listed files are new or have changed since."))
            answers = _("Answer yes to trust them until they change, no, or read and a number to read a file.")
        for n, piece in enumerate(self._pieces, 1):
            path, count = sanitize_line(piece.path, LINE_CELLS), piece.text.count("\n") + 1
            lines.append(_("{n}. {path}, {kind}, lines: {count}").format(n=n, path=path, kind=piece.kind, count=count))
        lines += [sanitize_line(problem, LINE_CELLS) for problem in state.survey.problems[:MAX_PROBLEMS]]
        return [*lines, answers]

    @property
    def _pieces(self) -> Sequence[Piece]:
        assert self._state is not None
        return self._state.waiting or self._state.trusted

    async def answer(self, text: str) -> list[str]:
        """Carry out an answer, and return the result. Raises ConfigurationError; then the question stays open."""
        state = self._state
        assert state is not None
        word, _space, rest = text.lower().partition(" ")
        if word == "read" and rest.strip().isdecimal() and 0 < int(rest) <= len(self._pieces):
            piece = self._pieces[int(rest) - 1]
            return [sanitize_line(piece.path, LINE_CELLS), *sanitize(piece.text).rstrip("\n").split("\n")]
        if word == "yes" and not rest and state.waiting:
            await self._trust.approve(self._folder, state)
            result = _("Trusted from your next message on, until these files change.")
        elif word == "no":
            if state.waiting:
                await self._trust.refuse(state)
            result = _("Nothing was changed. /trust asks again.")
        elif word == "revoke" and not state.waiting:
            await self._trust.revoke(self._folder)
            result = _("Trust revoked. The agent still knows what it has already read.")
        else:
            return [_("Please answer the question about the folder with one of the words above.")]
        self._state = None
        return [result]
