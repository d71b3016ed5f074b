"""The leader: after ctrl+x the next key is a command's second key. A strip lists these keys after a moment.

The strip stays until a key or a click. It has the groups of the table in as many columns as fit; Space shows the next
page. `pages` is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widgets import Static

from tui.commands import BY_ID, COMMANDS, Command, by_group, by_leader
from tui.i18n import _
from tui.shortcuts.command import keyed

if TYPE_CHECKING:
    from textual import events
    from textual.timer import Timer

    from tui.workspace.context import Context

STRIP_AFTER_S = 0.3
"""A user who knows the second key has typed it by then."""
MORE = ("space", "pagedown")
"""The keys that show the next page."""
LABEL_FROM = 70
"""Cells from which the name of a group is beside its keys instead of above them."""
LABEL_CELLS = 15
Line = list[tuple[str, str]]


class WhichKey(Static):
    """The keys that may follow the leader."""

    DEFAULT_CSS = """
    WhichKey {
        display: none; layer: above; dock: bottom; height: auto; padding: 0 1; margin-bottom: 2;
        background: $panel; color: $foreground; border-top: solid $accent;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._page = 0

    def reveal(self) -> None:
        self._page = 0
        self._show()

    def turn(self) -> None:
        """Show the next page; after the last one, the first."""
        self._page += 1
        self._show()

    def fit(self) -> None:
        """Lay the keys out again, in a window of another size."""
        if self.display:
            self._show()

    def _show(self) -> None:
        size = self.screen.size
        commands = [command for command in COMMANDS if command.leader]
        shown = pages(commands, max(8, size.width - 2), max(1, size.height - 4))
        self.update(shown[self._page % len(shown)])
        self.display = True

    def hide(self) -> None:
        self.display = False


class Leader:
    """Waits for the key that follows the leader, and carries out its command."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self.is_armed = False
        self._reveal_timer: Timer | None = None

    def press(self) -> None:
        """Wait for a second key. With a selection in the prompt, ctrl+x cuts it instead."""
        workspace = self._app.workspace
        prompt = workspace.prompt
        if workspace.last_key().key == "ctrl+x" and workspace.focused is prompt and not prompt.selection.is_empty:
            prompt.action_cut_selection()
        else:
            self.arm()

    def arm(self) -> None:
        """Wait for a second key, and show the strip if none is pressed at once."""
        self.disarm()
        self.is_armed = True
        self._reveal_timer = self._app.workspace.which_key.set_timer(STRIP_AFTER_S, self._reveal)

    def _reveal(self) -> None:
        if self.is_armed:  # a stopped timer may still call
            self._app.workspace.which_key.reveal()

    def disarm(self) -> None:
        """Stop waiting for a second key."""
        self.is_armed = False
        if self._reveal_timer is not None:
            self._reveal_timer.stop()
            self._reveal_timer = None
        self._app.workspace.which_key.hide()

    async def take(self, event: events.Key) -> None:
        """Carry out the command of the second key, or show the next page of the strip."""
        if event.key in MORE and self._app.workspace.which_key.display:
            self._app.workspace.which_key.turn()
            return
        self.disarm()
        found = by_leader(event.character or event.key)
        if found is not None:
            await self._app.do(found[0].id, found[1])
        elif event.key not in ("escape", *BY_ID["app.leader"].keys):
            text = _("{app.leader} {key} is not a command; {app.help} shows every key.")
            self._app.flash(keyed(text, key=event.character or event.key))


def pages(commands: Sequence[Command], width: int, height: int) -> list[Content]:
    """The keys in pages of at most `width` by `height` cells, at least one."""
    lines = list(_lines(commands, width))
    if len(lines) <= height:
        return [_joined(lines)]
    rows = max(1, height - 1)
    parts = [lines[start : start + rows] for start in range(0, len(lines), rows)]
    if height == 1:
        return [_joined(part) for part in parts]
    found = []
    for number, part in enumerate(parts, 1):
        more = _("Space: more ({page} of {pages})").format(page=number, pages=len(parts))
        if cell_len(more) > width:
            more = set_cell_size(more, width)
        found.append(_joined([*part, [(more, "$text-muted")]]))
    return found


def _lines(commands: Sequence[Command], width: int) -> Iterable[Line]:
    """Group after group, in aligned columns."""
    beside = width >= LABEL_FROM
    left = LABEL_CELLS if beside else 0
    cell = min(width, max(cell_len(f"{command.leader} {command.title}") for command in commands) + 2)
    columns = max(1, (width - left) // cell)
    for group, members in by_group(commands):
        if not beside and width >= 2 * cell:
            yield [(group, "$text-muted")]
        for start in range(0, len(members), columns):
            line: Line = [(set_cell_size(group if start == 0 else "", left), "$text-muted")] if beside else []
            for command in members[start : start + columns]:
                room = cell - cell_len(command.leader) - 1
                title = set_cell_size(set_cell_size(command.title, room - 1), room)
                line += [(command.leader, "bold $text-accent"), (f" {title}", "")]
            yield line


def _joined(lines: Sequence[Line]) -> Content:
    return Content("\n").join(Content.assemble(*line) for line in lines)
