"""The base of dialogs: a screen above the workspace that is left once."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType


class Modal(ModalScreen[ScreenResultType]):
    """A screen above the workspace."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Leave the screen. A second Enter, which came before it was gone, must not leave the one below."""
        return super().dismiss(result) if self.is_active else AwaitComplete()
