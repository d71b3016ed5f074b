"""An event as a tree on the screen: keys and values, long texts folded to a line, opened where the user wants.

A branch is filled when it is opened, so that an event costs what is looked at. What is shown is clean; what is copied
is what is stored.
"""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from tui.commands import BY_ID, keyed
from tui.events.event_parts import Part, copied, describe, line_of, parts_of
from tui.i18n import _
from tui.workspace.line_view import Copied

OPEN_AT_FIRST = frozenset({"args", "extras"})
"""What an event is about: the rest is opened on demand."""
_INDENT = 4


class EventTree(Tree[Part]):
    """The parts of one event."""

    HELP = keyed(
        _(
            "The fields of an event. {list.open} expands or collapses one, {events.copy} "
            "copies it, r shows the stored JSON."
        )
    )
    COMPONENT_CLASSES = {"event-tree--key", "event-tree--note", "event-tree--text"}
    DEFAULT_CSS = """
    EventTree {
        background: $surface; overflow-x: hidden; scrollbar-size-vertical: 1; padding: 0;
        & > .event-tree--key { color: $text-primary; }
        & > .event-tree--note { color: $text-muted; }
        & > .event-tree--text { color: $foreground; }
        & > .tree--guides, & > .tree--guides-hover, & > .tree--guides-selected { color: $text-disabled; }
        & > .tree--cursor, &:focus > .tree--cursor { background: $primary-muted; color: $foreground; text-style: none; }
    }
    """
    BINDINGS = [
        Binding(",".join(BY_ID["list.up"].keys), "cursor_up", show=False),
        Binding(",".join(BY_ID["list.down"].keys), "cursor_down", show=False),
        Binding(",".join(BY_ID["list.page_up"].keys), "page_up", show=False),
        Binding(",".join(BY_ID["list.page_down"].keys), "page_down", show=False),
        Binding(",".join(BY_ID["list.home"].keys), "first", show=False),
        Binding(",".join(BY_ID["list.end"].keys), "last", show=False),
        Binding(",".join((*BY_ID["list.open"].keys, "space")), "toggle_node", show=False),
        Binding("right,l", "unfold", show=False),
        Binding("left,h", "fold", show=False),
        Binding(",".join(BY_ID["events.copy"].keys), "copy", show=False),
        Binding("r", "raw", show=False),
    ]

    class Shown(Message):
        """The tree has come into sight, and may have to show another event."""

    class RawWanted(Message):
        """The user wants to see the event as it is stored."""

        def __init__(self, event_id: int) -> None:
            super().__init__()
            self.event_id = event_id

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id)
        self.show_root = False
        self.guide_depth = 2
        self.auto_expand = True
        self.event_id: int | None = None

    def show(self, event_id: int, event: dict[str, object]) -> None:
        """Show an event in its stored form."""
        self.event_id = event_id
        self.border_title = _("Event {id}").format(id=event_id)
        self.root.remove_children()
        self.root.data = Part("", event)
        self._fill(self.root)
        self.root.expand()
        for node in self.root.children:
            if node.data is not None and node.data.key in OPEN_AT_FIRST and isinstance(node.data.value, dict):
                self._fill(node)
                node.expand()
        self.move_cursor(None)
        self.scroll_home(animate=False, immediate=True)
        self.action_cursor_down()

    def on_show(self) -> None:
        """Tell that somebody looks."""
        self.post_message(self.Shown())

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[Part]) -> None:
        """Fill a branch when it is opened for the first time."""
        event.stop()
        self._fill(event.node)

    def _fill(self, node: TreeNode[Part]) -> None:
        if node.data is None or node.children:
            return
        width = self.scrollable_content_region.width - _INDENT - 2 * self._level(node)
        for part in parts_of(node.data, width):
            said = describe(part)
            node.add(Text(said.key), part, allow_expand=bool(part.key) and said.opens)

    def _level(self, node: TreeNode[Part]) -> int:
        level, above = 0, node.parent
        while above is not None:
            level, above = level + 1, above.parent
        return level

    def render_label(self, node: TreeNode[Part], base_style: Style, style: Style) -> Text:
        """A part in one line: its key, its value or the beginning of it, and what kind of value it is."""
        part = node.data
        if part is None:
            return Text()
        if not part.key:
            return Text(line_of(part), base_style + self._role("text") + style)
        said = describe(part)
        marks = ("▾ " if node.is_expanded else "▸ ") if node.allow_expand else "  "
        label = Text(marks, base_style + style)
        label.append(said.key, base_style + self._role("key") + style)
        if said.preview and not node.is_expanded:
            label.append(f"  {said.preview}", base_style + self._role("text") + style)
        if said.note:
            label.append(f"  {said.note}", base_style + self._role("note") + style)
        label.no_wrap = True
        return label

    def _role(self, role: str) -> Style:
        return self.get_component_rich_style(f"event-tree--{role}", partial=True)

    # -- what the user does --------------------------------------------------------------------------------------------

    def action_first(self) -> None:
        """To the first part."""
        self.cursor_line = 0

    def action_last(self) -> None:
        """To the last part that is shown."""
        self.cursor_line = self.last_line

    def action_unfold(self) -> None:
        """Open the part under the cursor; an open one leads to its first part."""
        node = self.cursor_node
        if node is None or not node.allow_expand:
            return
        if node.is_expanded:
            self.action_cursor_down()
        else:
            node.expand()

    def action_fold(self) -> None:
        """Fold the part under the cursor; a folded one leads to what it is a part of."""
        node = self.cursor_node
        if node is None:
            return
        if node.allow_expand and node.is_expanded:
            node.collapse()
        elif node.parent is not None and node.parent is not self.root:
            self.move_cursor(node.parent)

    def action_copy(self) -> None:
        """Copy the part under the cursor; of an opened text, the whole text."""
        node = self.cursor_node
        if node is not None and node.data is not None and not node.data.key:
            node = node.parent
        if node is None or node.data is None:
            return
        text = copied(node.data)
        self.post_message(Copied(text))

    def action_raw(self) -> None:
        """Ask for the event as it is stored."""
        if self.event_id is not None:
            self.post_message(self.RawWanted(self.event_id))
