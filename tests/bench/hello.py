"""The least that a Textual program can be: a line of text and an input. The limit of our first frame and our keys."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Input, Static

MARKER = "Hello from Textual"


class Hello(App[None]):
    def compose(self) -> ComposeResult:
        yield Static(MARKER)
        yield Input()


if __name__ == "__main__":
    Hello().run()
