"""Dialogs that take no key in their first moments, because it may have been meant for something else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.screen import ModalScreen, ScreenResultType

from tui.model.held import KeyGuard
from tui.model.question_list import DIGITS

if TYPE_CHECKING:
    from tui.app import HandloomApp

SENDS = "enter"
TEXT_WITHIN_S = 1.0
"""A key that follows a letter sooner than this is part of a text: somebody believes to be typing into the prompt."""
HARMLESS = frozenset({"escape", "pageup", "pagedown", "ctrl+c", "ctrl+q"})
"""Keys that a dialog may hear at any time: they leave, scroll, or have a question of their own."""


class GuardedScreen(ModalScreen[ScreenResultType]):
    """A dialog with a guard. Subclasses ask `is_taken` once for each key, and answer with no key that is not.

    Those that act through bindings set `guards_bindings`, and the app asks before it gives them the key.
    """

    guards_bindings: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.guard = KeyGuard()
        self._typed_at = float("-inf")
        """When the last letter was pressed that means nothing here."""

    @property
    def _frame(self) -> HandloomApp:
        return cast("HandloomApp", self.app)

    def on_screen_resume(self) -> None:
        """Start the guard when the dialog has been drawn."""
        self.guard.guard_s = self._frame.options.screen.question_guard_ms / 1000
        self.guard.last = self._frame.last_key
        self.call_after_refresh(lambda: self.guard.restart(self._frame.clock()))

    @property
    def ignores_letters(self) -> bool:
        """Whether letters mean nothing here, so that whoever types them means the prompt."""
        return not self.guards_bindings

    def is_taken(self, event: events.Key) -> bool:
        """Whether a key can be an answer. Call it once for each key."""
        at = self._frame.clock() - max(0.0, time.monotonic() - event.time)
        is_taken = self.guard.takes(event.key, at)
        if event.is_printable and event.key not in DIGITS and self.ignores_letters:
            self._typed_at = at
        return is_taken and (not self.guard.guard_s or at - self._typed_at > TEXT_WITHIN_S)

    def hears(self, event: events.Key) -> bool:
        """Whether the app may give this key to the dialog and its bindings. Call it once for each key."""
        return not self.guards_bindings or event.key in HARMLESS or self.is_taken(event)
