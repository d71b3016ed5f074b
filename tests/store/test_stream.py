"""The stream: durable, then visible; ordered for each subscriber; one's failure is not another's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import UsageError
from core.events import (
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    MessageAction,
    TaskTrackingAction,
    ToolCallMetadata,
)
from core.secrets import PLACEHOLDER, Redactor
from core.store.event_store import EventStore
from core.store.writer import Draft
from core.stream import EventStream, EventStreamSubscriber

USER, AGENT = EventSource.USER, EventSource.AGENT
MAIN, TEST = EventStreamSubscriber.MAIN, EventStreamSubscriber.TEST
SECRET = "hunter2-hunter2"


@pytest.fixture
async def stream(tmp_path: Path) -> AsyncIterator[EventStream]:
    async with EventStore(tmp_path) as store:
        lease = await store.create_conversation("c", title="", workspace="/w", model="m")
        opened = EventStream(store, lease, Redactor([SECRET]))
        yield opened
        await opened.aclose()


class Collector:
    def __init__(self) -> None:
        self.seen: list[Envelope] = []

    async def __call__(self, envelope: Envelope) -> None:
        self.seen.append(envelope)
        await asyncio.sleep(0)


async def test_every_subscriber_gets_every_event_once_in_order(stream: EventStream) -> None:
    first, second = Collector(), Collector()
    stream.subscribe(MAIN, first, "a")
    stream.subscribe(TEST, second, "a")
    await asyncio.gather(*(stream.append(MessageAction(content=str(n)), USER) for n in range(200)))
    await stream.settle()
    assert [e.id for e in first.seen] == [e.id for e in second.seen] == list(range(200))
    assert await stream.read() == first.seen


async def test_slow_subscriber_does_not_delay_others(stream: EventStream) -> None:
    release = asyncio.Event()

    async def slow(envelope: Envelope) -> None:
        await release.wait()

    quick = Collector()
    stream.subscribe(MAIN, slow, "slow")
    stream.subscribe(TEST, quick, "quick")
    await stream.append(MessageAction(content="x"), USER)
    async with asyncio.timeout(60):
        while not quick.seen:
            await asyncio.sleep(0)
    release.set()


async def test_subscriber_that_raises_is_isolated_and_reported(stream: EventStream) -> None:
    async def broken(envelope: Envelope) -> None:
        raise RuntimeError("no good")

    others = Collector()
    stream.subscribe(MAIN, broken, "broken")
    stream.subscribe(TEST, others, "others")
    await stream.append(MessageAction(content="x"), USER)
    await stream.settle()
    reports = [e.event for e in others.seen if isinstance(e.event, ErrorObservation)]
    assert [r.error_id for r in reports] == ["SUBSCRIBER$FAILED"]
    assert "main failed on event 0: RuntimeError: no good" in reports[0].content


async def test_subscriber_gets_only_the_requested_types(stream: EventStream) -> None:
    runs = Collector()
    stream.subscribe(MAIN, runs, "runs", types=[CmdRunAction])
    await stream.append(MessageAction(content="x"), USER)
    await stream.append(CmdRunAction(command="ls"), AGENT)
    await stream.settle()
    assert [e.id for e in runs.seen] == [1]


async def test_subscribers_use_no_threads_or_timers(stream: EventStream) -> None:
    """Waiting for events needs no thread and no timer."""
    threads, where = threading.active_count(), set()

    async def note(envelope: Envelope) -> None:
        where.add((threading.current_thread(), asyncio.get_running_loop()))

    for subscriber in EventStreamSubscriber:
        stream.subscribe(subscriber, note, "a")
    await stream.append(MessageAction(content="x"), USER)
    await stream.settle()
    assert where == {(threading.current_thread(), asyncio.get_running_loop())}
    assert threading.active_count() == threads
    assert vars(asyncio.get_running_loop())["_scheduled"] == []


async def test_callbacks_run_in_the_loop_of_their_conversation_without_time_limit(
    stream: EventStream,
) -> None:
    """A callback awaits results of others: it has no separate loop and no time limit."""
    release, ended = asyncio.Event(), asyncio.Event()

    async def patient(envelope: Envelope) -> None:
        await release.wait()
        ended.set()

    async def releasing(envelope: Envelope) -> None:
        release.set()

    stream.subscribe(MAIN, patient, "patient")
    stream.subscribe(TEST, releasing, "releasing")
    await stream.append(MessageAction(content="x"), USER)
    async with asyncio.timeout(60):
        await ended.wait()


async def test_callback_id_is_unique_for_a_subscriber(stream: EventStream) -> None:
    stream.subscribe(MAIN, Collector(), "a")
    with pytest.raises(ValueError, match="already exists: a"):
        stream.subscribe(MAIN, Collector(), "a")
    stream.unsubscribe(MAIN, "a")
    with pytest.raises(UsageError):
        stream.unsubscribe(MAIN, "a")


async def test_events_appended_together_get_consecutive_ids(stream: EventStream) -> None:
    drafts = [Draft(MessageAction(content=str(n)), USER) for n in range(3)]
    batches = await asyncio.gather(*(stream.append_all(drafts) for _ in range(20)))
    for batch in batches:
        ids = [e.id for e in batch]
        assert ids == list(range(ids[0], ids[0] + 3))


async def test_secrets_are_redacted_in_every_string_before_storing(stream: EventStream, tmp_path: Path) -> None:
    seen = Collector()
    stream.subscribe(MAIN, seen, "a")
    metadata = ToolCallMetadata(
        function_name="execute_bash",
        tool_call_id="1",
        model_response={"choices": [{"message": {"content": f"run with {SECRET}"}}]},
    )
    await stream.append(CmdRunAction(command=f"curl -u {SECRET}", tool_call_metadata=metadata), AGENT)
    await stream.append(TaskTrackingAction(task_list=[{"title": SECRET}]), AGENT)
    await stream.settle()
    assert isinstance(seen.seen[0].event, CmdRunAction)
    assert seen.seen[0].event.command == f"curl -u {PLACEHOLDER}"
    assert seen.seen[0].event.message == f"Running command: curl -u {PLACEHOLDER}"
    on_disk = b"".join(path.read_bytes() for path in tmp_path.glob("handloom.db*"))
    assert SECRET.encode() not in on_disk
    assert PLACEHOLDER.encode() in on_disk


async def test_subscriber_may_append_in_response(stream: EventStream) -> None:
    async def answer(envelope: Envelope) -> None:
        if envelope.source is USER:
            await stream.append(MessageAction(content="re"), AGENT, envelope.id)

    stream.subscribe(MAIN, answer, "a")
    await stream.append(MessageAction(content="x"), USER)
    await stream.settle()
    assert [(e.source, e.cause) for e in await stream.read()] == [(USER, None), (AGENT, 0)]


async def test_closing_lets_subscribers_finish_their_queues(tmp_path: Path) -> None:
    async with EventStore(tmp_path / "other") as store:
        lease = await store.create_conversation("d", title="", workspace="/w", model="m")
        stream, seen = EventStream(store, lease), Collector()
        stream.subscribe(MAIN, seen, "a")
        await asyncio.gather(*(stream.append(MessageAction(content="x"), USER) for _ in range(50)))
        await stream.aclose()
        assert len(seen.seen) == 50
        assert (await store.acquire("d")).next_id == 50
