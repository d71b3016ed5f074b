"""Timeline: a saved conversation as a sequence of items, and the state of a replay at any position.

Items are events and, between them, the frames of the terminal, each with its offset: seconds since the first event.
Clocks may be wrong: a negative gap counts as zero, and none is longer than LONGEST_GAP_S. The state at a position costs
one page and a few index lookups, independent of the length of the history.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from core.events import Action, Envelope, LLMMetrics
from core.store.reader import EventFilter, EventReader, RecordingRow
from core.store.recordings import RecordedFrame
from core.undo.reverted import undone_spans

LONGEST_GAP_S = 3600.0
"""Longer gaps are shortened: the next day, or a clock that jumped."""
SPENT_BACK = 10
"""Pages that are searched for the cost of the conversation."""
PAGE = 100
AHEAD = 200
MAX_HIGHLIGHTS = 1000
"""The newest of each kind: a line has no more cells."""

STATES = frozenset({"observation:agent_state_changed"})
PAGES_SEEN = frozenset({"observation:browse"})
PLANS = frozenset({"observation:task_tracking"})
MODES = frozenset({"action:mode"})
UNDOS = frozenset({"action:undo", "observation:undo"})
PLANS_BACK = 20
"""Earlier task lists that are included: they say since when a task has its status."""
TERMINAL_BYTES = 32 * 1024
"""Terminal output before the target: more than a screen and some scrollback."""
TERMINAL_BACK = 10

Item: TypeAlias = Envelope | RecordedFrame


class Highlights(NamedTuple):
    """Events that are marked on the timeline, besides messages of the user."""

    errors: tuple[int, ...] = ()
    questions: tuple[int, ...] = ()
    """Events that asked for the approval of an action."""
    answers: Sequence[tuple[int, int]] = ()
    """Events that came with model answers, and the number of answers up to there."""

    def answered(self, event_id: int) -> int:
        """The number of model answers up to this event."""
        number = bisect_right(self.answers, event_id, key=itemgetter(0))
        return self.answers[number - 1][1] if number else 0


NO_HIGHLIGHTS = Highlights()


@dataclass(frozen=True, slots=True)
class ReplayState:
    """What a screen needs to show a position: the last page before it, and older events that still matter."""

    earlier: Sequence[Item]
    """Web pages, task lists, undos and terminal output from before the page, in order."""
    page: Sequence[Item]
    """The last events up to the position, and the frames between them."""
    state: Envelope | None
    """The last change of the agent's state."""
    spent: LLMMetrics | None
    """The cost up to the position; None if unknown."""
    mode: Envelope | None = None
    """The mode that the user chose last; None if the settings decided."""


class TimelinePiece(NamedTuple):
    """Consecutive items of a timeline."""

    items: Sequence[tuple[float, Item]]
    """With their offsets."""
    end: RecordingRow | None
    """The last recording row that was read, if more output follows its event; else None."""


class Timeline:
    """The items of one conversation. Call `open` first, and again if its events were replaced."""

    def __init__(self, reader: EventReader, conversation_id: str) -> None:
        self.reader = reader
        self.conversation_id = conversation_id
        self.times: array[float] = array("d")
        """The stored times of the events, in seconds since the epoch."""
        self.offsets: array[float] = array("d")
        self.turns: Sequence[int] = ()
        """The ids of the user's messages."""
        self.grows = False
        """Whether the conversation continues: output after the newest event is stored with the next event."""
        self._undos: Sequence[Envelope] | None = None
        """All undos and their results; None until needed."""

    async def open(self) -> None:
        timeline = await self.reader.event_times(self.conversation_id)
        since_first = await asyncio.to_thread(offsets, timeline.times)
        self.times, self.turns, self.offsets = timeline.times, timeline.turns, since_first
        self._undos = None

    async def grow(self) -> None:
        """Read the times of new events. Raises StoreError."""
        known = self.count
        timeline = await self.reader.event_times(self.conversation_id, after=known - 1)
        if not timeline.times:
            return
        added = await asyncio.to_thread(offsets, array("d", [*self.times[-1:], *timeline.times]))
        begin = self.offsets[-1] if known else 0.0
        self.offsets.extend(begin + offset for offset in added[1 if known else 0 :])
        self.times.extend(timeline.times)
        turns = (*(turn for turn in self.turns if turn < known), *timeline.turns)
        self.turns = [turn for turn in turns if turn < self.count]  # an event may have come between the two queries
        self._undos = None

    @property
    def count(self) -> int:
        return len(self.times)

    async def highlights(self, known: Highlights = NO_HIGHLIGHTS, after: int = -1) -> Highlights:
        """The highlights after `after`, added to the `known` ones.

        Reads the kind of every event, so callers ask once and do not wait for it.
        """
        errors = EventFilter(kinds=frozenset({"observation:error"}))
        asked = EventFilter(kinds=STATES, query='"awaiting_user_confirmation"')
        failed, questions = [
            [event.id for event in await self.reader.read(
                self.conversation_id, after=after, before=self.count, limit=MAX_HIGHLIGHTS, newest=True, where=where
            )]
            for where in (errors, asked)
        ]  # fmt: skip
        answered = await self.reader.answers(self.conversation_id, after=after, before=self.count)
        is_begun = known.answers[-1][1] if known.answers else 0
        sums = accumulate((count for _id, count in answered), initial=is_begun)
        answers = [(id, total) for (id, _count), total in zip(answered, islice(sums, 1, None), strict=True)]
        return Highlights(
            (*known.errors, *failed)[-MAX_HIGHLIGHTS:],
            (*known.questions, *questions)[-MAX_HIGHLIGHTS:],
            (*known.answers, *answers),
        )

    async def search(self, words: str, limit: int) -> list[int]:
        """The newest `limit` events that contain these words, in order."""
        hits = await self.reader.search(words, limit=limit, conversation_id=self.conversation_id)
        found = {hit.event_id for hit in hits}
        if not found and await self.reader.count_unindexed():  # searches events that are not indexed yet
            where = EventFilter(query=words.strip('"*'))
            found = {
                each.id for each in await self.reader.read(self.conversation_id, limit=limit, newest=True, where=where)
            }
        return sorted(found)

    async def state_at(self, target: int) -> ReplayState:
        """The state after an event; -1 is before the first."""
        end = target + 1
        page = await self.reader.read(self.conversation_id, before=end, limit=PAGE, newest=True)
        first = page[0].id if page else 0
        items = await self._page_tail(first - 1, end, page, TERMINAL_BYTES)
        earlier = await self._earlier(first, page)
        output = await self._terminal_before(
            first, TERMINAL_BYTES - _terminal_bytes(items), is_begun=_has_earlier_command(items, first)
        )
        return ReplayState(
            earlier=_sorted_items([*earlier, *output]),
            page=[item for _at, item in items],
            state=_last(page, STATES) or await self.reader.latest(self.conversation_id, STATES, end),
            spent=await self._spent(page),
            mode=_last(page, MODES) or await self.reader.latest(self.conversation_id, MODES, end),
        )

    async def _earlier(self, before: int, page: Sequence[Envelope]) -> list[Envelope]:
        """The last web page before an event, the task lists that still matter after `page`, and undos."""
        found: list[Envelope] = []
        if before > 0 and (seen := await self.reader.latest(self.conversation_id, PAGES_SEEN, before)) is not None:
            found.append(seen)
        end, undone = before, None
        for _number in range(PLANS_BACK):
            plan = await self.reader.latest(self.conversation_id, PLANS, end) if end > 0 else None
            if plan is None:
                break
            if undone is None:
                undos = [undo for undo in await self._all_undos() if undo.id < before]
                undone = undone_spans([*undos, *(each for each in page if each.event.kind == "undo")])
                found += undos
            found.append(plan)
            end = min((span.start for span in undone if plan.id in span), default=plan.id)
        return found

    async def _all_undos(self) -> Sequence[Envelope]:
        """All undos, read once, because that reads every event's kind."""
        if self._undos is None:
            self._undos = await self.reader.read(self.conversation_id, where=EventFilter(kinds=UNDOS))
        return self._undos

    async def _terminal_before(self, before: int, needed_bytes: int, *, is_begun: bool) -> list[Item]:
        """The last terminal output before an event, `needed_bytes` of it; observations if it was not recorded.

        If a command had `is_begun` before, one page is searched anyway, so that its output is not shown again.
        """
        found: list[Item] = []
        for number in range(TERMINAL_BACK):
            if before <= 0 or (needed_bytes <= 0 and not (is_begun and number == 0)):
                break
            after = max(-1, before - PAGE - 1)
            events = await self.reader.read(self.conversation_id, after=after, before=before)
            page = await self._page_tail(after, before, events, needed_bytes)
            output = [(at, item) for at, item in page if not isinstance(item, Envelope) or _is_output(item)]
            found[:0] = [item for _at, item in output]
            needed_bytes -= _terminal_bytes(output)
            before = after + 1
        return found

    async def _spent(self, page: Sequence[Envelope]) -> LLMMetrics | None:
        """The cost, from the last event that has it."""
        for _number in range(SPENT_BACK):
            for envelope in reversed(page):
                if isinstance(envelope.event, Action) and envelope.event.llm_metrics is not None:
                    return envelope.event.llm_metrics
            if not page or page[0].id == 0:
                return None
            page = await self.reader.read(self.conversation_id, before=page[0].id, limit=PAGE, newest=True)
        return None

    async def _page_tail(
        self, after: int, before: int, events: Sequence[Envelope], most_bytes: int
    ) -> list[tuple[float, Item]]:
        """These events, of `after` < id < `before`, and the last output before each of them."""
        frames = await self.reader.recorded_tail(
            self.conversation_id, after=after, before=self._frames_end(before), least_bytes=max(1, most_bytes)
        )
        return _trimmed(self._merged(events, frames), most_bytes)

    async def read_on(self, after: int, beyond: RecordingRow | None) -> TimelinePiece:
        """The next items after an event, and after the recording row `beyond`.

        At most AHEAD events, and as much output as is read at once.
        """
        before = min(after + 1 + AHEAD, self.count)
        output = await self.reader.recorded(
            self.conversation_id, after=after, before=self._frames_end(before), beyond=beyond
        )
        if output.end is not None:
            before = output.end[0] + 1
        events = await self.reader.read(self.conversation_id, after=after, before=before) if before > after + 1 else []
        return TimelinePiece(self._merged(events, output.frames), output.end)

    def _frames_end(self, before: int) -> int:
        """The end of the frames that belong to the events before an event.

        Frames after the last event of all are included only if the conversation has ended.
        """
        return before if before >= self.count and not self.grows else before - 1

    def _merged(self, events: Sequence[Envelope], frames: Sequence[RecordedFrame]) -> list[tuple[float, Item]]:
        """Events and frames in order, with their offsets."""
        left = deque(frames)
        items: list[tuple[float, Item]] = []
        for envelope in events:
            while left and left[0].after < envelope.id:
                frame = left.popleft()
                items.append((self._offset_of(frame), frame))
            items.append((self.offsets[envelope.id], envelope))
        return [*items, *((self._offset_of(frame), frame) for frame in left)]

    def _offset_of(self, frame: RecordedFrame) -> float:
        """The offset of a frame: always between its event and the next one, even if clocks were wrong."""
        if frame.after < 0:
            return 0.0
        begin = self.offsets[frame.after]
        end = self.offsets[frame.after + 1] if frame.after + 1 < self.count else begin + LONGEST_GAP_S
        return min(max(begin, begin + frame.at.timestamp() - self.times[frame.after]), end)


def offsets(times: Sequence[float]) -> array[float]:
    """Seconds since the first event for each of these times, never falling."""
    gaps = (min(max(0.0, after - before), LONGEST_GAP_S) for before, after in pairwise(times))
    return array("d", accumulate(gaps, initial=0.0) if times else ())


def _last(page: Sequence[Envelope], kinds: frozenset[str]) -> Envelope | None:
    """The last event of one of these kinds in a page."""
    for each in reversed(page):
        if f"{'action' if _is_action(each) else 'observation'}:{each.event.kind}" in kinds:
            return each
    return None


def _is_action(envelope: Envelope) -> bool:
    return isinstance(envelope.event, Action)


def _is_output(envelope: Envelope) -> bool:
    """Whether a terminal shows the event if it was not recorded."""
    return envelope.event.kind == "run" and not _is_action(envelope)


def _recorded(items: Sequence[tuple[float, Item]]) -> set[int | None]:
    """The actions whose output was recorded in these items."""
    return {item.frame.cause for _at, item in items if not isinstance(item, Envelope)}


def _has_earlier_command(items: Sequence[tuple[float, Item]], first: int) -> bool:
    """Whether a command ends among these items that began before the event `first`, and may be recorded there."""
    recorded = _recorded(items)
    ends = [item.cause for _at, item in items if isinstance(item, Envelope) and _is_output(item)]
    return any(cause is not None and cause < first and cause not in recorded for cause in ends)


def _terminal_bytes(items: Sequence[tuple[float, Item]]) -> int:
    """The number of bytes of these items that a terminal shows."""
    total, recorded = 0, _recorded(items)
    for _at, item in items:
        if not isinstance(item, Envelope):
            total += len(item.frame.data)
        elif _is_output(item) and item.cause not in recorded:
            total += len(getattr(item.event, "content", ""))
    return total


def _trimmed(items: Sequence[tuple[float, Item]], most_bytes: int) -> list[tuple[float, Item]]:
    """The items with only the last `most_bytes` of recorded output.

    Earlier frames stay without bytes, so that a terminal knows that the output of their action was recorded.
    """
    left = most_bytes
    kept: list[tuple[float, Item]] = []
    for at, item in reversed(items):
        if isinstance(item, Envelope):
            kept.append((at, item))
            continue
        data = item.frame.data[-left:] if left > 0 else b""
        left -= len(data)
        kept.append((at, replace(item, frame=replace(item.frame, data=data))))
    return kept[::-1]


def _sorted_items(items: Sequence[Item]) -> list[Item]:
    """Items in order, without duplicate events."""
    found = {item.id: item for item in items if isinstance(item, Envelope)}
    frames = [item for item in items if not isinstance(item, Envelope)]
    order: list[tuple[int, int, int, Item]] = [(event_id, 0, 0, item) for event_id, item in found.items()]
    order += [(frame.after, 1, number, frame) for number, frame in enumerate(frames)]
    return [item for *_key, item in sorted(order, key=lambda entry: entry[:3])]
