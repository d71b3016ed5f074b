"""An event as a tree of keys and values, beside the log or in a dialog. Long texts are folded to a line.

A branch is filled when it is opened, so that an event costs only what is visible. What is shown is clean; what is
copied is what is stored. No list has more than `MANY` parts, so that an event of many megabytes opens as fast as a
small one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from tui.commands import BY_ID, keyed
from tui.dialogs.modal import Modal
from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.line_view import Copied

if TYPE_CHECKING:
    from core.events import Envelope

MANY = 200
"""Parts of one value that are shown; more are put into groups of so many."""
PREVIEW_CELLS = 160
"""What the widest screens show beside a key."""
SHORT_CHARS = 80
"""A text up to this length is shown whole and does not open."""

MAX_JSON_CHARS = 200_000
"""More than anybody scrolls through; the export has the rest."""
_BASE64 = re.compile(r"(?:data:([a-z0-9.+/-]{1,60})[a-z0-9=;.-]{0,60};base64,)?([A-Za-z0-9+/_-]{100})", re.IGNORECASE)
_REFERENCE = re.compile(r"blob:(image/[a-z]+);(\d+)x(\d+);(\d+);([0-9a-f]{64})")


class Part(NamedTuple):
    """One value of an event, and its key."""

    key: str
    value: object
    first: int = 0
    """In a group: the index of its first element, or the offset of its first character."""
    end: int = -1
    """In a group: the index after its last; -1 if this is no group."""


class PartLine(NamedTuple):
    """A part in one line. All of it is clean."""

    key: str
    preview: str
    note: str
    """What kind of value it is, and how large."""
    can_open: bool


def describe(part: Part) -> PartLine:
    key, value = sanitize_line(part.key, 40), part.value
    if part.end >= 0:
        shown = value[part.first : part.first + 200] if isinstance(value, str) else ""
        return PartLine(key, sanitize_line(shown, PREVIEW_CELLS), "", True)
    match value:
        case dict():
            return PartLine(key, "", counted(len(value), "{n} key", "{n} keys"), bool(value))
        case list():
            return PartLine(key, "", counted(len(value), "{n} element", "{n} elements"), bool(value))
        case str():
            return _describe_text(key, value)
        case None:
            return PartLine(key, "null", "", False)
    return PartLine(key, sanitize_line(json.dumps(value, default=str), PREVIEW_CELLS), "", False)


def _describe_text(key: str, text: str) -> PartLine:
    picture = _REFERENCE.fullmatch(text[:200])
    if picture is not None:
        kind, width, height, size, digest = picture.groups()
        note = _("image stored with the event: {kind}, {width}×{height}, {bytes} bytes").format(
            kind=kind, width=width, height=height, bytes=f"{int(size):,}"
        )
        return PartLine(key, f"{digest[:12]}…", note, False)
    encoded = _BASE64.match(text[:400])
    if encoded is not None and " " not in text[:400]:
        return PartLine(key, f"{sanitize_line(text[:40], 40)}…", f"{encoded[1] or 'base64'}, {_characters(text)}", True)
    if len(text) <= SHORT_CHARS and "\n" not in text:
        return PartLine(key, sanitize_line(text, PREVIEW_CELLS) if text else '""', "", False)
    lines = text.count("\n") + 1
    first = text[:2_000].lstrip().split("\n", 1)[0]
    note = _characters(text)
    if lines > 1:
        note = _("{lines} lines, {characters}").format(lines=f"{lines:,}", characters=note)
    return PartLine(key, sanitize_line(first, PREVIEW_CELLS), note, True)


def _characters(text: str) -> str:
    return _("{n} characters").format(n=f"{len(text):,}")


def parts_of(part: Part, width: int = SHORT_CHARS) -> list[Part]:
    """Return the values of a part, or the lines of a text, none longer than `width` characters."""
    value = part.value
    match value:
        case dict():
            return [Part(str(key), inner) for key, inner in value.items()]
        case list():
            return _grouped(value, *((0, len(value)) if part.end < 0 else (part.first, part.end)))
        case str():
            return _text_parts(part, value, max(16, width))
    return []


def _grouped(values: list[object], first: int, end: int) -> list[Part]:
    if end - first <= MANY:
        return [Part(str(index), values[index]) for index in range(first, end)]
    size = MANY
    while (end - first) > size * MANY:
        size *= MANY
    starts = range(first, end, size)
    groups = [(at, min(at + size, end)) for at in starts]
    return [Part(_("{first} to {last}").format(first=at, last=to - 1), values, at, to) for at, to in groups]


def _text_parts(part: Part, text: str, width: int) -> list[Part]:
    """Return the lines of a text or of a range of it; what does not fit is one more part at the end."""
    start, end = (0, len(text)) if part.end < 0 else (part.first, part.end)
    found: list[Part] = []
    at = start
    while at < end and len(found) < MANY:
        stop = text.find("\n", at, min(end, at + width))
        line_end = min(end, at + width) if stop < 0 else stop
        found.append(Part("", text[at:line_end], 0))
        at = line_end + (line_end < end and text[line_end] == "\n")
    if at < end:
        found.append(Part(_("{n} more characters").format(n=f"{end - at:,}"), text, at, end))
    return found


def copy_text(part: Part) -> str:
    """Return a part for the clipboard: a text as it is, anything else as JSON."""
    value = part.value
    if part.end >= 0 and isinstance(value, str | list):
        value = value[part.first : part.end]
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def line_of(part: Part) -> str:
    return sanitize(part.value) if isinstance(part.value, str) else ""


def stored_json(envelope: Envelope) -> str:
    """Return an event as it is stored. Not clean: for the clipboard, not for the screen."""
    from core.events import envelope_to_dict  # not with the first frame

    return json.dumps(envelope_to_dict(envelope), indent=2, ensure_ascii=False, default=str)


def shown_json(envelope: Envelope) -> str:
    """Return the stored JSON of an event for the screen, clean and bounded."""
    text = stored_json(envelope)
    if len(text) > MAX_JSON_CHARS:
        more = _("[... {n} more characters; use `handloom export` to see all ...]")
        more = more.format(n=f"{len(text) - MAX_JSON_CHARS:,}")
        text = f"{text[:MAX_JSON_CHARS]}\n{more}"
    return sanitize(text)


OPEN_AT_FIRST = frozenset({"args", "extras"})
"""The branches that are open at first."""
_INDENT = 4


class EventTree(Tree[Part]):
    """The fields of one event."""

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
        """The tree became visible, and may have to show another event."""

    class RawWanted(Message):
        """The user wants to see the stored JSON."""

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
            shown = describe(part)
            node.add(Text(shown.key), part, allow_expand=bool(part.key) and shown.can_open)

    def _level(self, node: TreeNode[Part]) -> int:
        level, above = 0, node.parent
        while above is not None:
            level, above = level + 1, above.parent
        return level

    def render_label(self, node: TreeNode[Part], base_style: Style, style: Style) -> Text:
        """Draw a part in one line: its key, its value or the beginning of it, and what kind of value it is."""
        part = node.data
        if part is None:
            return Text()
        if not part.key:
            return Text(line_of(part), base_style + self._role("text") + style)
        shown = describe(part)
        marks = ("▾ " if node.is_expanded else "▸ ") if node.allow_expand else "  "
        label = Text(marks, base_style + style)
        label.append(shown.key, base_style + self._role("key") + style)
        if shown.preview and not node.is_expanded:
            label.append(f"  {shown.preview}", base_style + self._role("text") + style)
        if shown.note:
            label.append(f"  {shown.note}", base_style + self._role("note") + style)
        label.no_wrap = True
        return label

    def _role(self, role: str) -> Style:
        return self.get_component_rich_style(f"event-tree--{role}", partial=True)

    def action_first(self) -> None:
        self.cursor_line = 0

    def action_last(self) -> None:
        self.cursor_line = self.last_line

    def action_unfold(self) -> None:
        """Open the part under the cursor; in an open one, go to its first part."""
        node = self.cursor_node
        if node is None or not node.allow_expand:
            return
        if node.is_expanded:
            self.action_cursor_down()
        else:
            node.expand()

    def action_fold(self) -> None:
        """Fold the part under the cursor; from a folded one, go to its parent."""
        node = self.cursor_node
        if node is None:
            return
        if node.allow_expand and node.is_expanded:
            node.collapse()
        elif node.parent is not None and node.parent is not self.root:
            self.move_cursor(node.parent)

    def action_copy(self) -> None:
        """Copy the part under the cursor; for a line of a text, the whole text."""
        node = self.cursor_node
        if node is not None and node.data is not None and not node.data.key:
            node = node.parent
        if node is None or node.data is None:
            return
        self.post_message(Copied(copy_text(node.data)))

    def action_raw(self) -> None:
        if self.event_id is not None:
            self.post_message(self.RawWanted(self.event_id))


class EventScreen(Modal[None]):
    """One event in a dialog. The title is clean."""

    DEFAULT_CSS = """
    EventScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 130; height: 90%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
    }
    """
    BINDINGS = [Binding("escape,q", "leave", "Leave")]

    def __init__(self, title: str, event_id: int, event: dict[str, object]) -> None:
        super().__init__()
        self._title, self._event_id, self._event = title, event_id, event

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("Enter expands · c copies · r JSON · Esc closes")
            yield EventTree()

    def on_mount(self) -> None:
        self.query_one(EventTree).focus()
        self.call_after_refresh(self._fill)  # when its width is known

    def _fill(self) -> None:
        self.query_one(EventTree).show(self._event_id, self._event)

    def action_leave(self) -> None:
        self.dismiss()
