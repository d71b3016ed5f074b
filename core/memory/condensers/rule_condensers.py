"""`amortized`: the middle is forgotten, so that it takes a while until the history is too long again.

`conversation_window`: the older half is forgotten, and nothing stands in for it. What the others fall back to.

`recent`: the beginning and the newest events are shown, what lies between is not; nothing is forgotten for good.

Masking: old observations are shown without their content, at each step anew; nothing is forgotten for good.

`pipeline`: several condensers, one after the other. The first condensation ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.events import BrowserOutputObservation, CondensationAction, CondensationRequestAction, Envelope, Observation
from core.memory.condensers.base import Condenser, Cut, Work, forgetting, is_summary, middle
from core.memory.context_events import is_seen


def to_half(work: Work, keep_first: int, max_size: int) -> Cut | None:
    """What goes, so that half of `max_size` events and half of the room are left; by hand, all but the newest answer.

    None where that is nothing.
    """
    if work.request.why == "wanted":
        return middle(work, keep_first=keep_first, max_events=0, tokens=work.room)
    tokens = None if work.room is None else work.room // 2
    return middle(work, keep_first=keep_first, max_events=max_size // 2, tokens=tokens)


class Amortized(Condenser):
    """Leaves `keep_first` and the newest events, half of `max_size` in all, and half of the room."""

    def __init__(self, keep_first: int, max_size: int) -> None:
        self._keep_first = keep_first
        self._max_size = max_size

    async def condense(self, work: Work) -> CondensationAction | None:
        """See the class."""
        cut = to_half(work, self._keep_first, self._max_size)
        return None if cut is None else cut.action()


def half_forgotten(work: Work, note: str = "") -> CondensationAction:
    """The condensation that leaves instructions, the task, and the newer half of the rest; that may be nothing.

    Half by events, and by tokens, too, where it is known how many there may be.
    """
    tokens = None if work.room is None else work.room // 2
    head = middle(work, keep_first=0, max_events=0, tokens=0)
    rest = 0 if head is None else sum(is_seen(envelope.event) for envelope in head.forgotten)
    kept = work.count() - rest
    cut = middle(work, keep_first=0, max_events=kept + max(1, rest // 2) + 1, tokens=tokens)
    return forgetting([], note=note) if cut is None else cut.action(note=note)


class ConversationWindow(Condenser):
    """Acts where the model has refused the history as too long, as V0 does."""

    async def condense(self, work: Work) -> CondensationAction | None:
        """See `half_forgotten`."""
        return half_forgotten(work) if work.request.why == "overflow" else None


class Recent(Condenser):
    """Shows `keep_first` and the newest events, `max_events` in all."""

    def __init__(self, keep_first: int, max_events: int) -> None:
        self._keep_first = keep_first
        self._max_events = max_events

    def shown(self, events: Sequence[Envelope]) -> Sequence[Envelope]:
        """See the class. The place of the cut moves with each step, so providers keep little of such a prompt."""
        work = Work(events, CondensationRequestAction())
        if work.count() <= self._max_events:
            return events
        cut = middle(work, keep_first=self._keep_first, max_events=self._max_events, tokens=None)
        if cut is None:
            return events
        gone = frozenset(envelope.id for envelope in cut.forgotten)
        return [envelope for envelope in events if envelope.id not in gone]


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


class Pipeline(Condenser):
    """Each shows what the one before it shows."""

    def __init__(self, condensers: Sequence[Condenser]) -> None:
        self._condensers = tuple(condensers)

    def shown(self, events: Sequence[Envelope]) -> Sequence[Envelope]:
        """What is left after all of them."""
        for condenser in self._condensers:
            events = condenser.shown(events)
        return events

    async def condense(self, work: Work) -> CondensationAction | None:
        """That of the first one that has one."""
        for condenser in self._condensers:
            if (found := await condenser.condense(work)) is not None:
                return found
        return None
