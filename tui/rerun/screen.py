"""The screen of a rerun: its actions at the left, the recorded and the new result of the selected one at the right.

Shows a run while it goes on, and one that has ended, from the two logs. Leaving stops nothing. Lines are formatted only
when they are visible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from tui.dialogs.dialog import Choice, ChoiceScreen
from tui.dialogs.modal import Modal
from tui.i18n import _
from tui.rerun.comparison_sheet import MARKS, OPEN, Row, Sheet, head, summary
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.line_view import set_lines

if TYPE_CHECKING:
    from core.rerun.alignment import Pair, Pairing
    from core.rerun.runner import Rerun

ROLES = ("muted", "title", "same", "alike", "different", "missing", "not_run", "old", "new", "old-word", "new-word")
_CLASSES = {f"again--{role}" for role in (*ROLES, "alike-word", "cursor")}
RERUN_CSS = """
RerunView {
    overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; background: $surface; color: $foreground;
    & > .again--muted { color: $text-muted; }
    & > .again--title { text-style: bold; }
    & > .again--same { color: $text-success; }
    & > .again--alike { color: $text-accent; }
    & > .again--different { color: $text-error; text-style: bold; }
    & > .again--missing { color: $text-warning; }
    & > .again--not_run { color: $text-muted; }
    & > .again--old { color: $text-error; background: $error 10%; }
    & > .again--new { color: $text-success; background: $success 10%; }
    & > .again--old-word { background: $error 32%; text-style: bold; }
    & > .again--new-word { background: $success 32%; text-style: bold; }
    & > .again--alike-word { text-style: italic; }
    & > .again--cursor { background: $primary-muted; }
    &:ansi {
        & > .again--old, & > .again--new { background: ansi_default; }
        & > .again--old-word, & > .again--new-word { background: ansi_default; text-style: bold underline; }
    }
}
"""


class RerunView(ScrollView):
    """The styles of both views, by role."""

    DEFAULT_CSS = RERUN_CSS
    COMPONENT_CLASSES = _CLASSES

    def _style(self, role: str, base: Style) -> Style:
        if role == "text":
            return base
        return base + self.get_component_rich_style(f"again--{role}", partial=True)

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width


class ActionsView(RerunView, can_focus=True, inherit_bindings=False):
    """The actions of a run, one line each. Follows the newest result until the cursor is moved."""

    HELP = _("The actions that are run again. n goes to the next difference, space pauses, s runs one step.")

    class Moved(Message):
        """The cursor is on another action."""

    def __init__(self, pairing: Pairing) -> None:
        super().__init__()
        self.pairing = pairing
        self.cursor = 0
        self.following = True

    @property
    def pair(self) -> Pair | None:
        pairs = self.pairing.pairs
        return pairs[self.cursor] if self.cursor < len(pairs) else None

    def sync(self) -> None:
        pairs = self.pairing.pairs
        set_lines(self, len(pairs))
        if self.following:
            newest = max((index for index, pair in enumerate(pairs) if pair.new is not None), default=0)
            if newest != self.cursor:
                self._put(newest)
        self.refresh()

    def move_to(self, index: int) -> None:
        """Move the cursor; it no longer follows the newest result."""
        self.following = False
        self._put(min(max(0, index), max(0, len(self.pairing.pairs) - 1)))

    def _put(self, index: int) -> None:
        self.cursor = index
        self.scroll_to_region(Region(0, index, 1, 1), animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def on_resize(self, event: events.Resize) -> None:
        set_lines(self, len(self.pairing.pairs))

    def on_click(self, event: events.Click) -> None:
        if event.y + self.scroll_offset.y < len(self.pairing.pairs):
            self.move_to(event.y + self.scroll_offset.y)

    def render_line(self, y: int) -> Strip:
        index, width, base = y + self.scroll_offset.y, self._width, self.rich_style
        if index >= len(self.pairing.pairs):
            return Strip.blank(width, base)
        if index == self.cursor:
            base = self._style("cursor", base)
        pair = self.pairing.pairs[index]
        mark, role = (MARKS[pair.outcome], str(pair.outcome)) if pair.outcome is not None else (OPEN, "muted")
        lead = f"{index + 1:>4} "
        kind = sanitize_line(("! " if pair.step.is_users else "") + pair.step.action.kind, 14)
        what = sanitize_line(_summary_of(pair), width - len(lead) - len(kind) - 3)
        segments = [
            Segment(lead, self._style("muted", base)),
            Segment(f"{mark} ", self._style(role, base)),
            Segment(f"{kind} ", self._style("muted", base)),
            Segment(what, base),
        ]
        return Strip(segments).adjust_cell_length(width, base)


def _summary_of(pair: Pair) -> str:
    """The text that distinguishes an action from others of its kind."""
    action = pair.step.action
    found = (getattr(action, name, "") for name in ("command", "code", "path", "url", "browser_actions", "thought"))
    if action.kind in ("edit", "read", "write"):
        return str(getattr(action, "path", ""))
    return next((text for text in found if text and isinstance(text, str)), action.message)


class ResultView(RerunView, can_focus=False):
    """The recorded and the new result of one action."""

    def __init__(self) -> None:
        super().__init__()
        self._sheet: Sheet | None = None
        self._head: list[Row] = []
        """Does not scroll."""
        self._shown: tuple[object, int, bool] | None = None

    def show(self, pair: Pair | None, *, is_split: bool) -> None:
        """Show the results of this action, from its first difference on."""
        key = (pair, self._width, is_split)
        if key == self._shown or self._width <= 0:
            return
        before = self._shown[0] if self._shown else None
        self._shown = key
        self._sheet = Sheet(pair, self._width, is_split=is_split) if pair is not None else None
        self._head = head(pair, self._width, is_split=is_split) if pair is not None else []
        set_lines(self, len(self._head) + self._sheet.height if self._sheet else 0)
        is_another = getattr(before, "step", None) is not (pair.step if pair else None)
        if is_another or getattr(before, "comparison", None) is not (pair.comparison if pair else None):
            self.scroll_to(y=self._first_row(), animate=False, immediate=True, force=True)
        self.refresh()

    @property
    def _rows(self) -> int:
        return self.scrollable_content_region.height - len(self._head)

    def _first_row(self) -> int:
        """The row at the top, so that the first difference is visible."""
        first = self._sheet.first_difference if self._sheet else None
        height = max(1, self._rows)
        return max(0, first - height // 3) if first is not None and first >= height else 0

    def page(self, pages: int) -> None:
        rows = pages * max(1, self._rows - 1)
        self.scroll_relative(y=rows, animate=False, immediate=True, force=True)

    def render_line(self, y: int) -> Strip:
        width, base = self._width, self.rich_style
        if y < len(self._head):
            row = self._head[y]
        else:
            row = self._sheet.row(y - len(self._head) + self.scroll_offset.y) if self._sheet is not None else []
        segments = [Segment(text, self._style(role, base)) for role, text in row]
        return Strip(segments).adjust_cell_length(width, base)


SPLIT_FROM = 100
"""Width from which two results are shown side by side."""
_IDLE_STATES = frozenset({"paused", "stopped", "error", "awaiting_user_input", "rejected"})
"""States in which the agent does nothing until it is told to."""


RUN, DO_NOT_RUN = "run", "do_not_run"


class RerunScreen(Modal[None]):
    """One run; `rerun` is None for an earlier one. `attempt` runs something in the background."""

    DEFAULT_CSS = """
    RerunScreen {
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
        rerun: Rerun | None,
        attempt: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        super().__init__()
        self._title, self._pairing, self._rerun, self._attempt = title, pairing, rerun, attempt

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Run again: {title}").format(title=self._title)
            box.border_subtitle = _("n next difference · space pauses · s one step · Enter opens · Esc closes")
            yield Static(id="again-state")
            with Horizontal():
                yield ActionsView(self._pairing)
                yield ResultView()

    @property
    def actions(self) -> ActionsView:
        return self.query_one(ActionsView)

    def on_mount(self) -> None:
        """Follow the run while the screen is open."""
        self.actions.following = self._rerun is not None and not self._rerun.has_ended
        self.actions.focus()
        self.call_after_refresh(self.sync)
        if self._rerun is not None and not self._rerun.has_ended:
            self.run_worker(self._follow(self._rerun), group="again")

    async def _follow(self, rerun: Rerun) -> None:
        while True:
            rerun.changed.clear()
            self.sync()
            waits = [asyncio.ensure_future(rerun.changed.wait()), asyncio.ensure_future(rerun.session.changed())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.sync)

    def on_actions_view_moved(self) -> None:
        self._show()

    def sync(self) -> None:
        if not (self.is_mounted and self.display):  # not displayed while it is being removed
            return
        self.actions.sync()
        self._show()
        lines = [f"{self._state()} · {summary(self._pairing)}"]
        if self._rerun is not None:
            lines += [sanitize_line(note, max(20, self.size.width - 6)) for note in self._rerun.notes[:2]]
        self.query_one("#again-state", Static).update(Content("\n".join(lines)))

    def _show(self) -> None:
        self.query_one(ResultView).show(self.actions.pair, is_split=self.size.width >= SPLIT_FROM)

    def _state(self) -> str:
        """The state of the run, and the key that helps."""
        rerun = self._rerun
        if rerun is None or rerun.has_ended:
            return _("Finished")
        state = rerun.session.state
        if state.awaiting is not None:
            return _("Waiting for approval: Enter answers")
        at = rerun.stopped_at
        if rerun.is_stopped and at is not None and all(pair.new is None for pair in self._pairing.pairs[at + 1 :]):
            return _("Stopped at the first difference: space continues, s runs one step")
        if not rerun.control.is_playing:
            is_paused = rerun.control.is_waiting
            return _("Paused: space continues, s runs one step") if is_paused else _("Pausing after this action")
        if str(state.agent_state) in _IDLE_STATES and state.reason:
            return sanitize_line(state.reason, 200)
        return _("Running")

    # -- keys ----------------------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Close the screen; the run continues."""
        self.dismiss()

    def action_move(self, by: int) -> None:
        self.actions.move_to(self.actions.cursor + by)

    def action_page(self, pages: int) -> None:
        self.query_one(ResultView).page(pages)

    def action_difference(self, step: int) -> None:
        index = self._pairing.next_difference(self.actions.cursor, step)
        if index is not None:
            self.actions.move_to(index)

    def action_pause(self) -> None:
        rerun = self._rerun
        if rerun is None or rerun.has_ended:
            return
        if rerun.control.is_playing and str(rerun.session.state.agent_state) == "running":
            rerun.control.pause()
        else:
            rerun.control.resume()
            if str(rerun.session.state.agent_state) in ("paused", "stopped", "error"):
                self._attempt(rerun.session.resume())
        self.actions.following = rerun.control.is_playing
        self.sync()

    def action_step(self) -> None:
        if self._rerun is not None and not self._rerun.has_ended:
            self.actions.following = True
            self._rerun.control.step()
            self.sync()

    def _answer(self, asked: int, answer: str | None) -> None:
        """Answer a confirmation, unless it is no longer asked."""
        assert self._rerun is not None
        session = self._rerun.session
        if answer == RUN:
            self._attempt(session.approval.confirm(asked))
        elif answer == DO_NOT_RUN:
            self._attempt(session.approval.reject(_("The user declined to run it again."), asked))

    def action_open(self) -> None:
        """Answer the confirmation, if one is asked; else show action and results in full."""
        rerun = self._rerun
        if rerun is not None and not rerun.has_ended and (asked := rerun.session.state.awaiting) is not None:
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
