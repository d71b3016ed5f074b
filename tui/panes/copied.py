"""What a pane asks for when its reader copies: the app knows the ways to the clipboard, and says which one it took."""

from __future__ import annotations

from textual.message import Message


class Copied(Message):
    """The reader wants this in the clipboard; an empty text says only what is `said`."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__()
        self.text = text
        self.said = said
        """What was copied, in place of how much it was."""
