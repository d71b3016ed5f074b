"""A small app around the transcript, and its visible state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip

from core.events import CmdOutputMetadata, CmdOutputObservation, CmdRunAction, EventSource, MessageAction
from tests.tui.chat.events import envelope
from tui.chat.model import ChatModel
from tui.chat.view import ChatView
from tui.workspace.line_view import Copied


class CountingView(ChatView):
    """Counts the lines that it draws."""

    drawn = 0

    def render_line(self, y: int) -> Strip:
        self.drawn += 1
        return super().render_line(y)


class ChatApp(App[None]):
    """The transcript and nothing else; keeps the messages that it posts."""

    def __init__(self, model: ChatModel | None = None) -> None:
        super().__init__()
        self.model = model
        self.messages: list[Message] = []
        self.view = CountingView()

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.attach(self.model)

    def on_chat_view_older_wanted(self, message: ChatView.OlderWanted) -> None:
        self.messages.append(message)

    def on_copied(self, message: Copied) -> None:
        self.messages.append(message)
        self.copy_to_clipboard(message.text)


@asynccontextmanager
async def showing(
    model: ChatModel | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ChatApp, Pilot[None]]]:
    app = ChatApp(model)
    async with app.run_test(size=size) as pilot:
        yield app, pilot


async def settled(pilot: Pilot[None], view: ChatView) -> None:
    """Wait until the model's text is on the screen."""
    await pilot.pause()
    while not view.is_current:
        await pilot.pause()
    await pilot.pause()


def rows(view: ChatView) -> list[str]:
    """The lines in sight, without the blanks at their ends."""
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def say(model: ChatModel, event_id: int, text: str, source: EventSource = EventSource.AGENT) -> None:
    """The next message."""
    model.apply(envelope(event_id, MessageAction(content=text), source))


def dialogue(count: int, first: int = 0) -> ChatModel:
    """A conversation of so many messages of one to five lines."""
    model = ChatModel()
    for i in range(first, first + count):
        source = EventSource.USER if i % 2 else EventSource.AGENT
        say(model, i, "\n\n".join(f"message {i} line {line}" for line in range(i % 5 + 1)), source)
    return model


def with_output(lines: int) -> ChatModel:
    """Four messages and a command that printed so many lines."""
    model = dialogue(4)
    model.apply(envelope(4, CmdRunAction(command="make")))
    output = CmdOutputObservation(
        command="make",
        content="\n".join(f"output {i}" for i in range(lines)),
        metadata=CmdOutputMetadata(exit_code=0),
    )
    model.apply(envelope(5, output, EventSource.AGENT, 4))
    return model
