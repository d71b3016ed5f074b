"""Recorded terminal output: every byte is kept, without secrets and within limits, and packed into rows."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from core.errors import StoreError
from core.events import CmdOutputObservation, CmdRunAction, EventSource, TerminalOutput
from core.secrets import Redactor
from core.store.database import sqlite3
from core.store.event_store import EventStore
from core.store.recordings import (
    CUT,
    MAX_BYTES,
    RecordedFrame,
    RecordedRow,
    Recorder,
    pack_frames,
    unpack_frames,
    unpack_head,
)
from core.stream import EventStream
from tests.doubles import FINISH, bash
from tests.session.test_session import conversation, send_and_settle
from tests.tapes import recording_of

AT = datetime(2026, 11, 22, 13, 0, tzinfo=UTC)
ROW_BYTES = 65536


def frame(after: int, ms: int = 0, data: bytes = b"printed", *, is_echo: bool = False) -> RecordedFrame:
    return RecordedFrame(after, AT + timedelta(milliseconds=ms), TerminalOutput(after, data, is_echo))


def test_packed_frames_are_unpacked_unchanged() -> None:
    frames = [frame(3), frame(3, 1, b""), frame(3, 1500, b"\0\xff", is_echo=True), frame(4, 1500), frame(-1, 2000)]
    rows = pack_frames(frames)
    assert [(row.after, row.at) for row in rows] == [(3, frames[0].at), (4, frames[3].at), (-1, frames[4].at)]
    assert [each for row in rows for each in unpack_frames(row)] == frames
    assert pack_frames([]) == []


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([ROW_BYTES - 1, 1, 1], [2, 1]),
        ([ROW_BYTES, 1], [1, 1]),
        ([ROW_BYTES - 1, 0, 5], [3]),
        ([5, ROW_BYTES - 1, ROW_BYTES - 1, 1], [2, 2]),
    ],
)
def test_row_ends_when_it_is_long_enough(sizes: list[int], counts: list[int]) -> None:
    rows = pack_frames([frame(3, 0, b"x" * size) for size in sizes])
    assert [len(list(unpack_frames(row))) for row in rows] == counts


def test_jumping_times_are_clamped_to_what_a_row_can_hold() -> None:
    (row,) = pack_frames([frame(3), frame(3, -5000), frame(3, 2**32 + 7), frame(3, 2**32 - 1), frame(3, 1)])
    assert [each.at - AT for each in unpack_frames(row)] == [
        timedelta(milliseconds=ms) for ms in (0, 0, 2**32 - 1, 2**32 - 1, 1)
    ]


def test_times_are_converted_to_utc() -> None:
    (row,) = pack_frames([frame(3)])
    elsewhere = RecordedRow(3, AT.astimezone(timezone(timedelta(hours=5))), row.frames)
    assert [each.at.utcoffset() for each in unpack_frames(elsewhere)] == [timedelta(0)]
    assert unpack_head(elsewhere).at.utcoffset() == timedelta(0)


def test_first_frame_of_a_row_can_be_read_without_bytes() -> None:
    (row,) = pack_frames([frame(3, 0, bytes(range(256)) * 200, is_echo=True), frame(3, 9)])
    assert unpack_head(row) == frame(3, 0, b"", is_echo=True)
    assert unpack_head(RecordedRow(3, AT, row.frames[:1024])) == frame(3, 0, b"", is_echo=True)


def test_damaged_row_raises() -> None:
    with pytest.raises(struct.error):
        list(unpack_frames(RecordedRow(3, AT, zlib.compress(b"short"))))
    with pytest.raises(zlib.error):
        list(unpack_frames(RecordedRow(3, AT, b"no zlib")))


SECRET = "sk-0123456789abcdef"
RECORDED_AT = datetime(2026, 1, 2, tzinfo=UTC)


def recorder(*secrets: str) -> Recorder:
    return Recorder(Redactor(secrets), lambda: RECORDED_AT)


def printed(rows: tuple[RecordedRow, ...]) -> list[RecordedFrame]:
    return [frame for row in rows for frame in unpack_frames(row)]


def test_recorder_returns_frames_in_order() -> None:
    of = recorder()
    for after, data in ((0, b"a"), (0, b"\xff\x1b["), (2, b"31m")):
        of.add(TerminalOutput(1, data), after)
    assert [(each.after, each.frame.data) for each in printed(of.take())] == [
        (0, b"a"), (0, b"\xff\x1b["), (2, b"31m"),
    ]  # fmt: skip
    assert of.take() == ()


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_secret_is_redacted_even_if_split_between_frames(size: int) -> None:
    data = b"x" * (ROW_BYTES - 5) + SECRET.encode() + b" and " + SECRET.encode() + b"y" * ROW_BYTES
    of = recorder(SECRET)
    for place in range(0, len(data), size):
        of.add(TerminalOutput(1, data[place : place + size]), 0)
    kept = b"".join(each.frame.data for each in printed(of.take()))
    assert kept == data.replace(SECRET.encode(), b"*" * len(SECRET))


def test_recording_of_each_action_is_limited() -> None:
    of = recorder()
    for _ in range(MAX_BYTES // ROW_BYTES + 10):
        of.add(TerminalOutput(1, b"y" * ROW_BYTES), 0)
    of.add(TerminalOutput(2, b"next"), 1)
    frames = printed(of.take())
    assert [each.frame.data for each in frames[-2:]] == [CUT, b"next"]
    assert sum(len(each.frame.data) for each in frames[:-2]) == MAX_BYTES


async def test_frames_that_could_not_be_stored_go_with_the_next_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EventStore(tmp_path / "home") as store:
        stream = EventStream(store, await store.create_conversation("c", title="", workspace="/", model=""))
        stream.record(TerminalOutput(0, b"printed"))

        async def full(batch: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(store._writer, "_insert", full)
            with pytest.raises(StoreError):
                await stream.append(CmdRunAction(command="x"), EventSource.AGENT)
        await stream.append(CmdRunAction(command="x"), EventSource.AGENT)
        stream.record(TerminalOutput(0, b"last words"))
        await stream.aclose()
        frames = await recording_of(store, "c")
        assert [(each.after, each.frame.data) for each in frames] == [(-1, b"printed"), (0, b"last words")]


async def test_command_is_recorded_byte_for_byte(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("printf '\\033[31mred\\033[0m\\377\\n'")]}, FINISH]
    async with conversation(tmp_path, turns) as session:
        events = await send_and_settle(session)
        action = next(e for e in events if isinstance(e.event, CmdRunAction))
        result = next(e for e in events if isinstance(e.event, CmdOutputObservation))
        frames = [each for each in await recording_of(session._store, session.id) if each.frame.cause == action.id]
        assert b"\x1b[31mred\x1b[0m\xff\r\n" in b"".join(each.frame.data for each in frames)
        assert all(action.id <= each.after < result.id for each in frames)
