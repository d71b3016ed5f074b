"""One event in full, over the workspace. Leaves with Esc."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen

from tui.events.event_tree import EventTree
from tui.i18n import _


class EventScreen(ModalScreen[None]):
    """The parts of an event. The title is clean."""

    DEFAULT_CSS = """
    EventScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 130; height: 90%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
    }
    """
    BINDINGS = [Binding("escape,q", "leave", "Leave")]

    def __init__(self, title: str, event_id: int, event: dict[str, object]) -> None:
        super().__init__()
        self._title, self._event_id, self._event = title, event_id, event

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("Enter expands · c copies · r JSON · Esc closes")
            yield EventTree()

    def on_mount(self) -> None:
        """The tree has the focus; it is filled when its width is known."""
        self.query_one(EventTree).focus()
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        self.query_one(EventTree).show(self._event_id, self._event)

    def action_leave(self) -> None:
        """Leave."""
        self.dismiss()
