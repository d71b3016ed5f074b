"""The event stream of one conversation: every event is appended here.

Durable, then visible: `append` returns after the commit, and subscribers see an event only then. Every subscriber has
its own queue and task, sees each event once and in order, and may name the types that it wants. The failure of one is
an ErrorObservation on the stream, and the others go on. Secrets are redacted in every string before anything is stored,
so subscribers see what is stored; a secret that was only recognized by its form is reported by a
SecretMaskedObservation. Follows `openhands/events/stream.py`.

Beside it are the live frames: tokens, terminal bytes, notices. They are never stored and never waited for. Watchers
coalesce them: a screen marks itself dirty and draws at its own pace.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from core.errors import StoreError, UsageError
from core.events import (
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    Frame,
    SecretMaskedObservation,
    TerminalOutput,
    event_from_dict,
    event_to_dict,
    is_field,
)
from core.secrets import Redactor
from core.secrets.redactor import Detector, ReportedSecrets, notice
from core.store.blobs import Blob, BlobRef, extract_pictures
from core.store.event_store import EventStore
from core.store.reader import EventFilter
from core.store.recordings import Recorder
from core.store.writer import Draft, Lease

log = logging.getLogger(__name__)


class Frames:
    """The live frames of one conversation; each watcher gets them at once, in order, on the event loop."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[Frame], None]] = []

    def watch(self, watcher: Callable[[Frame], None]) -> Callable[[], None]:
        """Call `watcher` with every frame from now on; call the returned function to stop."""
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    def publish(self, frame: Frame) -> None:
        """Pass a frame to every watcher. Never raises: a broken watcher must not stop an agent."""
        for watcher in tuple(self._watchers):
            try:
                watcher(frame)
            except Exception:
                log.exception("a watcher of live frames failed and is dropped")
                self._watchers.remove(watcher)


CLOSE_S = 5.0
"""How long subscribers may take with their events when the stream closes."""

MAX_INLINE_CHARS = 16_384
"""The largest event that is searched for secrets without a thread: some milliseconds."""

Callback = Callable[[Envelope], Awaitable[None]]


class EventStreamSubscriber(StrEnum):
    """The subscribers, as in V0. Each may have several callbacks, identified by their ids."""

    AGENT_CONTROLLER = "agent_controller"
    RUNTIME = "runtime"
    MEMORY = "memory"
    MAIN = "main"
    TEST = "test"


@dataclass(slots=True)
class _Subscription:
    subscriber: EventStreamSubscriber
    callback_id: str
    callback: Callback
    types: tuple[type[Event], ...]
    queue: asyncio.Queue[Envelope | None] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    busy: bool = False


def redacted(event: Event, redactor: Redactor) -> Event:
    """The event without the secrets that the redactor knows; the same object if it has none."""
    data = event_to_dict(event, derived=False)
    redacted = redactor.redact(data, is_field=is_field)
    return event if redacted is data else event_from_dict(redacted)[0]


class EventStream:
    """The stream of a conversation that this process owns. `aclose` it before its store."""

    def __init__(
        self,
        store: EventStore,
        lease: Lease,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
        detector: Detector | None = None,
    ) -> None:
        self._store = store
        self._lease = lease
        self._redactor = Redactor() if redactor is None else redactor
        self._detector = detector
        self._reported = ReportedSecrets()
        self._recorder = Recorder(self._redactor)
        self._subscriptions: dict[tuple[EventStreamSubscriber, str], _Subscription] = {}
        self.latest_id = lease.next_id - 1
        """The id of the newest event; -1 while there is none."""
        self._clock = clock
        self.latest_at = clock()
        """When the newest event came or the stream was opened, by `clock`."""

    @property
    def conversation_id(self) -> str:
        return self._lease.conversation_id

    # -- writing -----------------------------------------------------------------------------------------------------

    async def append(self, event: Event, source: EventSource, cause: int | None = None) -> Envelope:
        """Append one event; it is durable when this returns. See `append_all`."""
        (envelope,) = await self.append_all((Draft(event, source, cause),))
        return envelope

    async def append_all(self, drafts: Sequence[Draft]) -> Sequence[Envelope]:
        """Append events that belong together, all or none, with consecutive ids.

        Raises StoreError or LeaseLostError; then none of them exists. Cancelling stops the waiting, not the writing.
        """
        count = len(drafts)
        if self._detector is not None:
            drafts = await self._without_detected(drafts, self._detector)
        prepared = [self._prepared(draft) for draft in drafts]
        try:
            return (await self._store.append(self._lease, prepared, self._deliver))[:count]
        except StoreError:
            self._recorder.put_back(row for draft in prepared for row in draft.recorded)
            raise

    def record(self, frame: Frame) -> None:
        """Record terminal output with the next event; other frames are not recorded."""
        if isinstance(frame, TerminalOutput):
            self._recorder.add(frame, self.latest_id)

    def _prepared(self, draft: Draft) -> Draft:
        """The draft as it is stored and published: secrets redacted, pictures and recordings separate."""
        if rows := self._recorder.take():
            draft = replace(draft, recorded=rows)
        event, blobs = extract_pictures(draft.event) if draft.event.pictures else (draft.event, ())
        if self._redactor:
            event = redacted(event, self._redactor)
        return draft if event is draft.event else replace(draft, event=event, blobs=blobs)

    async def _without_detected(self, drafts: Sequence[Draft], detector: Detector) -> Sequence[Draft]:
        """The drafts without text that looks like a secret, and a notice about it. Searches long ones in a thread."""
        found: dict[str, str] = {}
        clean: list[Draft] = []
        for draft in drafts:
            data = event_to_dict(draft.event, derived=False)
            is_long, redact = len(repr(data)) > MAX_INLINE_CHARS, detector.redact
            safe, categories = await asyncio.to_thread(redact, data, is_field) if is_long else redact(data, is_field)
            found.update(categories)
            clean.append(draft if safe is data else replace(draft, event=event_from_dict(safe)[0]))
        if counts := self._reported.add(found):
            text = "\n".join(notice(category, count) for category, count in counts.items())
            event = SecretMaskedObservation(content=text, masked=dict(counts))
            clean.append(Draft(event, EventSource.ENVIRONMENT))
        return clean

    def redact(self, value: Any) -> Any:
        """A JSON value for use outside of the log, without secrets. Call it in a thread if the value is long."""
        clean = value if self._detector is None else self._detector.redact(value)[0]
        return self._redactor.redact(clean)

    def _deliver(self, envelopes: Sequence[Envelope]) -> None:
        self.latest_at = self._clock()
        for envelope in envelopes:
            self.latest_id = envelope.id
            for subscription in self._subscriptions.values():
                if not subscription.types or isinstance(envelope.event, subscription.types):
                    subscription.queue.put_nowait(envelope)

    # -- subscribing -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        subscriber: EventStreamSubscriber,
        callback: Callback,
        callback_id: str,
        types: Collection[type[Event]] = (),
    ) -> None:
        """Call `callback` with every event from now on, in order; only those of `types` if named.

        Raises ValueError if this subscriber has the callback id already.
        """
        key = (subscriber, callback_id)
        if key in self._subscriptions:
            raise ValueError(f"Callback ID on subscriber {subscriber} already exists: {callback_id}")
        subscription = _Subscription(subscriber, callback_id, callback, tuple(types))
        subscription.task = asyncio.create_task(self._serve(subscription), name=f"{subscriber}:{callback_id}")
        self._subscriptions[key] = subscription

    def unsubscribe(self, subscriber: EventStreamSubscriber, callback_id: str) -> None:
        """Stop calling; waiting events are dropped. Raises UsageError for an unknown callback id."""
        subscription = self._subscriptions.pop((subscriber, callback_id), None)
        if subscription is None:
            raise UsageError(f"Callback ID on subscriber {subscriber} does not exist: {callback_id}")
        if subscription.task is not None:
            subscription.task.cancel()

    async def _serve(self, subscription: _Subscription) -> None:
        while (envelope := await subscription.queue.get()) is not None:
            subscription.busy = True
            try:
                await subscription.callback(envelope)
            except Exception as error:  # the boundary between subscribers: one's failure is not another's
                log.exception("subscriber %s:%s failed", subscription.subscriber, subscription.callback_id)
                await self._report(subscription, envelope, error)
            finally:
                subscription.busy = False
                subscription.queue.task_done()

    async def _report(self, subscription: _Subscription, envelope: Envelope, error: Exception) -> None:
        if isinstance(envelope.event, ErrorObservation) and envelope.event.error_id == "SUBSCRIBER$FAILED":
            return  # a subscriber that fails on the report itself must not loop
        text = f"{subscription.subscriber.value} failed on event {envelope.id}: {type(error).__name__}: {error}"
        try:
            await self.append(
                ErrorObservation(content=text, error_id="SUBSCRIBER$FAILED"),
                EventSource.ENVIRONMENT,
                envelope.id,
            )
        except Exception:  # the log has it
            log.exception("the failure of a subscriber could not be stored")

    async def settle(self) -> None:
        """Wait until every subscriber has handled every event, and the events that they appended in answer."""
        while pending := [s.queue for s in self._subscriptions.values() if s.busy or not s.queue.empty()]:
            for queue in pending:
                await queue.join()

    async def aclose(self) -> None:
        """Let subscribers finish, end them, and release the lease."""
        subscriptions = list(self._subscriptions.values())
        self._subscriptions.clear()
        for subscription in subscriptions:
            subscription.queue.put_nowait(None)
        if tasks := [s.task for s in subscriptions if s.task is not None]:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if rows := self._recorder.take():
            await self._store.record(self._lease, rows)
        await self._store.release(self._lease)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def read(
        self,
        *,
        after: int = -1,
        before: int | None = None,
        limit: int | None = None,
        where: EventFilter | None = None,
    ) -> list[Envelope]:
        """Events with `after` < id < `before`, oldest first, `limit` of them at most."""
        return await self._store.read(self.conversation_id, after=after, before=before, limit=limit, where=where)

    async def blob(self, ref: BlobRef) -> Blob | None:
        """The picture that an event of this conversation refers to; None if it is missing."""
        return await self._store.blob(self.conversation_id, ref)

    async def page(
        self, *, before: int | None = None, limit: int = 100, where: EventFilter | None = None
    ) -> list[Envelope]:
        """The last `limit` events before `before` (or of all), oldest first. Costs the page, not the history."""
        return await self._store.read(self.conversation_id, before=before, limit=limit, newest=True, where=where)
