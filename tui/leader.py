"""The leader: after ctrl+x the next key is a command's second key. A strip names them to whoever hesitates."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tui.commands import leader_commands

STRIP_AFTER_S = 0.3
"""Who knows the second key has typed it by then, and sees no strip."""
TIMEOUT_S = 2.0


class WhichKey(Static):
    """The keys that may follow the leader."""

    DEFAULT_CSS = """
    WhichKey {
        display: none; layer: above; dock: bottom; height: auto; padding: 0 1; margin-bottom: 2;
        background: $panel; color: $foreground; border-top: solid $accent;
    }
    """

    def reveal(self) -> None:
        """Show the strip, in as many columns as fit."""
        cells = [(command.leader, command.title) for command in leader_commands()]
        size = max(len(key) + len(title) for key, title in cells) + 4
        columns = max(1, (self.screen.size.width - 2) // size)
        parts: list[tuple[str, str]] = []
        for number, (key, title) in enumerate(cells):
            end = "\n" if (number + 1) % columns == 0 and number + 1 < len(cells) else ""
            parts += [(key, "bold $text-accent"), (" " + title.ljust(size - len(key) - 1) + end, "")]
        self.update(Content.assemble(*parts))
        self.display = True

    def hide(self) -> None:
        """Take the strip away."""
        self.display = False
