"""The whole workspace on a real terminal, full of hostile text: `python -m tests.tui.terminal_io.hostile_workspace
live|page`.

Every event of `hostile_events`, live or read as a page of the log, and hostile titles, models, files and messages; then
every screen of the tour, drawn to the end. Ends by itself.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from core.events import AgentStateChangedObservation, EventSource, PageShown, Status, TerminalOutput, TokenDelta
from core.sandbox_types import Job
from core.stream import Frames
from tests.tui.doubles import ManagerDouble, OfferDouble, SessionDouble
from tests.tui.terminal_io.hostile_app import HOSTILE
from tests.tui.terminal_io.hostile_events import hostile_events
from tests.tui.workspace.screen_tour import tour
from tui.app import HandloomApp
from tui.cli.options import StartOptions
from tui.events.commands import show_event

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager

MANY_MARKS = "z" + "\u0335" * 400 + "\u0e33"
TEXT = f"{HOSTILE} \ud800\udfff {MANY_MARKS} [red]SECRET[/] [@click=app.quit]SECRET[/]"
STORED = TEXT.encode("utf-8", "replace").decode()
"""As the log can have it: it takes no lone surrogates."""


class HostileWorkspace(HandloomApp):
    """Shows everything, then ends."""

    def __init__(self, how: str) -> None:
        self.manager_double = ManagerDouble()
        self.manager_double.models = [OfferDouble(TEXT, TEXT), OfferDouble("demo", TEXT)]
        self.session = self.manager_double.add(title=TEXT, model=TEXT)
        self.how = how

        async def connect() -> ConversationManager:
            return cast("ConversationManager", self.manager_double)

        super().__init__(connect, StartOptions(workspace="/work", model="demo", resume=self.session.info.id))

    def begin(self, problems: list[str]) -> None:
        """Fill the log first, where it is to be read as a page."""
        if self.how == "page":
            for event in hostile_events(STORED):
                self.session.stream.store(event, *_whose(event, self.session))
        super().begin(problems)
        self.run_worker(self._show_everything())

    async def settle(self) -> None:
        """Wait until what changed is on the terminal."""
        for _ in range(2):
            drawn = asyncio.Event()
            self.call_after_refresh(drawn.set)
            await drawn.wait()

    async def _show_everything(self) -> None:
        while self.tabs.current is None:
            await self.settle()
        session = self.session
        if self.how == "live":
            for event in hostile_events(STORED):
                await session.stream.append(event, *_whose(event, session))
                await self.settle()
        _frames(session.frames, session.stream.latest_id)
        session.running = [Job(pid=1, command=TEXT, state=TEXT, started_at=0.0, cpu_s=0.0, foreground=False)]
        session.left, session.why_open = [TEXT], TEXT
        await session.become(reason=TEXT)
        await session.queue(HOSTILE)  # goes back into the prompt unchanged: there only the strip filter sanitises it
        session.info = replace(session.info, workspace=TEXT)
        await self._whole_chat()
        if self.how == "live":
            async for _ in tour(self, session, self.settle):
                pass
            await self._some_in_full()
        self.exit()

    async def _whole_chat(self) -> None:
        chat = self.workspace.chat
        await self.do("detail.toggle")
        await self.settle()
        while chat.scroll_offset.y > 0:
            chat.action_go("page_up")
            await self.settle()

    async def _some_in_full(self) -> None:
        tab = self.tabs.current
        assert tab is not None
        for event in self.session.stream.events[::10]:  # all of them look alike: they are JSON
            await show_event(self, tab, event.id)
            await self.settle()
            self.pop_screen()


def _whose(event: object, session: SessionDouble) -> tuple[EventSource, int | None]:
    source = EventSource.ENVIRONMENT if isinstance(event, AgentStateChangedObservation) else EventSource.AGENT
    return source, max(0, session.stream.latest_id)


def _frames(frames: Frames, cause: int) -> None:
    """Every kind of live frame."""
    frames.publish(TokenDelta(cause, STORED))
    frames.publish(TokenDelta(cause, STORED, "reasoning"))
    frames.publish(TerminalOutput(cause, TEXT.encode("utf-8", "surrogatepass")))
    frames.publish(Status("error", TEXT, TEXT))
    frames.publish(PageShown(cause, TEXT, TEXT, b"SECRET", 1, 1))


if __name__ == "__main__":
    HostileWorkspace(sys.argv[1]).run()
