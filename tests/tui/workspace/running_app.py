"""The app as the tests run it: the real one, on doubles, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from textual.pilot import Pilot

from core.settings.screen_settings import ScreenSettings
from tests.tui.doubles import ManagerDouble, SessionDouble
from tui.app import HandloomApp
from tui.chat.canvas import Canvas
from tui.cli.options import StartOptions

WITHIN_S = 60.0
"""Until something has to have happened: generous, because other tests may have the processors."""

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Running:
    """A running app and everything around it."""

    app: HandloomApp
    pilot: Pilot[None]
    manager: ManagerDouble
    clock: Clock

    @property
    def session(self) -> SessionDouble:
        """The session that is shown."""
        assert self.app.tabs.conversation is not None
        return cast(SessionDouble, self.app.tabs.conversation.session)

    @property
    def shows_the_workspace(self) -> bool:
        """Whether no dialog is up."""
        return self.app.screen is self.app.workspace

    @property
    def prompt_has_focus(self) -> bool:
        """Whether typed text goes into the prompt."""
        return self.app.focused is self.app.workspace.prompt

    async def press(self, *keys: str) -> None:
        """Press keys and let everything that follows happen."""
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is under way, then have the next frame drawn."""
        # A dialog's worker lives as long as the dialog, so only workers behind no dialog are waited for.
        await self.pilot.pause()
        if self.app.screen is self.app.workspace:
            await self._workers_done()
        await self.pilot.pause()
        draw_now(self.app)
        await self.pilot.pause()
        if self.app.screen is self.app.workspace:
            await self._workers_done()
        await self.pilot.pause()

    async def _workers_done(self) -> None:
        """Workers that end without help: a page is watched while its pane is visible."""
        if ending := [worker for worker in self.app.workers if worker.group != "page"]:
            await self.app.workers.wait_for_complete(ending)

    def screen_text(self) -> str:
        """The text of the screen."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in lines)


def draw_now(app: HandloomApp) -> None:
    """Draw the next frame, even if it is not due: a busy machine draws fewer frames."""
    app.frames.draw()
    for canvas in app.workspace.query(Canvas):
        if canvas._flush_wanted:
            canvas.flush()


@asynccontextmanager
async def running(
    size: tuple[int, int] = (120, 40), manager: ManagerDouble | None = None, **options: Any
) -> AsyncIterator[Running]:
    """Run the app until the first conversation (or the start screen) is there.

    Questions take keys at once; a test of the guard gives `screen=ScreenSettings()`.
    """
    manager = manager or ManagerDouble()
    unguarded = ScreenSettings(question_guard_ms=0)
    defaults: dict[str, Any] = {"workspace": "/work", "model": "demo", "screen": unguarded}
    clock = Clock()

    async def connect() -> ConversationManager:
        return cast("ConversationManager", manager)

    app = HandloomApp(connect, StartOptions(**(defaults | options)), clock)
    async with app.run_test(size=size) as pilot:
        started = Running(app, pilot, manager, clock)
        await until(pilot, lambda: app.manager is not None)
        await until(pilot, lambda: app.tabs.current is not None or app.screen is not app.workspace or _told(app))
        await started.settle()
        yield started
        if app.is_running:
            started.screen_text()  # so that every test has its last frame drawn


def _told(app: HandloomApp) -> bool:
    return app.workspace.notice.display


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the app work until something is so. Raises TimeoutError after WITHIN_S."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():
            await pilot.pause()
