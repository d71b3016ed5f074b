"""ChatView: the transcript as a pane that the reader moves in: scrolling, block cursor, folding, copying.

How it is drawn is `canvas.Canvas`, how it is searched `finder.Finder`. Posts what was copied and that older events
are wanted; carries out nothing else outside itself.
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
from tui.chat.styles import CHAT_CSS, ROLES
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
    "chat.cursor_up": ("cursor_up", "list.up"),
    "chat.cursor_down": ("cursor_down", "list.down"),
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
"""By the id of a binding: what is done, and the commands whose keys do it."""


class ChatView(Finder):
    """The transcript of the attached model."""

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
    DEFAULT_CSS = CHAT_CSS
    BINDINGS: ClassVar = [
        Binding(",".join(key for command in commands for key in BY_ID[command].keys), action, show=False, id=name)
        for name, (action, *commands) in ACTIONS.items()
    ]

    class UndoWanted(Message):
        """The user wants to go back to before a message."""

        def __init__(self, view: ChatView, event_id: int) -> None:
            super().__init__()
            self.view = view
            self.event_id = event_id

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._asked_before: int | None = None
        self._copied_code: tuple[Block, int] | None = None

    def attach(self, model: ChatModel | None) -> None:
        self._asked_before = None
        super().attach(model)

    def held(self) -> None:
        """Ask for the page before once the reader is near the top."""
        model = self._model
        if model is None or not model.first_id or model.first_id == self._asked_before:
            return
        if self.scroll_offset.y < self.size.height and not self.follows:
            self._asked_before = model.first_id
            self.post_message(self.OlderWanted(self))

    # Moving
    def action_go(self, where: Where) -> None:
        self.go(where)

    def go(self, where: Where) -> None:
        """Scroll, as the prompt does for its user too."""
        place = self.place
        if place is None:
            return
        page = max(1, self.scrollable_content_region.height - 2)
        row = self.scroll_offset.y
        match where:
            case "line_up":
                self.go_to_row(row - 1)
            case "line_down":
                self.go_to_row(row + 1)
            case "page_up":
                self.go_to_row(row - page)
            case "page_down":
                self.go_to_row(row + page)
            case "home":
                self.go_to_row(0)
            case "end":
                self.go_to_row(place.column.heights.total)

    def go_to_row(self, row: int) -> None:
        """Have a row on top; one at or beyond the last screen means to follow the end."""
        self._hold(row)
        self.refresh(self.size.region)

    def go_to_event(self, event_id: int) -> None:
        """Put the block cursor on the block that shows an event, open, or on the one before it, as far as is loaded."""
        if self.place is None:
            return
        block = self.place.column.model.reveal(event_id)
        self.flush()
        if block is not None:
            self._select(block)

    def action_cursor_up(self) -> None:
        self._move_cursor(-1)

    def action_cursor_down(self) -> None:
        self._move_cursor(1)

    def _move_cursor(self, step: Literal[-1, 1]) -> None:
        """Go to the next block; a block that is longer than the screen is read through first."""
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
            self.go("end" if step > 0 else "home")

    def _select(self, block: Block) -> None:
        """Put the block cursor on a block and bring it into sight."""
        assert self.place is not None
        column, self.place.cursor = self.place.column, block
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        column.anchor(column.extent(block.serial)[0])
        first, end = column.extent(block.serial)
        if first < top:
            self._hold(first)
        elif end > top + height:
            self._hold(min(first, end - height))
        self.refresh(self.size.region)

    def action_fold(self) -> None:
        """Fold or unfold the block under the cursor, which stays where it is."""
        place = self.place
        if place is None or place.cursor is None or not place.cursor.can_fold:
            return
        if place.top is None and place.column.heights.total > self.scrollable_content_region.height:
            place.top = place.column.anchor(self.scroll_offset.y)
        place.column.model.toggle(place.cursor)

    def action_undo(self) -> None:
        """Ask for an undo from the user's message under the cursor on."""
        if self.cursor is not None and self.cursor.kind is Kind.USER:
            self.post_message(self.UndoWanted(self, self.cursor.event_id))

    def action_go_to_hit(self, step: Literal[-1, 1]) -> None:
        self.go_to_hit(step)

    def action_toggle_sides(self) -> None:
        """Show differences side by side, or in one column again; the row on top stays there."""
        if self.renderer is None:
            return
        place = self.place
        if place is not None and place.top is None and place.cursor is not None:
            place.top = place.column.anchor(self.scroll_offset.y)
        self.side_by_side = not self.renderer.split
        self._restyle()

    # Copying

    def copy(self, text: str, said: str = "") -> None:
        """Copy this and tell of it."""
        self.post_message(Copied(text, said))

    def action_copy_block(self) -> None:
        if self.cursor is not None:
            self.copy(self.cursor.plain())

    def action_copy_code(self) -> None:
        """Copy the code of the block under the cursor that is in sight; again, the next one of the block."""
        cursor = self.cursor
        if cursor is not None and cursor.kind is Kind.TOOL and cursor.text:
            self.copy(cursor.text, _("Copied the output without its title"))
            return
        found = self._code_in_sight()
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

    def _code_in_sight(self) -> tuple[Block, int] | None:
        """The block under the cursor and its first code in sight; without a cursor, the lowest code in sight."""
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

    # The mouse

    def on_click(self, event: events.Click) -> None:
        """Put the block cursor there; again, unfold what is folded, or select: a word, then the line."""
        event.prevent_default()  # Textual would select the whole transcript
        place = self.place
        if place is None:
            return
        offset = event.get_content_offset(self) or Offset(0, 0)
        if self.unseen and offset.y == self.scrollable_content_region.height - 1:
            self.go("end")
            return
        row = self.scroll_offset.y + offset.y
        found = place.column.strip(row)
        if found is None or not 0 <= (index := found.serial - place.column.base) < len(place.column.model.blocks):
            return
        block = place.column.model.blocks[index]
        if block is place.cursor and found.number == 0 and block.can_fold:
            self.action_fold()
        elif event.chain > 1:
            at = len(found.strip.crop(0, offset.x).text)
            start, end = word_at(found.strip, at) if event.chain == 2 else (0, len(found.strip.text))
            self.screen.selections = {self: Selection(Offset(start, row), Offset(end, row))}
        place.cursor = block
        self.refresh(self.size.region)
