"""What a condenser is, and what it works with.

A condenser does one of two things, or both. It may show events otherwise than they are, at each step and without a
trace (`shown`). And where the history is to become shorter for good it may say so, as one CondensationAction that is
stored (`condense`). It never changes an event, and never parts a tool call from its result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from core.events import CondensationAction, CondensationRequestAction, Envelope
from core.memory.seen import is_seen, size_of
from core.memory.tokens import Scale
from core.ports import LLMRequest, LLMResponse

Ask = Callable[[LLMRequest], Awaitable[LLMResponse]]
"""Asks the model that sums up. Raises ModelError; cancelling cancels the call."""


class NoSummaryError(Exception):
    """The model that sums up failed, or what it said is of no use; the text says why, for people."""


@dataclass(frozen=True, slots=True)
class Work:
    """One condensation that is to be made."""

    events: Sequence[Envelope]
    """What the model sees, the newest summary included."""
    request: CondensationRequestAction
    """Who wanted it, and what is to be kept."""
    ask: Ask | None = None
    """None where there is no model to ask."""
    room: int | None = None
    """Tokens that all messages may take; None where nothing is known."""
    scale: Scale = Scale()  # noqa: RUF009  # frozen

    def sizes(self) -> list[int]:
        """Tokens of each event, as the model's provider counts them as far as that is known."""
        return [self.scale(size_of(envelope.event, self.room)) for envelope in self.events]

    def count(self) -> int:
        """Events that the model sees."""
        return sum(is_seen(envelope.event) for envelope in self.events)


class Condenser:
    """Shows everything, and condenses nothing: V0's `noop`."""

    def shown(self, events: Sequence[Envelope]) -> Sequence[Envelope]:
        """The events as the model is shown them. Pure, and the same for the same events."""
        return events

    async def condense(self, work: Work) -> CondensationAction | None:
        """What is to be forgotten; None where this one leaves it to the next.

        Raises NoSummaryError. Cancelling cancels the call of the model.
        """
        return None
