"""Only Handloom's own escape sequences reach a real terminal; without the strip filter, others would."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from io import StringIO

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tests.tui.terminal_io.hostile_app import PAYLOADS
from tui.terminal_io.strip_filter import clean, install

OWN_SEQUENCE = re.compile(
    rb"\x1b\[[0-9;:?<>=]*[ $]?[A-Za-z]|\x1b\]22;[a-z-]*\x07|\x1b_[G][^\x1b]*\x1b\\|\x1bP\+q[0-9a-fA-F]*\x1b\\"
)
ROWS, COLUMNS = 120, 100


def raw_output_of(mode: str, program: str = "hostile_app", rows: int = ROWS) -> bytes:
    """All bytes that a hostile program writes to its terminal until it ends."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TEXTUAL_ANIMATIONS": "none",
    }
    command = [sys.executable, "-m", f"tests.tui.terminal_io.{program}", mode]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    raw = b"".join(iter(lambda: read_terminal(ours), b""))
    os.close(ours)
    assert process.wait() == 0, raw[-2000:].decode(errors="replace")
    return raw


def read_terminal(terminal: int) -> bytes:
    """What comes next; nothing once the program has ended."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux tells that the other side of a terminal is gone
        return b""


def leaks(raw: bytes) -> list[str]:
    return [repr(payload) for payload in PAYLOADS if payload.encode() in raw]


def test_no_payload_reaches_terminal() -> None:
    raw = raw_output_of("guarded")
    assert leaks(raw) == []
    assert "␛]52".encode() in raw, "the panes should show what was there"
    rest = OWN_SEQUENCE.sub(b"", raw)
    assert b"\x1b" not in rest, re.findall(rb"\x1b.{0,20}", rest)


def test_payloads_leak_without_strip_filter() -> None:
    assert len(leaks(raw_output_of("open"))) > len(PAYLOADS) // 2


@pytest.fixture
def console() -> Console:
    install()
    return Console(file=StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False)


def test_strip_width_is_kept(console: Console) -> None:
    assert Strip([Segment("a\x1b[2Jb\x9b\u202ec漢")]).render(console) == "a[2Jbc漢"


def test_hostile_link_is_removed(console: Console) -> None:
    text = Strip([Segment("x", Style(link="http://x\x1b\\\x1b]52;c;eA==\x07"))]).render(console)
    assert text == "x"


def test_safe_link_is_kept(console: Console) -> None:
    text = Strip([Segment("x", Style(link="https://example.org/a?b=c"))]).render(console)
    assert ";https://example.org/a?b=c\x1b\\" in text


def test_clean_text_is_not_copied() -> None:
    text = "plain 漢字 \N{FAMILY}"
    assert clean(text) is text
