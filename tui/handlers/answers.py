"""What the user answers to cards: may this action be carried out, how shall it go on. A mixin of the app's handlers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tui.commands import keyed
from tui.handlers.frame import Frame
from tui.i18n import _
from tui.widgets.approval import ApprovalCard
from tui.widgets.cards import Card, HaltCard

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession
    from tui.model.conversation import ConversationTab


def _takes(way: str) -> Callable[[Answers], None]:
    """The handler of a way out of a halt; it answers only where the card offers it."""

    def take(self: Answers) -> None:
        card = self.workspace.card
        if isinstance(card, HaltCard) and way in card.ways:
            self._answer(HaltCard, lambda session: _take(session, way))

    return take


async def _take(session: AgentSession, way: str, model: str = "") -> None:
    from core.controller.halts import Way  # with the first conversation, not with the first frame

    await session.ways.take(Way(way), model)


async def _permit(session: AgentSession, action_id: int, pattern: str, scope: str, *, never: bool) -> None:
    from core.security.confirmation import NOT_WANTED
    from core.security.judgement import Verdict
    from core.security.permissions import Scope

    await session.permitting.permit(pattern, Scope(scope), Verdict.DENY if never else Verdict.ALLOW)
    if never:
        await session.permitting.reject_denied(NOT_WANTED, action_id)
    else:
        await session.permitting.confirm_allowed(action_id)


async def _deny(session: AgentSession, action_id: int, reason: str = "") -> None:
    from core.security.confirmation import NOT_WANTED

    await session.reject(reason.strip() or NOT_WANTED, action_id)


class Answers(Frame):
    """Answers to cards, by the ids of the command table."""

    def do_ask_focus(self) -> None:
        if self.workspace.card is not None:
            self.workspace.card.focus()
        else:
            self.flash(_("Nothing is asked."))

    def _answer(self, kind: type[Card], answer: Callable[[AgentSession], Coroutine[Any, Any, None]]) -> None:
        card = self.workspace.card
        if self.living is not None and isinstance(card, kind) and card.ready:
            self.attempt(answer(self.living.session))

    # -- may this action be carried out ----------------------------------------------------------------------------

    def _approval(self) -> ApprovalCard | None:
        """The card of an action, where the key that was pressed can be an answer to it."""
        card = self.workspace.card
        if not isinstance(card, ApprovalCard) or self.living is None:
            return None
        if not card.ready:
            card.say(_("The question has only just come up: read it, then press again."))
            return None
        return card

    def _say(self, answer: Callable[[AgentSession, int], Coroutine[Any, Any, None]]) -> None:
        card, tab = self._approval(), self.living
        if card is not None and tab is not None:
            self.attempt(answer(tab.session, card.question.action_id))

    def do_approval_approve(self) -> None:
        self._say(lambda session, id: session.confirm(id))

    def do_approval_alike(self) -> None:
        self._say(lambda session, id: session.permitting.confirm(id, alike=True))

    def do_approval_always(self) -> None:
        self._permit("conversation")

    def do_approval_project(self) -> None:
        self._permit("project")

    def do_approval_everywhere(self) -> None:
        self._permit("everywhere")

    def _permit(self, scope: str) -> None:
        """Answer for as far as the scope reaches."""
        card, tab = self._approval(), self.living
        if card is None or tab is None:
            return
        id, pattern, reach = card.question.action_id, card.pattern, card.reach
        if card.question.stays and not card.never:
            card.say(keyed(_("This rule asks each time; {approval.approve} allows it once.")))
        elif reach is None or reach.problem or (reach.uncovered and not card.never):
            card.say(keyed(_("That pattern does not cover this action; {approval.pattern} changes it.")))
        else:
            self.attempt(_permit(tab.session, id, pattern, scope, never=card.never))

    def do_approval_never(self) -> None:
        if (card := self._approval()) is not None:
            card.toggle_never()

    async def do_approval_pattern(self) -> None:
        if (card := self._approval()) is not None:
            await card.edit_pattern()

    def do_approval_deny(self) -> None:
        self._say(_deny)

    def do_approval_stop(self) -> None:
        self._say(lambda session, id: session.reject("", id))

    async def do_approval_reason(self) -> None:
        if (card := self._approval()) is not None:
            await card.ask_reason()

    def on_approval_card_refused(self, message: ApprovalCard.Refused) -> None:
        """A no with its reason."""
        if self.living is not None:
            self.attempt(_deny(self.living.session, message.action_id, message.reason))

    def do_ask_next(self) -> None:
        """Go to the next conversation that waits for an answer; the shown one is the last that is looked at."""
        tabs, current = self.living_tabs, self.current
        at = next((n for n, tab in enumerate(tabs) if tab is current), -1)
        for tab in (*tabs[at + 1 :], *tabs[: at + 1]):
            if tab.waits_for is not None:
                if tab is not current:
                    self.show_tab(tab)
                self._focus_when_asked(tab)
                return
        self.flash(_("No conversation waits for you."))

    def _focus_when_asked(self, tab: ConversationTab) -> None:
        if self.workspace.card is not None:
            self.workspace.card.focus()
        elif self.current is tab:  # its card comes with the frame after this one
            self.workspace.helm.focus()

    do_halt_retry = _takes("retry")
    do_halt_extend = _takes("extend")
    do_halt_condense = _takes("condense")
    do_halt_restart_sandbox = _takes("restart_sandbox")
    do_halt_skip = _takes("skip")
    do_halt_tell = _takes("tell")
    do_halt_cut_loop = _takes("cut_loop")
    do_halt_resend = _takes("resend")
    do_halt_stop = _takes("stop")

    def do_halt_switch_model(self) -> None:
        card, tab = self.workspace.card, self.living
        if isinstance(card, HaltCard) and card.ready and "switch_model" in card.ways and tab is not None:
            self.choose_model(lambda name: self.attempt(_take(tab.session, "switch_model", name)))
