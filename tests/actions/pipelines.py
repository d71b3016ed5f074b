"""Single middleware functions with the parts of a conversation that they use, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from core.actions.middleware import ActionContext, ConversationParts, Middleware
from core.actions.output import LiveOutput
from core.actions.table import Place, Row
from core.events import Action, Envelope, EventSource, Observation
from core.protocols import Executor
from core.stream import Frames


def stored(action: Action, action_id: int) -> Envelope:
    """The action as an event of the agent."""
    return Envelope(
        conversation_id="c", id=action_id, timestamp=datetime.now(UTC), source=EventSource.AGENT, event=action
    )


def through(
    middleware: Middleware, executor: Executor, place: Place = Place.SANDBOX, **parts: Any
) -> Callable[[Action, int], Awaitable[Observation]]:
    """A function that sends an action with an id through one middleware to the executor. `parts` are what it uses."""
    used = cast("ConversationParts", SimpleNamespace(**parts))

    async def handle(action: Action, context: ActionContext) -> Observation:
        return await executor.execute(action, context.envelope.id, context.live.publish)

    def execute(action: Action, action_id: int) -> Awaitable[Observation]:
        row = Row(Action, place, executor.execute)
        return middleware(action, ActionContext(stored(action, action_id), row, LiveOutput(Frames()), used), handle)

    return execute
