"""Shell output reaches the model, the disk and viewers, each with its own limit."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from core.events import Frame, Status, TerminalOutput
from runtime.protocol import NO_ACTION_ID
from runtime.server.outputs import BACKLOG_BYTES, SCREENFUL_BYTES, SKIPPED, OutputLog, Outputs, TerminalViewers

LIVE_BYTES = 262_144


@pytest.fixture
def printed(tmp_path: Path) -> OutputLog:
    outputs = Outputs(max_output_bytes=2**20, max_total_bytes=2**22, max_outputs=5, folders=[str(tmp_path)])
    return OutputLog(outputs, TerminalViewers())


def test_output_is_stored_shown_and_read(printed: OutputLog) -> None:
    printed.action_id = 7
    printed.feed(b"one\r\n")
    output = printed.output
    printed.feed(b"two\r\n")
    assert printed.total_bytes == 10
    assert printed.output is output
    assert output is not None
    assert output.read(0, 99) == b"one\ntwo\n"
    assert printed.unread.take().split() == ["one", "two"]
    assert printed.take_live() == TerminalOutput(7, b"one\r\ntwo\r\n")
    assert printed.take_live() is None


def test_each_command_has_a_separate_output(printed: OutputLog) -> None:
    printed.end()
    assert printed.output is None
    printed.action_id = 7
    printed.feed(b"one\r\n")
    first = printed.output
    printed.end()
    printed.feed(b"two\r\n")
    assert first is not None
    assert printed.output is not None
    assert (first.number, printed.output.number) == (1, 2)
    assert printed.take_live() == TerminalOutput(NO_ACTION_ID, b"one\r\ntwo\r\n")


def test_live_bytes_are_limited(printed: OutputLog) -> None:
    printed.feed(b"x" * LIVE_BYTES)
    assert not printed.is_backed_up
    printed.feed(b"y")
    assert printed.is_backed_up
    printed.drop_old()
    assert not printed.is_backed_up
    live = printed.take_live()
    assert live is not None
    assert live.data == b"x" * (LIVE_BYTES - 1) + b"y"


def test_unread_output_can_be_dropped(printed: OutputLog) -> None:
    printed.feed(b"one\r\n")
    printed.drop_unread()
    assert printed.take_live() is None
    assert printed.unread.take() == ""
    assert printed.total_bytes == 5


async def test_application_mode_ends_with_the_command(printed: OutputLog) -> None:
    assert not printed.wants_application_keys
    printed.feed(b"\x1b[?1h")
    printed.feed(b"more")
    assert printed.wants_application_keys
    await printed.begin()
    assert not printed.wants_application_keys


def line(number: int) -> TerminalOutput:
    return TerminalOutput(1, b"%06d\r\n" % number)


async def everything(viewers: TerminalViewers) -> list[Frame]:
    async with aclosing(viewers.watch()) as frames:
        return [frame async for frame in frames]


async def test_every_viewer_sees_all_output() -> None:
    viewers = TerminalViewers()
    viewers.show(line(0))
    watching = [asyncio.create_task(everything(viewers)) for _ in range(3)]
    while viewers.count < 3:
        await asyncio.sleep(0)
    for number in range(1, 100):
        viewers.show(line(number))
    viewers.close()
    assert await asyncio.gather(*watching) == [[line(number) for number in range(100)]] * 3
    assert viewers.count == 0


async def test_late_viewer_starts_with_the_last_screenful() -> None:
    viewers = TerminalViewers()
    for number in range(100_000):
        viewers.show(line(number))
    viewers.close()
    seen = await everything(viewers)
    assert seen[-1] == line(99_999)
    assert len(seen) == SCREENFUL_BYTES // 8


async def test_screenful_of_one_large_frame_starts_at_a_line() -> None:
    viewers = TerminalViewers()
    viewers.show(TerminalOutput(1, b"".join(line(number).data for number in range(10_000))))
    viewers.close()
    (frame,) = await everything(viewers)
    assert isinstance(frame, TerminalOutput)
    assert frame.data.startswith(b"00")
    assert frame.data.endswith(b"009999\r\n")
    assert SCREENFUL_BYTES - 8 <= len(frame.data) <= SCREENFUL_BYTES


async def test_slow_viewer_skips_output_and_is_notified() -> None:
    viewers = TerminalViewers()
    slow = viewers.watch()
    viewers.show(line(0))
    assert await anext(slow) == line(0)
    quick = asyncio.create_task(everything(viewers))
    count = 3 * BACKLOG_BYTES // 8
    for number in range(1, count):
        viewers.show(line(number))
        if number % 1000 == 0:
            await asyncio.sleep(0)
    viewers.close()
    assert len(await quick) == count
    seen = [frame async for frame in slow]
    told = [frame for frame in seen if isinstance(frame, Status)]
    shown = sum(len(frame.data) for frame in seen if isinstance(frame, TerminalOutput))
    assert shown <= BACKLOG_BYTES
    assert seen[-1] == line(count - 1)
    assert [status.id for status in told] == [SKIPPED]
