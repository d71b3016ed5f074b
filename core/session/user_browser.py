"""UsersBrowser: the user takes the agent's browser over, acts on the page, and gives it back; the agent waits.

Invariants: what the user does stands in the log as actions of the user, each stored before it begins and answered by
one observation, whatever ends it; one at a time, in order, through the same runtime and so under the same rules as
what the agent does. No action of the agent begins meanwhile. A text that is hidden is in no event: the action says
HIDDEN for it, the sandbox alone is told it, and what comes back is masked. What is given back is looked at once more,
so that the agent reads the page as the user leaves it. Used by AgentSession.

AgentsBrowsing: an executor whose steps in the browser and the user's never mix. Implements core.protocols.Executor.

A step of the agent that runs when the user takes the browser over ends first; the user's steps wait for that, and are
told so. One that has not begun waits until the browser is given back; where the user has acted meanwhile, it is not
done at all, because it was decided on a page that is no more, and the agent is told to look. What a step showed is
answered once the browser is given back, so that the agent reads what the user did before it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import quote, quote_plus

from core.errors import UsageError
from core.events import (
    Action,
    BrowseInteractiveAction,
    BrowseURLAction,
    Envelope,
    ErrorObservation,
    Observation,
    Status,
    event_from_dict,
    event_to_dict,
    is_field,
)
from core.protocols import Executor, FrameSink, Runtime
from core.pub_sub import Frames
from core.secrets import MIN_LENGTH, Masker
from core.session.user_actions import Surroundings, UsersAction

TAKEN = "The user took over the browser."
INTERRUPTED = "The browser was interrupted while the user acted."
LOOK = "noop(1)"
"""A step that changes nothing: what counts is what is seen after it."""
MAX_WAITING = 20
"""Steps that were asked for before the one that is carried out is through."""


class UsersBrowser:
    """Who has the browser of one conversation."""

    def __init__(self, runtime: Runtime, place: Surroundings) -> None:
        self._runtime = runtime
        self._place = place
        self._free = asyncio.Event()
        self._free.set()
        self._turn = asyncio.Lock()
        self._steps: set[asyncio.Task[None]] = set()
        self._hidden: list[str] = []
        self._has_acted = self._is_going = False
        self.acted_until = -1
        """The id of the action with which the user gave the browser back last after acting in it; -1 before."""
        self.agent_is_done: Callable[[], Awaitable[None]] = _at_once
        """Returns when no step of the agent's is under way; whoever carries those out sets it."""

    @property
    def is_on(self) -> bool:
        """Whether the user has the browser."""
        return not self._free.is_set()

    @property
    def is_busy(self) -> bool:
        """Whether a step of the user's is under way."""
        return bool(self._steps)

    async def begin(self) -> Envelope:
        """Have the browser. It is stored when this returns. Raises UsageError where it is taken, StoreError."""
        if self.is_on:
            raise UsageError("You have the browser already. Give it back first.")
        self._free.clear()
        self._has_acted = self._is_going = False
        try:
            return await self._begin_step(BrowseInteractiveAction(browser_actions=LOOK, thought=TAKEN, by_user=True))
        except BaseException:
            self._let_go()
            raise

    async def do(self, calls: str, hidden: str = "") -> Envelope:
        """Carry out browser functions, one a line; HIDDEN in them stands for `hidden`. Stored when this returns.

        Raises UsageError where the user has no browser or is too far ahead of it, StoreError.
        """
        if not self.is_on or self._is_going:
            raise UsageError("The agent has the browser. Take it over first.")
        if len(self._steps) >= MAX_WAITING:
            raise UsageError("The page does not keep up. Wait until it has done what you asked for.")
        self._has_acted = True
        if hidden:
            self._hidden.append(hidden)
        return await self._begin_step(BrowseInteractiveAction(browser_actions=calls, by_user=True), hidden)

    async def give_back(self) -> None:
        """Let the agent go on, once it can read what the page looks like. Does nothing where nobody has it."""
        if not self.is_on or self._is_going:
            return
        self._is_going = True
        try:
            # who did nothing leaves nothing to read
            thought, by_user = BrowseInteractiveAction.GIVEN_BACK, not self._has_acted
            step = await self._begin_step(
                BrowseInteractiveAction(browser_actions=LOOK, thought=thought, by_user=by_user)
            )
            self.acted_until = step.id if self._has_acted else self.acted_until
            await self.settled()
        finally:
            self._let_go()

    async def settled(self) -> None:
        """Return when no step of the user's is under way; its observation is stored by then."""
        while self._steps:
            await asyncio.wait(self._steps)

    async def ended(self) -> None:
        """Return when the agent has the browser."""
        await self._free.wait()

    def interrupt(self) -> None:
        """End what is under way, which still gets its observation; the agent has the browser again."""
        for step in self._steps:
            step.cancel()
        self._let_go()

    def _let_go(self) -> None:
        self._hidden.clear()
        self._free.set()

    async def _begin_step(self, action: BrowseInteractiveAction, hidden: str = "") -> Envelope:
        masker, whole = _masker(self._hidden), action.model_copy(update={"hidden_text": hidden})

        async def carry_out(action_id: int) -> Observation:
            async with self._turn:
                await self.agent_is_done()
                await self._place.ready()
                observation = await self._runtime.execute(whole, action_id, self._place.frames.publish)
            return _masked(observation, masker)

        envelope, step = await UsersAction(action, carry_out, _cut_short, tells_failure=False).begin(self._place)
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)
        return envelope


def _cut_short() -> Observation:
    return ErrorObservation(content=INTERRUPTED, error_id="AGENT_ERROR$INTERRUPTED")


async def _at_once() -> None:
    """Nobody else acts."""


def _masker(hidden: list[str]) -> Masker:
    """What finds hidden texts wherever a page repeats them, in its address too; short ones are ordinary words."""
    return Masker(form for text in hidden if len(text) >= MIN_LENGTH for form in (text, quote(text), quote_plus(text)))


def _masked(observation: Observation, masker: Masker) -> Observation:
    if not masker:
        return observation
    stored = event_to_dict(observation, derived=False)
    masked = masker.mask(stored, is_field=is_field)
    event = observation if masked is stored else event_from_dict(masked)[0]
    assert isinstance(event, Observation)
    return event


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
