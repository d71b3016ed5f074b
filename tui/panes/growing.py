"""How a view of lines gets another number of them: for itself alone.

Textual lays out the whole screen anew when a widget's virtual size is assigned, and draws all of it; at 20 lines a
second that is all that a program does. A view whose own size stays needs no layout, only its scrollbar to know.
"""

from __future__ import annotations

from textual.geometry import Size
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
