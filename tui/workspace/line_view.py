"""How a view of lines gets another number of them: for itself alone.

Textual lays out the whole screen again when a widget's virtual size is assigned, and draws all of it; at 20 lines a
second that is all that a program does. A view whose own size stays needs no layout, only its scrollbar to know.

What a pane asks for when its reader copies: the app knows the ways to the clipboard, and says which one it took.
"""

from __future__ import annotations

from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.widget import Widget


def set_lines(view: ScrollView, count: int) -> None:
    """Have the view hold so many lines of its own width. Draws nothing."""
    width, height = view.scrollable_content_region.size
    if view.virtual_size == (width, count):
        return
    view.set_reactive(Widget.virtual_size, Size(width, count))
    if view.show_vertical_scrollbar:
        view.vertical_scrollbar.window_virtual_size = count
        view.vertical_scrollbar.window_size = height


class Copied(Message):
    """The reader wants this in the clipboard; an empty text says only what is `said`."""

    def __init__(self, text: str, note: str = "") -> None:
        super().__init__()
        self.text = text
        self.note = note
        """What was copied, in place of how much it was."""
