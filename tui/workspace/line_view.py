"""What views of lines share: setting the number of lines without a new layout, and the message that copies text.

Textual lays out and draws the whole screen when a widget's virtual size is assigned; at 20 lines a second that takes
all the time. A view whose own size stays the same needs no layout, only an update of its scrollbar.
"""

from __future__ import annotations

from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.widget import Widget


def set_lines(view: ScrollView, count: int) -> None:
    """Set the number of lines of a view. Draws nothing."""
    width, height = view.scrollable_content_region.size
    if view.virtual_size == (width, count):
        return
    view.set_reactive(Widget.virtual_size, Size(width, count))
    if view.show_vertical_scrollbar:
        view.vertical_scrollbar.window_virtual_size = count
        view.vertical_scrollbar.window_size = height


class Copied(Message):
    """Asks the app to copy a text to the clipboard; with an empty text, the app only shows the note."""

    def __init__(self, text: str, note: str = "") -> None:
        super().__init__()
        self.text = text
        self.note = note
        """What was copied; shown instead of the number of characters."""
