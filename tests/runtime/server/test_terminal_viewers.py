"""Any number look on at the agent's terminal, and none of them can slow it down."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from core.events import Frame, Status, TerminalOutput
from runtime.server.outputs import BACKLOG_BYTES, SCREENFUL_BYTES, SKIPPED, TerminalViewers


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
