"""A dialog whose answers are highlighted and taken with Enter, and which takes no key in its first moments."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from textual import events
from textual.screen import ModalScreen, ScreenResultType

from tui.model.held import KeyGuard

if TYPE_CHECKING:
    from tui.app import HandloomApp

SENDS = "enter"


class GuardedScreen(ModalScreen[ScreenResultType]):
    """A dialog with a guard. Subclasses ask `is_taken` once for each key, and answer with no key that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.guard = KeyGuard()

    @property
    def _frame(self) -> HandloomApp:
        return cast("HandloomApp", self.app)

    def on_screen_resume(self) -> None:
        """Start the guard when the dialog has been drawn."""
        self.guard.guard_s = self._frame.options.screen.question_guard_ms / 1000
        self.guard.last = self._frame.last_key
        self.call_after_refresh(lambda: self.guard.restart(self._frame.clock()))

    def is_taken(self, event: events.Key) -> bool:
        """Whether a key can be an answer."""
        return self.guard.takes(event.key, self._frame.clock() - max(0.0, time.monotonic() - event.time))
