"""The panes' content, cell by cell, of a live conversation and of its replay, for comparison."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from core.conversations.conversation_manager import ConversationManager
from core.events import Envelope, Frame, TerminalOutput
from core.settings.config import Settings
from core.stream import EventStreamSubscriber
from tests.tui.workspace.running_app import Running, draw_now, running, until
from tests.warm_servers import WarmRuntime
from tui.app import HandloomApp
from tui.cli.options import ReplayStart, StartOptions
from tui.replay.replay_start import replay_to
from tui.replay.replay_tab import ReplayTab
from tui.workspace.layout import PANES

WIDTH, HEIGHT = 160, 44
BAR_ROWS = 1
"""Rows that the transport bar needs more than an empty prompt."""

Cells = dict[str, list[list[tuple[str, str]]]]
"""For each pane its rows; of each row the texts with their styles."""


def drawn(app: HandloomApp) -> Cells:
    """What every pane shows, its border included; without the scrollbar, which tells how much of it is loaded."""
    rows = app.screen._compositor.render_strips()
    found: Cells = {}
    for name in PANES:
        pane = app.workspace.pane(name)
        if pane.display:
            x, y, width, height = pane.region
            width -= pane.scrollbar_size_vertical
            cut = [row.crop(x, x + width).simplify() for row in rows[y : y + height]]
            found[name] = [[(text, str(style)) for text, style, _control in row] for row in cut]
    return found


async def settle(it: Running) -> None:
    """Draw everything that needs drawing, whatever runs in the background.

    The chat draws nothing before it was laid out, which a busy machine may do late.
    """
    await until(it.pilot, lambda: it.app.workspace.chat.place is not None)
    before: Cells | None = None
    while (now := drawn(it.app)) != before:
        before = now
        for _round in range(3):
            await it.pilot.pause()
            draw_now(it.app)
        while it.app.workspace.sync():
            await it.pilot.pause()
        await it.pilot.pause()


async def as_it_was(lived: Sequence[Envelope | TerminalOutput], width: int = WIDTH) -> list[Cells]:
    """The panes of a live tab after each event, for events and bytes in this order.

    Tokens and notices are left out: they are replaced by their event, and are not stored.
    """
    seen: list[Cells] = []
    async with running((width, HEIGHT - BAR_ROWS)) as it:
        stream = it.session.stream
        for item in lived:
            if not isinstance(item, Envelope):
                it.session.frames.publish(item)
                continue
            stream.events.append(item)
            for take in tuple(stream._subscribers.values()):
                await take(item)
            await settle(it)
            seen.append(drawn(it.app))
    return seen


async def live(
    home: Path, workspace: Path, model: str, tasks: Sequence[str]
) -> tuple[str, list[Envelope | TerminalOutput]]:
    """Have a conversation with real tools. Returns its id, and its events and bytes in the order of arrival."""
    lived: list[Envelope | TerminalOutput] = []

    async def take(envelope: Envelope) -> None:
        lived.append(envelope)

    def take_frame(frame: Frame) -> None:
        if isinstance(frame, TerminalOutput):
            lived.append(frame)

    settings = Settings.model_validate({"agent": {"confirm": "never"}})
    async with ConversationManager(home, settings, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(workspace), model=model)
        lived += await session.stream.read()
        session.stream.subscribe(EventStreamSubscriber.TEST, take, "lived")
        session.frames.watch(take_frame)
        for task in tasks:
            await session.send(task)
            await session.settled()
        id = session.info.id
    return id, lived


@asynccontextmanager
async def replaying(
    home: Path, conversation_id: str, size: tuple[int, int] = (WIDTH, HEIGHT)
) -> AsyncIterator[Running]:
    """The app with only a replay, before its first event."""
    async with replay_app(home, conversation_id, size) as it:
        tab = replay(it)
        tab.playing = False
        replay_to(it.app, tab, -1)
        await until(it.pilot, lambda: tab.target is None)
        await settle(it)
        yield it


@asynccontextmanager
async def replay_app(home: Path, conversation_id: str, size: tuple[int, int]) -> AsyncIterator[Running]:
    """The app as `handloom replay` starts it."""
    from tests.tui.doubles import ManagerDouble
    from tests.tui.workspace.running_app import Clock

    async def connect() -> None:
        raise AssertionError("a replay connects to nothing")

    options = StartOptions(workspace="/work", replay=ReplayStart(conversation_id, home))
    clock = Clock()
    app = HandloomApp(connect, options, clock)  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        it = Running(app, pilot, ManagerDouble(), clock)
        await until(pilot, lambda: app.tabs.current is not None)
        yield it


def replay(it: Running) -> ReplayTab:
    """The replay that is shown."""
    assert isinstance(it.app.tabs.current, ReplayTab)
    return it.app.tabs.current


async def go(it: Running, target: int) -> Cells:
    """The panes after seeking to an event."""
    tab = replay(it)
    replay_to(it.app, tab, target)
    await until(it.pilot, lambda: tab.target is None)
    await settle(it)
    return drawn(it.app)
