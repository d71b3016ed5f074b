"""What every pane model is: a fold over one conversation's events and frames.

One set of models per conversation, one set of widgets for the whole app. A widget attaches to a model and
sets `changed`; while no widget is attached, a model only accumulates. Live, replay and seek go through the
same three methods, so a pane shows the same whichever way it came there. Models know no widget and no
terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.events import Envelope, Frame


class PaneModel:
    """The part of a conversation that one pane shows."""

    changed: Callable[[], None] | None = None
    """Called after every change, on the event loop. The attached widget sets it and coalesces for itself."""

    def apply(self, envelope: Envelope) -> None:
        """Take in the next event; called for every event in order."""

    def apply_frame(self, frame: Frame) -> None:
        """Take in a live frame."""

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """Take in older events, in order, all of them before what is already here."""

    def notify(self) -> None:
        """Tell the attached widget, if there is one, that something changed."""
        if self.changed is not None:
            self.changed()
