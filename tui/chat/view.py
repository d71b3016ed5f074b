"""The chat pane: scrolling, block cursor, folding, copying, mouse.

`canvas.Canvas` draws it, `chat_search.Finder` searches it. Posts what was copied and when older events are wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from textual.binding import Binding
from textual.geometry import Offset
from textual.message import Message
from textual.selection import Selection

from tui.chat.blocks import Kind
from tui.chat.chat_search import Finder
from tui.chat.overlays import word_at
from tui.chat.renderer import ROLES
from tui.chat.text_pieces import PieceKind, fence_of, fences
from tui.commands import BY_ID, keyed
from tui.i18n import _
from tui.workspace.line_view import Copied

if TYPE_CHECKING:
    from textual import events

    from tui.chat.blocks import Block
    from tui.chat.model import ChatModel

Where = Literal["line_up", "line_down", "page_up", "page_down", "home", "end"]
ACTIONS = {
    "chat.cursor_up": ("move_cursor(-1)", "list.up"),
    "chat.cursor_down": ("move_cursor(1)", "list.down"),
    "chat.fold": ("fold", "chat.fold", "list.open"),
    "chat.copy": ("copy_block", "chat.copy"),
    "chat.copy_code": ("copy_code", "chat.copy_code"),
    "chat.undo": ("undo", "chat.undo"),
    "chat.diff": ("toggle_sides", "chat.diff"),
    "chat.find_next": ("go_to_hit(1)", "list.find_next"),
    "chat.find_prev": ("go_to_hit(-1)", "list.find_prev"),
    "chat.page_up": ("go('page_up')", "list.page_up"),
    "chat.page_down": ("go('page_down')", "list.page_down"),
    "chat.home": ("go('home')", "list.home"),
    "chat.end": ("go('end')", "list.end"),
}
"""By the id of a binding: the action, and the commands whose keys it has."""


class ChatView(Finder):
    """Shows the attached model."""

    HELP = keyed(
        _(
            "The conversation. Arrow keys move between blocks, {chat.fold} expands one, "
            "{chat.copy} copies it, {chat.copy_code} copies its code, {chat.diff} shows "
            "diffs side by side, {find} searches."
        )
    )
    BORDER_TITLE = _("Chat")
    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chat--{role}" for role in ROLES}
    DEFAULT_CSS = """
    ChatView {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        scrollbar-background: $background;
        scrollbar-color: $foreground 20%;
        & > .chat--muted { color: $text-muted; }
        & > .chat--user { background: $secondary 15%; }
        & > .chat--bar { color: $secondary; background: $secondary 15%; }
        & > .chat--title { text-style: bold; }
        & > .chat--running { color: $text-accent; }
        & > .chat--awaiting { color: $text-warning; text-style: bold; }
        & > .chat--ok { color: $text-success; }
        & > .chat--failed { color: $text-error; }
        & > .chat--accent { color: $text-accent; }
        & > .chat--heading { color: $text-primary; text-style: bold; }
        & > .chat--code { background: $foreground 6%; }
        & > .chat--link { text-style: underline; }
        & > .chat--string { color: $text-success; }
        & > .chat--number { color: $text-secondary; }
        & > .chat--name { color: $text-primary; }
        & > .chat--added { color: $text-success; background: $success 10%; }
        & > .chat--removed { color: $text-error; background: $error 10%; }
        & > .chat--added-word { background: $success 32%; text-style: bold; }
        & > .chat--removed-word { background: $error 32%; text-style: bold; }
        & > .chat--hit { background: $warning 30%; text-style: underline; }
        & > .chat--hit-here { background: $warning; color: $background; text-style: bold underline; }
        & > .chat--output { color: $foreground 80%; }
        & > .chat--chip { color: $text-primary; background: $primary-muted; text-style: bold; }
        & > .chat--cursor { color: $accent; }
        /* The 16 colours of a terminal have no tints: sign, colour and weight must do. */
        &:ansi {
            & > .chat--user, & > .chat--bar, & > .chat--code, & > .chat--added, & > .chat--removed {
                background: ansi_default;
            }
            & > .chat--added-word, & > .chat--removed-word { background: ansi_default; text-style: bold underline; }
            & > .chat--hit { background: ansi_default; text-style: bold underline reverse; }
            & > .chat--hit-here { color: ansi_black; background: $warning; }
        }
    }
    """
    BINDINGS: ClassVar = [
        Binding(",".join(key for command in commands for key in BY_ID[command].keys), action, show=False, id=name)
        for name, (action, *commands) in ACTIONS.items()
    ]

    class UndoWanted(Message):
        """The user wants to undo from a message on."""

        def __init__(self, view: ChatView, event_id: int) -> None:
            super().__init__()
            self.view = view
            self.event_id = event_id

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._requested_before: int | None = None
        self._copied_code: tuple[Block, int] | None = None

    def attach(self, model: ChatModel | None) -> None:
        self._requested_before = None
        super().attach(model)

    def _scroll_to_row(self, row: int) -> None:
        """Scroll, and request the previous page when the reader is near the top."""
        super()._scroll_to_row(row)
        model = self._model
        if model is None or not model.first_id or model.first_id == self._requested_before:
            return
        if self.scroll_offset.y < self.size.height and not self.follows:
            self._requested_before = model.first_id
            self.post_message(self.OlderWanted(self))

    def action_go(self, where: Where) -> None:
        """Scroll; also called for keys of the prompt."""
        if self.place is None:
            return
        page = max(1, self.scrollable_content_region.height - 2)
        steps = {"line_up": -1, "line_down": 1, "page_up": -page, "page_down": page}
        total = self.place.column.heights.total
        self.go_to_row({"home": 0, "end": total}.get(where, self.scroll_offset.y + steps.get(where, 0)))

    def go_to_row(self, row: int) -> None:
        """Scroll to a row; one at or beyond the last screen follows the end."""
        self._scroll_to_row(row)
        self.refresh(self.size.region)

    def go_to_event(self, event_id: int) -> None:
        """Put the block cursor on the block that shows an event, unfolded; if none is loaded, on the block before."""
        if self.place is None:
            return
        block = self.place.column.model.reveal(event_id)
        self.flush()
        if block is not None:
            self._select(block)

    def action_move_cursor(self, step: Literal[-1, 1]) -> None:
        """Go to the next block; one that is longer than the screen is scrolled through first."""
        place = self.place
        if place is None or not place.column.model.blocks:
            return
        blocks = place.column.model.blocks
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if place.cursor is None:
            self._select(blocks[-1])
            return
        first, end = place.column.extent(place.cursor.serial)
        unread = top < end - height if step > 0 else first < top
        if end - first > height and first < top + height and top < end and unread:
            self.go_to_row(top + step * max(1, height // 2))
            return
        index = place.cursor.serial - place.column.base + step
        if 0 <= index < len(blocks):
            self._select(blocks[index])
        else:
            self.action_go("end" if step > 0 else "home")

    def _select(self, block: Block) -> None:
        assert self.place is not None
        column, self.place.cursor = self.place.column, block
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        column.anchor(column.extent(block.serial)[0])
        first, end = column.extent(block.serial)
        if first < top:
            self._scroll_to_row(first)
        elif end > top + height:
            self._scroll_to_row(min(first, end - height))
        self.refresh(self.size.region)

    def action_fold(self) -> None:
        """Fold or unfold the block under the cursor, which stays in place."""
        place = self.place
        if place is None or place.cursor is None or not place.cursor.can_fold:
            return
        if place.top is None and place.column.heights.total > self.scrollable_content_region.height:
            place.top = place.column.anchor(self.scroll_offset.y)
        place.column.model.toggle(place.cursor)

    def action_undo(self) -> None:
        if self.cursor is not None and self.cursor.kind is Kind.USER:
            self.post_message(self.UndoWanted(self, self.cursor.event_id))

    def action_go_to_hit(self, step: Literal[-1, 1]) -> None:
        self.go_to_hit(step)

    def action_toggle_sides(self) -> None:
        """Switch between diffs side by side and in one column; the row on top stays in place."""
        if self.renderer is None:
            return
        place = self.place
        if place is not None and place.top is None and place.cursor is not None:
            place.top = place.column.anchor(self.scroll_offset.y)
        self.side_by_side = not self.renderer.split
        self._restyle()

    def copy(self, text: str, note: str = "") -> None:
        self.post_message(Copied(text, note))

    def action_copy_block(self) -> None:
        if self.cursor is not None:
            self.copy(self.cursor.plain())

    def action_copy_code(self) -> None:
        """Copy the visible code of the block under the cursor; repeated, the next code of the block."""
        cursor = self.cursor
        if cursor is not None and cursor.kind is Kind.TOOL and cursor.text:
            self.copy(cursor.text, _("Copied the output without its title"))
            return
        found = self._visible_code()
        if found is None:
            self.post_message(Copied("", _("This block contains no code.")))
            return
        block, nth = found
        codes = fences(block.text)
        if self._copied_code is not None and self._copied_code[0] is block:
            nth = self._copied_code[1] + 1
        nth %= len(codes)
        self._copied_code = (block, nth)
        again = keyed(
            _("Copied code {number} of {all}; {chat.copy_code} copies the next one"), number=nth + 1, all=len(codes)
        )
        self.copy(codes[nth], again if len(codes) > 1 else _("Copied the code"))

    def _visible_code(self) -> tuple[Block, int] | None:
        """Return the block under the cursor and its first visible code; without a cursor, the lowest visible code."""
        place = self.place
        if place is None:
            return None
        column, top = place.column, self.scroll_offset.y
        found: tuple[Block, int] | None = None
        for row in range(top, top + self.scrollable_content_region.height):
            shown = column.strip(row)
            if shown is None or shown.piece.kind is not PieceKind.CODE:
                continue
            block = column.block(shown.serial - column.base)
            if place.cursor in (None, block):
                found = block, fence_of(column.pieces(shown.serial), shown.number)
                if place.cursor is not None:
                    return found
        if found is None and place.cursor is not None and fences(place.cursor.text):
            return place.cursor, 0
        return found

    def on_click(self, event: events.Click) -> None:
        """Put the block cursor there, and unfold the block on its line of hidden lines.

        Repeated, fold or unfold the block on its title, or select the word, then the line.
        """
        event.prevent_default()  # Textual would select the whole transcript
        place = self.place
        if place is None:
            return
        offset = event.get_content_offset(self) or Offset(0, 0)
        if self.unseen and offset.y == self.scrollable_content_region.height - 1:
            self.action_go("end")
            return
        row = self.scroll_offset.y + offset.y
        found = place.column.strip(row)
        if found is None or not 0 <= (index := found.serial - place.column.base) < len(place.column.model.blocks):
            return
        block = place.column.model.blocks[index]
        if found.piece.kind is PieceKind.HIDDEN or (block is place.cursor and found.number == 0 and block.can_fold):
            place.cursor = block
            self.action_fold()
        elif event.chain > 1:
            at = len(found.strip.crop(0, offset.x).text)
            start, end = word_at(found.strip, at) if event.chain == 2 else (0, len(found.strip.text))
            self.screen.selections = {self: Selection(Offset(start, row), Offset(end, row))}
        place.cursor = block
        self.refresh(self.size.region)
