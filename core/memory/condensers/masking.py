"""Masking: old observations are shown without their content, at each step anew; nothing is forgotten for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.events import BrowserOutputObservation, Envelope, Observation
from core.memory.condensers.base import Condenser
from core.memory.condensers.cutting import is_summary
from core.memory.seen import is_seen

MASKED = "<MASKED>"
"""V0's word for what is left out."""


class ObservationMasking(Condenser):
    """`observation_masking`: the content of observations before the newest `attention_window` events is left out."""

    def __init__(self, attention_window: int) -> None:
        self._window = attention_window

    def shown(self, events: Sequence[Envelope]) -> Sequence[Envelope]:
        """See the class. It moves by half a window at once, so that what a provider has kept lasts for a while."""
        seen = [at for at, envelope in enumerate(events) if is_seen(envelope.event) and not is_summary(envelope)]
        step = max(1, self._window // 2)
        old = max(0, len(seen) - self._window) // step * step
        masked = frozenset(seen[:old])
        return [_masked(envelope) if at in masked else envelope for at, envelope in enumerate(events)]


class BrowserOutputMasking(Condenser):
    """`browser_output_masking`: of all pages but the newest `attention_window`, only the address is shown."""

    def __init__(self, attention_window: int) -> None:
        self._window = attention_window

    def shown(self, events: Sequence[Envelope]) -> Sequence[Envelope]:
        """See the class."""
        pages = [at for at, envelope in enumerate(events) if isinstance(envelope.event, BrowserOutputObservation)]
        old = frozenset(pages[: -self._window] if self._window else pages)
        if not old:
            return events
        return [_address_only(envelope) if at in old else envelope for at, envelope in enumerate(events)]


def _masked(envelope: Envelope) -> Envelope:
    event = envelope.event
    if not isinstance(event, Observation) or not event.content:
        return envelope
    return replace(envelope, event=event.model_copy(update=_without_pictures(event) | {"content": MASKED}))


def _address_only(envelope: Envelope) -> Envelope:
    event = envelope.event
    assert isinstance(event, BrowserOutputObservation)
    content = f"Visited URL {event.url}\nContent omitted"
    return replace(envelope, event=event.model_copy(update=_without_pictures(event) | {"content": content}))


def _without_pictures(event: Observation) -> dict[str, object]:
    """What takes the pictures out of an observation."""
    fields = type(event).model_fields
    return {name: fields[name].get_default() for name in event.pictures if name in fields}
