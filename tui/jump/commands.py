"""Jump mode: letters over everything that can have the focus, and over every tab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Offset
from textual.widgets import Static

from tui.browser.page_elements import labels
from tui.dialogs.modal import Modal
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.workspace.layout import PANES

if TYPE_CHECKING:
    from tui.workspace.context import Context


class JumpScreen(Modal[int | None]):
    """Letters over places, which do not hide the workspace.

    Answers with the number of the place; None for Esc and every key that is no letter of a place.
    """

    DEFAULT_CSS = """
    JumpScreen {
        background: $background 35%; layers: base letters;
        .letter {
            layer: letters; position: absolute; width: auto; height: 1; padding: 0 1;
            background: $accent; color: $background; text-style: bold;
        }
        .jump-hint { layer: letters; dock: bottom; height: 1; padding: 0 1; background: $panel; color: $text-muted; }
    }
    """
    AUTO_FOCUS = ""

    def __init__(self, places: Sequence[Offset]) -> None:
        super().__init__()
        self._places = places
        self._labels = labels(len(places))
        self._typed = ""

    def compose(self) -> ComposeResult:
        for label, place in zip(self._labels, self._places, strict=True):
            letter = Static(Content(label.upper()), classes="letter")
            letter.styles.offset = place
            yield letter
        yield Static(Content(_("Type a letter to go there. Esc cancels.")), classes="jump-hint")

    def on_key(self, event: events.Key) -> None:
        """Take a letter of a label; anything else leaves."""
        event.stop()
        self._typed += (event.character or "").casefold() if event.key != "escape" else ""
        if self._typed in self._labels:
            self.dismiss(self._labels.index(self._typed))
        elif not self._typed or not any(label.startswith(self._typed) for label in self._labels):
            self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """Go to the clicked letter; a click elsewhere leaves."""
        event.stop()
        letters = list(self.query(".letter"))
        hit, _region = self.get_widget_at(event.screen_x, event.screen_y)
        self.dismiss(letters.index(hit) if hit in letters else None)

    def on_resize(self, event: events.Resize) -> None:
        """Leave, because the places have moved."""
        if self.is_attached and event.size != self.app.workspace.size:  # type: ignore[attr-defined]
            self.dismiss(None)


def jump(app: Context) -> None:
    """Show the letters, and go to the place whose letter the user types."""
    targets = _targets(app)

    def chosen(number: int | None) -> None:
        if number is not None:
            targets[number][1]()

    app.push_screen(JumpScreen([offset for offset, _go in targets]), chosen)


def _targets(app: Context) -> list[tuple[Offset, Callable[[], object]]]:
    """Return the places on the screen, each with the function that goes there."""
    workspace, tabs = app.workspace, app.tabs
    targets: list[tuple[Offset, Callable[[], object]]] = []
    for x, target in workspace.tabs.places():
        kind, _colon, name = target.partition(":")
        if kind == "pane":
            targets.append((Offset(x, 0), partial(workspace.show_pane, name)))
        elif kind == "tab":
            targets.append((Offset(x, 0), partial(tabs.show, tabs.all[int(name)])))
    for widget in workspace.focus_chain:
        region = widget.region.intersection(workspace.region)
        if region:
            go = partial(workspace.show_pane, widget.id) if widget.id in PANES else widget.focus
            targets.append((region.offset, go))
    return targets


ROWS = (
    Command("app.jump", (), "Jump", "Show a letter on everything that can be focused; type one to go there.",
            Group.WORKSPACE, leader="g", slash="jump", run=jump),
)  # fmt: skip
