"""What happens to an action before and after its handler, in one ordered list.

`MIDDLEWARE` is read from the top: each function calls `next` to go on, and sees the observation on its way back. With
`core.actions.table` it is everything that can happen to an action of the agent. Invariant: `ActionPipeline.execute`
returns exactly one observation for an action, also when the handler raises or is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from core.actions.output import LiveOutput, interrupted, observation_of
from core.actions.table import ActionTable, Place, Row
from core.checkpoints.turns import Turns
from core.events import (
    Action,
    ActionConfirmationStatus,
    BrowseInteractiveAction,
    BrowseURLAction,
    Envelope,
    Observation,
    UserRejectObservation,
)
from core.hooks.hooks import Hooks
from core.secrets.command_secrets import SecretInjection
from core.stream import Frames
from core.trust.hook_file import Moment
from core.user_control.user_control import UserControl

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConversationParts:
    """The parts of a conversation that middleware uses."""

    frames: Frames
    user: UserControl
    ready: Callable[[], Awaitable[None]]
    """Returns when the sandbox is ready. Raises RuntimeUnavailableError."""
    turns: Turns
    hooks: Hooks
    secrets: SecretInjection


@dataclass(frozen=True, slots=True)
class ActionContext:
    """One action on its way to its handler."""

    envelope: Envelope
    row: Row
    live: LiveOutput
    parts: ConversationParts


Next = Callable[[Action, ActionContext], Awaitable[Observation]]
Middleware = Callable[[Action, ActionContext, Next], Awaitable[Observation]]


async def answer_always(action: Action, context: ActionContext, next: Next) -> Observation:
    """Turn an error or a cancellation into an observation; that of a cancelled command has its output until then."""
    try:
        return await observation_of(next(action, context), context.envelope.id)
    except asyncio.CancelledError:
        return interrupted(action, context.live.output)


async def wait_for_browser(action: Action, context: ActionContext, next: Next) -> Observation:
    """Wait while the user controls the browser."""
    if context.row.place in (Place.SERVER, Place.SANDBOX):
        await context.parts.user.browser.wait_for_return()
    return await next(action, context)


async def prepare_sandbox(action: Action, context: ActionContext, next: Next) -> Observation:
    """Start the sandbox and run the setup of the repository, once per session."""
    if context.row.place is Place.SANDBOX:
        await context.parts.ready()
    return await next(action, context)


async def wait_for_checkpoint(action: Action, context: ActionContext, next: Next) -> Observation:
    """Wait for the checkpoint that undoing this turn restores, if the action may change files."""
    if context.row.place in (Place.SERVER, Place.SANDBOX):
        await context.parts.turns.ready(context.envelope)
    return await next(action, context)


async def wait_for_terminal(action: Action, context: ActionContext, next: Next) -> Observation:
    """Wait while the user controls the terminal, before the action and before its observation is stored."""
    if context.row.place is Place.CONVERSATION:
        return await next(action, context)
    await context.parts.user.terminal.wait_for_return()
    observation = await next(action, context)
    await context.parts.user.terminal.wait_for_return()
    return observation


async def share_browser(action: Action, context: ActionContext, next: Next) -> Observation:
    """Keep the agent's browser actions and the user's apart; refuse one that was decided before the user acted."""
    if not isinstance(action, BrowseURLAction | BrowseInteractiveAction):
        return await next(action, context)
    return await context.parts.user.browser.agent_step(action, context.envelope.id, lambda: next(action, context))


async def run_hooks(action: Action, context: ActionContext, next: Next) -> Observation:
    """Run the hooks before and after the action; one before it may deny it."""
    if context.row.place is Place.CONVERSATION:
        return await next(action, context)
    hooks = context.parts.hooks
    if reason := await hooks.before(action):
        return UserRejectObservation(content=f"A hook denied this action: {reason}")
    observation = await next(action, context)
    try:
        await hooks.run(Moment.AFTER_ACTION, action, observation)
    except asyncio.CancelledError:  # the action was carried out, whatever happens to the hook
        log.info("a hook after action %s was interrupted", context.envelope.id)
    return observation


async def inject_secrets(action: Action, context: ActionContext, next: Next) -> Observation:
    """Give a command or cell the secrets that it names."""
    if context.row.place is not Place.SANDBOX:
        return await next(action, context)
    return await context.parts.secrets.around(action, lambda: next(action, context))


MIDDLEWARE: Sequence[Middleware] = (
    answer_always,  # first: an error or a cancellation anywhere below still gives an observation
    wait_for_browser,  # before the sandbox starts: nothing of the agent begins while the user acts on a page
    prepare_sandbox,  # before the checkpoint: a repository has to be cloned before its files can be kept
    wait_for_checkpoint,  # last of what may take long before an action
    wait_for_terminal,  # after all that takes long: the user may have taken over the terminal meanwhile
    share_browser,  # before the hooks: an action that is refused here never reaches them
    run_hooks,  # before the secrets: a hook never sees their values
    inject_secrets,  # last: the secrets are there only while the handler runs
)


class ActionPipeline:
    """Carries out the actions of one conversation: `MIDDLEWARE`, then the handler of the table."""

    def __init__(self, table: ActionTable, parts: ConversationParts) -> None:
        self._table = table
        self._parts = parts
        handle: Next = _handle
        self._run = reduce(_around, reversed(MIDDLEWARE), handle)

    async def execute(self, envelope: Envelope) -> Observation:
        """Carry out a stored action and return its observation. Never raises; cancelling interrupts the action."""
        action = _confirmed(envelope.event)
        live = LiveOutput(self._parts.frames)
        return await self._run(action, ActionContext(envelope, self._table.row_of(action), live, self._parts))


def _around(next: Next, middleware: Middleware) -> Next:
    return lambda action, context: middleware(action, context, next)


async def _handle(action: Action, context: ActionContext) -> Observation:
    return await context.row.handler(action, context.envelope.id, context.live.publish)


def _confirmed(event: object) -> Action:
    """The action as its handler gets it: without the judgement, and confirmed if the user had to approve it."""
    assert isinstance(event, Action)
    if event.judgement is not None:
        event = event.model_copy(update={"judgement": None})
    if event.confirmation is ActionConfirmationStatus.AWAITING_CONFIRMATION:
        return event.model_copy(update={"confirmation_state": ActionConfirmationStatus.CONFIRMED})
    return event
