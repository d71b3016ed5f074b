"""What a shell prints reaches the model, the disk and who looks on, each in its own measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import TerminalOutput
from runtime.protocol import NO_ACTION_ID
from runtime.server.outputs import OutputLog, Outputs, TerminalViewers

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
