"""A real app full of hostile text for a real terminal: `python -m tests.tui.terminal_io.hostile_app open|guarded`.

Draws everything, then ends. `open` leaves the choke point out, which shows that a harness that looks for
leaks would find them.
"""

from __future__ import annotations

import sys

from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.widgets import DataTable, Input, Label, Log, Static, Tab, Tabs, TextArea

from core.events import (
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    EventSource,
    FileEditAction,
    FileEditObservation,
    MessageAction,
    Status,
    TokenDelta,
)
from tests.tui.chat.events import envelope
from tui.chat.model import ChatModel
from tui.chat.view import ChatView
from tui.prompt.view import Prompt
from tui.terminal_io.strip_filter import install

PAYLOADS = (
    "\x1b]52;c;U0VDUkVU\x07",
    "\x1b]0;SECRET\x07",
    "\x1b]8;;http://SECRET\x1b\\",
    "\x1bPSECRET\x1b\\",
    "\x1b_SECRET\x1b\\",
    "\x1b[2JSECRET",
    "\x1b[?1049lSECRET",
    "\x1bcSECRET",
    "\x9b2JSECRET",
    "\x9d52;c;SECRET\x9c",
    "\u202eSECRET",
    "\u2066SECRET",
    "\x7fSECRET",
    "\x00SECRET",
    "\x1b[?2004lSECRET",
    "\x1b]52;c;SECRET",
    "\x1b^SECRET\x1b\\",
    "\x1b[6nSECRET",
    "\x90SECRET\x9c",
    "\r\x1b[2KSECRET",
    "\u200fSECRET\u2028",
)
HOSTILE = " ".join(PAYLOADS)


def hostile_conversation() -> ChatModel:
    """Every field that the transcript shows, with payloads in it."""
    model = ChatModel()
    events = (
        (MessageAction(content=HOSTILE), EventSource.USER, None),
        (
            CmdRunAction(command=HOSTILE, thought=f"# {HOSTILE}\n\n```py{HOSTILE}\n{HOSTILE}\n```"),
            EventSource.AGENT,
            None,
        ),
        (
            CmdOutputObservation(command="", content=HOSTILE, metadata=CmdOutputMetadata(exit_code=1)),
            EventSource.AGENT,
            1,
        ),
        (FileEditAction(path=HOSTILE), EventSource.AGENT, None),
        (FileEditObservation(path=HOSTILE, diff=f"@@\n+{HOSTILE}\n-{HOSTILE}"), EventSource.AGENT, 3),
        (ErrorObservation(content=f"{HOSTILE}\n{HOSTILE}"), EventSource.ENVIRONMENT, None),
    )
    for event_id, (event, source, cause) in enumerate(events):
        model.apply(envelope(event_id, event, source, cause))
    model.apply_frame(TokenDelta(5, f"[{HOSTILE}](http://x/{HOSTILE})\n\n{HOSTILE}"))
    model.apply_frame(Status("error", "STATUS$X", HOSTILE))
    return model


class HostileApp(App[None]):
    """One of each widget that shows text."""

    CSS = "ChatView { height: 60; } TextArea, DataTable, Log { height: 3; } Tabs { height: 2; }"

    def compose(self) -> ComposeResult:
        yield Static(HOSTILE, markup=False)
        yield Static(Text("link", Style(link=f"http://x/{HOSTILE}")))
        yield Label(Text(HOSTILE))
        yield TextArea(HOSTILE)
        yield Input(HOSTILE)
        yield Tabs(Tab(Text(HOSTILE)))
        yield Log()
        yield DataTable()
        yield ChatView()
        yield Prompt(placeholder=HOSTILE)

    def on_mount(self) -> None:
        self.query_one(Label).border_title = Text(HOSTILE).plain.replace("[", "\\[")
        self.query_one(Label).styles.border = ("round", "red")
        self.query_one(Log).write_line(HOSTILE)
        table = self.query_one(DataTable)
        table.add_column(Text(HOSTILE))
        table.add_row(Text(HOSTILE))
        self.query_one(ChatView).attach(hostile_conversation())
        self.notify(HOSTILE, markup=False, timeout=100)
        self.call_after_refresh(self.call_after_refresh, self.call_after_refresh, self._leave_when_drawn)

    def _leave_when_drawn(self) -> None:
        if self.screen.query("Toast"):
            self.call_after_refresh(self.exit)
        else:
            self.call_after_refresh(self._leave_when_drawn)


if __name__ == "__main__":
    if sys.argv[1] == "guarded":
        install()
    HostileApp().run()
