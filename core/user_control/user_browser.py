"""The user controls the agent's browser, acts on the page, and gives it back; the agent waits.

Invariants: what the user does is in the log as actions of the user, each stored before it begins and answered by one
observation, however it ends; one at a time, in order, through the same runtime and so under the same rules as the
agent's. No action of the agent begins meanwhile. Hidden text is in no event: the action has HIDDEN in its context, only
the sandbox gets the text, and the observation is redacted. When the browser is given back, the page is read once more,
so that the agent sees it as the user left it.

An action of the agent that runs when the user takes over ends first, and the user's wait for it. One that has not begun
waits until the browser is given back. If the user has acted meanwhile it is refused, because it was decided on a page
that no longer exists. Its observation is stored after the browser is given back, so that the agent reads what the user
did before it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote, quote_plus

from core.errors import UsageError
from core.events import (
    Action,
    BrowseInteractiveAction,
    Envelope,
    ErrorObservation,
    Observation,
    Status,
)
from core.protocols import Runtime
from core.secrets import MIN_LENGTH, Redactor
from core.stream import redacted
from core.user_control.user_actions import UserAction, UserActionContext

TAKEN = "The user took over the browser."
INTERRUPTED = "The browser was interrupted while the user acted."
LOOK = "noop(1)"
"""A browser function that changes nothing: only the page that is read after it matters."""
MAX_WAITING = 20
"""Actions of the user that may be waiting for the one before them."""
ENDS_FIRST = "STATUS$BROWSER_STEP_ENDS"
WAITS = "STATUS$AGENT_WAITS_FOR_BROWSER"
NOT_DONE = (
    "This was not done: the user has acted in the browser since it was decided. Their actions and the current page are "
    "above or follow. Decide again."
)


class UserBrowser:
    """Whether the user or the agent controls the browser of one conversation."""

    def __init__(self, runtime: Runtime, context: UserActionContext) -> None:
        self._runtime = runtime
        self._context = context
        self._free = asyncio.Event()
        self._free.set()
        self._lock = asyncio.Lock()
        self._steps: set[asyncio.Task[None]] = set()
        self._hidden: list[str] = []
        self._has_acted = self._is_returning = False
        self.last_return_id = -1
        """The id of the action with which the user last gave the browser back after acting in it; -1 before."""
        self._agent_steps = 0
        self._agent_idle = asyncio.Event()
        self._agent_idle.set()

    @property
    def is_on(self) -> bool:
        """Whether the user has the browser."""
        return not self._free.is_set()

    async def begin(self) -> Envelope:
        """Let the user have the browser until `give_back`. The agent waits. It is stored when this returns.

        Raises StoreError, as `Suspension.awake`, and UsageError if the user has it already.
        """
        async with self._context.awake():
            return await self._begin()

    async def _begin(self) -> Envelope:
        if self.is_on:
            raise UsageError("You already control the browser. Give it back first.")
        self._free.clear()
        self._has_acted = self._is_returning = False
        try:
            return await self._begin_step(BrowseInteractiveAction(browser_actions=LOOK, thought=TAKEN, by_user=True))
        except BaseException:
            self._release()
            raise

    async def do(self, calls: str, hidden: str = "") -> Envelope:
        """Carry out browser functions, one a line; HIDDEN in them stands for `hidden`. Stored when this returns.

        Raises UsageError if the user does not control the browser or is too far ahead of it, StoreError.
        """
        if not self.is_on or self._is_returning:
            raise UsageError("The agent controls the browser. Take it over first.")
        if len(self._steps) >= MAX_WAITING:
            raise UsageError("The page is still busy. Wait until it has finished.")
        self._has_acted = True
        if hidden:
            self._hidden.append(hidden)
        return await self._begin_step(BrowseInteractiveAction(browser_actions=calls, by_user=True), hidden)

    async def give_back(self) -> None:
        """Let the agent go on after the page was read once more. Does nothing if the agent has the browser."""
        if not self.is_on or self._is_returning:
            return
        self._is_returning = True
        try:
            # a user who did nothing leaves nothing to read
            thought, by_user = BrowseInteractiveAction.GIVEN_BACK, not self._has_acted
            step = await self._begin_step(
                BrowseInteractiveAction(browser_actions=LOOK, thought=thought, by_user=by_user)
            )
            self.last_return_id = step.id if self._has_acted else self.last_return_id
            await self.settled()
        finally:
            self._release()

    async def settled(self) -> None:
        """Return when no action of the user is running; their observations are stored by then."""
        while self._steps:
            await asyncio.wait(self._steps)

    def interrupt(self) -> None:
        """End the running actions, which still get their observations; the agent has the browser again."""
        for step in self._steps:
            step.cancel()
        self._release()

    # -- the agent's actions in the browser --------------------------------------------------------------------------

    async def agent_step(
        self, action: Action, action_id: int, carry_out: Callable[[], Awaitable[Observation]]
    ) -> Observation:
        """Carry out an action of the agent while the user does not control the browser."""
        await self.wait_for_return()
        if isinstance(action, BrowseInteractiveAction) and action_id < self.last_return_id:
            return ErrorObservation(content=NOT_DONE, error_id="AGENT_ERROR$USER_ACTED")
        self._agent_steps += 1
        self._agent_idle.clear()
        try:
            observation = await carry_out()
        finally:
            self._agent_steps -= 1
            if not self._agent_steps:
                self._agent_idle.set()
        await self.wait_for_return()
        return observation

    async def _wait_for_agent(self) -> None:
        """Return when no action of the agent is running in the browser; the user sees that it is waited for."""
        if not self._agent_steps:
            return
        with self._notice(ENDS_FIRST, "The agent's step in the browser ends first …"):
            await self._agent_idle.wait()

    async def wait_for_return(self) -> None:
        """Return when the user does not control the browser; while they do, they see that the agent waits."""
        if not self.is_on:
            return
        with self._notice(WAITS, "The agent is waiting because you control the browser. Give it back to continue."):
            while self.is_on:
                await self._free.wait()

    @contextmanager
    def _notice(self, status: str, text: str) -> Iterator[None]:
        self._context.frames.publish(Status("info", status, text))
        try:
            yield
        finally:
            self._context.frames.publish(Status("info", status, ""))

    def _release(self) -> None:
        self._hidden.clear()
        self._free.set()

    async def _begin_step(self, action: BrowseInteractiveAction, hidden: str = "") -> Envelope:
        redactor, whole = _redactor(self._hidden), action.model_copy(update={"hidden_text": hidden})

        async def carry_out(action_id: int) -> Observation:
            async with self._lock:
                await self._wait_for_agent()
                await self._context.ready()
                observation = await self._runtime.execute(whole, action_id, self._context.frames.publish)
            observed = redacted(observation, redactor) if redactor else observation
            assert isinstance(observed, Observation)
            return observed

        envelope, step = await UserAction(action, carry_out, _cut_short, with_details=False).begin(self._context)
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)
        return envelope


def _cut_short() -> Observation:
    return ErrorObservation(content=INTERRUPTED, error_id="AGENT_ERROR$INTERRUPTED")


def _redactor(hidden: list[str]) -> Redactor:
    """Finds hidden texts wherever a page repeats them, also in its address; short ones are ordinary words."""
    return Redactor(
        form for text in hidden if len(text) >= MIN_LENGTH for form in (text, quote(text), quote_plus(text))
    )
