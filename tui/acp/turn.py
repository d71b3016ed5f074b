"""One running prompt, why it ended, and what it cost, in the protocol's terms."""

from __future__ import annotations

import asyncio

from acp.schema import Cost, StopReason, Usage, UsageUpdate

from core.controller.exit_reasons import HaltKind
from core.controller.state import State
from core.events import Action, AgentState, Envelope, LLMMetrics, TokenUsage
from core.security.confirmation import Verdict
from core.session.agent_session import AgentSession


class Turn:
    """One prompt while it runs."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.is_said = False
        """Whether the message is stored, so that there is something to interrupt."""
        self.has_permitted = False
        """Whether an answer was kept, so that others that wait may be allowed by it."""
        self.cancelled = asyncio.Event()
        self.over = asyncio.Event()


async def is_allowed(session: AgentSession, envelope: Envelope) -> bool:
    """Whether an action that waits is allowed by what was permitted since."""
    action = envelope.event
    return isinstance(action, Action) and (await session.guard.judge(action)).verdict is Verdict.ALLOW


def stop_reason(state: State) -> StopReason | None:
    """Why a prompt ended, by the state in which the agent rests; None for a failure, which is an error's answer.

    Never `refusal`: an editor takes that for a message that was not taken into the conversation, and here it was.
    """
    if state.halt is not None:
        match state.halt.kind:
            case HaltKind.LIMIT:
                return "max_tokens" if state.halt.what == "tokens" else "max_turn_requests"
            case HaltKind.STUCK:
                return "end_turn"
        return None
    if state.agent_state is AgentState.STOPPED:
        return "cancelled"
    return None if state.agent_state is AgentState.ERROR else "end_turn"


def usage_update(metrics: LLMMetrics) -> UsageUpdate | None:
    """How much of the model's context is in use, and what all cost; None where the context's size is not known."""
    usage = metrics.accumulated_token_usage
    if usage.context_window <= 0:
        return None
    cost = metrics.accumulated_cost
    return UsageUpdate(
        session_update="usage_update",
        used=min(usage.per_turn_token, usage.context_window),
        size=usage.context_window,
        cost=None if cost is None else Cost(amount=cost, currency="USD"),
    )


def usage_between(before: TokenUsage, after: TokenUsage) -> Usage | None:
    """What one prompt took; None where its model counts nothing."""
    read = after.prompt_tokens - before.prompt_tokens
    written = after.completion_tokens - before.completion_tokens
    if read <= 0 and written <= 0:
        return None
    return Usage(
        total_tokens=read + written,
        input_tokens=read,
        output_tokens=written,
        cached_read_tokens=after.cache_read_tokens - before.cache_read_tokens,
        cached_write_tokens=after.cache_write_tokens - before.cache_write_tokens,
    )
