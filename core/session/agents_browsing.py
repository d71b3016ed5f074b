"""AgentsBrowsing: an executor whose steps in the browser and the user's never mix. Implements core.ports.Executor.

A step of the agent that runs when the user takes the browser over ends first; the user's steps wait for that, and are
told so. One that has not begun waits until the browser is given back; where the user has acted meanwhile, it is not
done at all, because it was decided on a page that is no more, and the agent is told to look. What a step showed is
answered once the browser is given back, so that the agent reads what the user did before it goes on.
"""

from __future__ import annotations

import asyncio

from core.events import Action, BrowseInteractiveAction, BrowseURLAction, ErrorObservation, Observation, Status
from core.live import Frames
from core.ports import Executor, FrameSink
from core.session.users_browser import UsersBrowser

ENDS_FIRST = "STATUS$BROWSER_STEP_ENDS"
WAITS = "STATUS$AGENT_WAITS_FOR_BROWSER"
NOT_DONE = (
    "This was not done: the user has acted in the browser since it was decided. What they did and how the page looks "
    "now stands above or follows. Decide again."
)


class AgentsBrowsing:
    """The agent's side of one conversation's browser."""

    def __init__(self, executor: Executor, users: UsersBrowser, frames: Frames) -> None:
        self._executor, self._users, self._frames = executor, users, frames
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        users.agent_is_done = self.done

    async def done(self) -> None:
        """Return when no step of the agent's is under way in the browser."""
        if not self._running:
            return
        self._frames.publish(Status("info", ENDS_FIRST, "The agent's step in the browser ends first …"))
        try:
            await self._idle.wait()
        finally:
            self._frames.publish(Status("info", ENDS_FIRST, ""))

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """As the executor, while the user does not have the browser. Raises RuntimeUnavailableError."""
        if not isinstance(action, BrowseURLAction | BrowseInteractiveAction):
            return await self._executor.execute(action, action_id, on_frame)
        await self.given_back()
        if isinstance(action, BrowseInteractiveAction) and action_id < self._users.acted_until:
            return ErrorObservation(content=NOT_DONE, error_id="AGENT_ERROR$USER_ACTED")
        self._running += 1
        self._idle.clear()
        try:
            observation = await self._executor.execute(action, action_id, on_frame)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()
        await self.given_back()
        return observation

    async def given_back(self) -> None:
        """Return when the user does not have the browser; while they have it, they are told that the agent waits."""
        if not self._users.is_on:
            return
        self._frames.publish(
            Status("info", WAITS, "The agent waits: you have the browser. Give it back, and it goes on.")
        )
        try:
            while self._users.is_on:
                await self._users.ended()
        finally:
            self._frames.publish(Status("info", WAITS, ""))
