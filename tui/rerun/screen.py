"""A saved session that is run again: its actions at the left, the recorded and the new result of one beside each other.

Shows a run while it goes on, and one that is over, from the two logs. Leaving stops nothing. The screen decides
nothing: the gate of the run pauses it, the session carries out what the user answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.dialogs.dialog import Choice, ChoiceScreen
from tui.i18n import _
from tui.rerun.run_text import summary
from tui.rerun.view import ActionsView, ResultView
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.rerun.alignment import Pairing
    from core.rerun.runner import Again

SPLIT_FROM = 100
"""Columns from which two results stand side by side."""
_STILL = frozenset({"paused", "stopped", "error", "awaiting_user_input", "rejected"})
"""States in which the agent does nothing until somebody says so."""


RUN, DO_NOT_RUN = "run", "do_not_run"


class AgainScreen(ModalScreen[None]):
    """One run. `again` is None for one that is over; `attempt` does something in the background. The title is clean."""

    DEFAULT_CSS = """
    AgainScreen {
        & > Vertical {
            width: 100%; height: 100%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        #again-state { height: auto; max-height: 3; margin-bottom: 1; }
        ActionsView { width: 34%; max-width: 52; margin-right: 1; }
        ResultView { width: 1fr; }
    }
    """
    BINDINGS = [
        Binding("escape,q", "leave", "Leave"),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
        Binding("pageup,b", "page(-1)", show=False),
        Binding("pagedown,f", "page(1)", show=False),
        Binding("n", "difference(1)", show=False),
        Binding("N", "difference(-1)", show=False),
        Binding("space", "pause", show=False),
        Binding("s", "step", show=False),
        Binding("enter", "open", show=False),
    ]

    def __init__(
        self,
        title: str,
        pairing: Pairing,
        again: Again | None,
        attempt: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        super().__init__()
        self._title, self._pairing, self._again, self._attempt = title, pairing, again, attempt

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Run again: {title}").format(title=self._title)
            box.border_subtitle = _("n next difference · space pauses · s one step · Enter opens · Esc leaves")
            yield Static(id="again-state")
            with Horizontal():
                yield ActionsView(self._pairing)
                yield ResultView()

    @property
    def actions(self) -> ActionsView:
        """The list at the left."""
        return self.query_one(ActionsView)

    def on_mount(self) -> None:
        """Follow the run for as long as the screen is up."""
        self.actions.following = self._again is not None and not self._again.is_over
        self.actions.focus()
        self.call_after_refresh(self.sync)
        if self._again is not None and not self._again.is_over:
            self.run_worker(self._follow(self._again), group="again")

    async def _follow(self, again: Again) -> None:
        while True:
            again.changed.clear()
            self.sync()
            waits = [asyncio.ensure_future(again.changed.wait()), asyncio.ensure_future(again.session.changed())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    def on_resize(self, event: events.Resize) -> None:
        """Two columns or one, by the width."""
        self.call_after_refresh(self.sync)

    def on_actions_view_moved(self) -> None:
        """Show the results of the action under the cursor."""
        self._show()

    def sync(self) -> None:
        """Take over what changed."""
        if not self.is_mounted:
            return
        self.actions.sync()
        self._show()
        lines = [f"{self._state()} · {summary(self._pairing)}"]
        if self._again is not None:
            lines += [sanitize_line(note, max(20, self.size.width - 6)) for note in self._again.notes[:2]]
        self.query_one("#again-state", Static).update(Content("\n".join(lines)))

    def _show(self) -> None:
        self.query_one(ResultView).show(self.actions.pair, is_split=self.size.width >= SPLIT_FROM)

    def _state(self) -> str:
        """How the run stands, and the key that helps."""
        again = self._again
        if again is None or again.is_over:
            return _("Over")
        state = again.session.state
        if state.awaiting is not None:
            return _("Asks whether to run the next action: Enter answers")
        at = again.stopped_at
        if again.gate.holds and at is not None and all(pair.new is None for pair in self._pairing.pairs[at + 1 :]):
            return _("Stopped at the first difference: space goes on, s takes one step")
        if not again.gate.is_open:
            return _("Paused: space goes on, s takes one step") if again.gate.holds else _("Pauses after this action")
        if str(state.agent_state) in _STILL and state.reason:
            return sanitize_line(state.reason, 200)
        return _("Running")

    # -- keys ----------------------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Leave; the run goes on."""
        self.dismiss()

    def action_move(self, by: int) -> None:
        """Go to another action."""
        self.actions.move_to(self.actions.cursor + by)

    def action_page(self, pages: int) -> None:
        """Scroll the results."""
        self.query_one(ResultView).page(pages)

    def action_difference(self, step: int) -> None:
        """Go to the next action that differs, or the one before."""
        index = self._pairing.next_difference(self.actions.cursor, step)
        if index is not None:
            self.actions.move_to(index)

    def action_pause(self) -> None:
        """Pause the run, or let it go on."""
        again = self._again
        if again is None or again.is_over:
            return
        if again.gate.is_open and str(again.session.state.agent_state) == "running":
            again.gate.pause()
        else:
            again.gate.go_on()
            if str(again.session.state.agent_state) in ("paused", "stopped", "error"):
                self._attempt(again.session.resume())
        self.actions.following = again.gate.is_open
        self.sync()

    def action_step(self) -> None:
        """Let one action run, and pause."""
        if self._again is not None and not self._again.is_over:
            self.actions.following = True
            self._again.gate.step()
            self.sync()

    def _answer(self, asked: int, answer: str | None) -> None:
        """Answer what the run asked, unless the user went back or it asks something else by now."""
        assert self._again is not None
        session = self._again.session
        if answer == RUN:
            self._attempt(session.approval.confirm(asked))
        elif answer == DO_NOT_RUN:
            self._attempt(session.approval.reject(_("The user did not want it run again."), asked))

    def action_open(self) -> None:
        """Answer what the run asks; else show action and results in full."""
        again = self._again
        if again is not None and not again.is_over and (asked := again.session.state.awaiting) is not None:
            answers = [Choice(RUN, _("Run it")), Choice(DO_NOT_RUN, _("Do not run it"))]
            screen = ChoiceScreen(_("Run the next action?"), answers)
            self.app.push_screen(screen, lambda answer: self._answer(asked, answer))
            return
        from core.events import envelope_to_dict
        from tui.events.event_tree import EventScreen

        pair = self.actions.pair
        if pair is None:
            return
        found = {
            "recorded": pair.step.envelope,
            "recorded_result": pair.step.result,
            "new": pair.new,
            "new_result": pair.result,
        }
        event: dict[str, object] = {name: envelope_to_dict(each) for name, each in found.items() if each is not None}
        title = sanitize_line(pair.step.action.message, 80)
        self.app.push_screen(EventScreen(title, pair.step.envelope.id, event))
