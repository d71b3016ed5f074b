"""Field: one line to write in, as every screen of ours has it."""

from __future__ import annotations

from typing import Any

from textual.widgets import Input


class Field(Input):
    """Textual's Input without a blinking cursor, so that an idle screen paints nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cursor_blink = False
