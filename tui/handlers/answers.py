"""What the user answers to cards: may this action be carried out, how shall it go on. A mixin of the app's handlers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tui.i18n import _
from tui.widgets.cards import ApprovalCard, Card, HaltCard

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession
    from tui.model.conversation import ConversationTab
    from tui.screens.workspace import Workspace


def _takes(way: str) -> Callable[[Answers], None]:
    """The handler of a way out of a halt; it answers only where the card offers it."""

    def take(self: Answers) -> None:
        card = self.workspace.card
        if isinstance(card, HaltCard) and way in card.ways:
            self._answer(HaltCard, lambda session: _take(session, way))

    return take


async def _take(session: AgentSession, way: str, model: str = "") -> None:
    from core.controller.halts import Way  # with the first conversation, not with the first frame

    await session.take(Way(way), model)


class Answers:
    """Answers to cards, by the ids of the command table."""

    if TYPE_CHECKING:
        workspace: Workspace

        @property
        def living(self) -> ConversationTab | None: ...
        def attempt(self, work: Coroutine[Any, Any, None]) -> None: ...
        def flash(self, message: str) -> None: ...
        def choose_model(self, chosen: Callable[[str], None]) -> None: ...

    def do_ask_focus(self) -> None:
        if self.workspace.card is not None:
            self.workspace.card.focus()
        else:
            self.flash(_("Nothing is asked."))

    def _answer(self, kind: type[Card], answer: Callable[[AgentSession], Coroutine[Any, Any, None]]) -> None:
        card = self.workspace.card
        if self.living is not None and isinstance(card, kind) and card.ready:
            self.attempt(answer(self.living.session))

    def do_approval_approve(self) -> None:
        self._answer(ApprovalCard, lambda session: session.confirm())

    def do_approval_always(self) -> None:
        async def always(session: AgentSession) -> None:
            session.set_confirm_mode("never")
            await session.confirm()

        self._answer(ApprovalCard, always)

    def do_approval_deny(self) -> None:
        self._answer(ApprovalCard, lambda session: session.reject())

    async def do_approval_reason(self) -> None:
        card = self.workspace.card
        if isinstance(card, ApprovalCard) and card.ready:
            await card.ask_reason()

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
