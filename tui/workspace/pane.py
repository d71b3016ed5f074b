"""PaneModel: what the models of all panes have in common: each is a fold over one conversation's events and frames.

Each conversation has a set of models; the app has one set of widgets. A widget attaches to a model by setting
`changed`. Live events, replays and seeks use the same three methods, so a pane always shows the same. Models know no
widget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.events import Envelope, Frame


class PaneModel:
    """The part of a conversation that one pane shows."""

    changed: Callable[[], None] | None = None
    """Called after every change, on the event loop. Set by the attached widget, which coalesces the calls."""

    def apply(self, envelope: Envelope) -> None:
        """Add the next event. Called for every event in order."""

    def apply_frame(self, frame: Frame) -> None:
        """Add a live frame."""

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """Add older events, in order, all before those that are already here."""

    def notify(self) -> None:
        """Call `changed`, if a widget is attached."""
        if self.changed is not None:
            self.changed()
