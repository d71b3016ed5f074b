"""What a terminal prints is kept with the event that comes next: every byte, no secret, and not without end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import StoreError
from core.events import CmdOutputObservation, CmdRunAction, EventSource, TerminalOutput
from core.secrets import Redactor
from core.store.database import sqlite3
from core.store.event_store import EventStore
from core.store.recordings import CUT, MAX_BYTES, ROW_BYTES, RecordedFrame, RecordedRow, Recorder, unpack_frames
from core.stream import EventStream
from tests.doubles import FINISH, bash
from tests.session.test_session import conversation, send_and_settle
from tests.tapes import recording_of

SECRET = "sk-0123456789abcdef"
AT = datetime(2026, 1, 2, tzinfo=UTC)


def recorder(*secrets: str) -> Recorder:
    return Recorder(Redactor(secrets), lambda: AT)


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


def test_the_recording_of_each_action_is_bounded() -> None:
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


async def test_a_command_is_recorded_byte_for_byte(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("printf '\\033[31mred\\033[0m\\377\\n'")]}, FINISH]
    async with conversation(tmp_path, turns) as session:
        events = await send_and_settle(session)
        action = next(e for e in events if isinstance(e.event, CmdRunAction))
        result = next(e for e in events if isinstance(e.event, CmdOutputObservation))
        frames = [each for each in await recording_of(session._store, session.id) if each.frame.cause == action.id]
        assert b"\x1b[31mred\x1b[0m\xff\r\n" in b"".join(each.frame.data for each in frames)
        assert all(action.id <= each.after < result.id for each in frames)
