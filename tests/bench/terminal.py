"""The terminal: a flood through each emulator, frames and keys under it in the whole program, and the echo of a key.

The limit of a flood is the copy of the same bytes out of a raw PTY; that of an echo, the echo of a raw PTY. What
libghostty does is measured where its package is installed, and not mentioned where it is not.
"""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from core.events import CmdRunAction, Frame, Status, TerminalOutput
from runtime.local import LocalRuntime
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tui.vt import Emulator, Terminal, load_faster

ROUNDS, ECHOES = 5, 60
FLOOD_BYTES = 100_000_000
"""What `cat` floods with."""
LINE = b"\x1b[32m%07d\x1b[0m the quick brown fox jumps over the lazy dog, and the dog sleeps on in the sun\r\n"
FRAME_S, BUDGET_S = 1 / 30, 0.010
ROWS, COLUMNS = 40, 120
PIECE_BYTES = 64 * 1024
TAKEN = "STATUS$TERMINAL_TAKEN"


def measure() -> list[Figure]:
    with folder() as place:
        path = place / "flood"
        lines = b"".join(LINE % n for n in range(100_000))
        path.write_bytes((lines * (FLOOD_BYTES // len(lines) + 1))[:FLOOD_BYTES])
        limit = Limit("cat on a raw PTY", [_raw(path) for _ in range(2)])
        kinds: list[tuple[str, type[Terminal], float]] = [("pyte", Emulator, 0.2)]
        if (faster := load_faster()) is not None:
            kinds.append(("libghostty", faster, 20))
        figures = []
        for name, kind, target in kinds:
            rates, frames = _flood(kind, path)
            figures.append(Figure(f"cat of 100 MB, {name}: taken in", "MB/s", rates, limit, [Target(target)]))
            figures.append(Figure(f"cat of 100 MB, {name}: frames", "1/s", frames, None, [Target(25)]))
        return [*figures, asyncio.run(_echo(place))]


def _cat(path: Path) -> tuple[subprocess.Popen[bytes], int]:
    master, slave = pty.openpty()
    try:
        return subprocess.Popen(["cat", str(path)], stdout=slave, stdin=subprocess.DEVNULL), master
    finally:
        os.close(slave)


def _raw(path: Path) -> float:
    """Megabytes a second that a raw PTY gives."""
    child, master = _cat(path)
    started_at, size = perf_counter(), 0
    with suppress(OSError):
        while data := os.read(master, PIECE_BYTES):
            size += len(data)
    os.close(master)
    child.wait()
    return size / 1e6 / (perf_counter() - started_at)


def _flood(kind: type[Terminal], path: Path) -> tuple[list[float], list[float]]:
    """What is taken in and drawn of one flood, per second: megabytes and frames. The last line has to be there."""
    emulator = kind(COLUMNS, ROWS)
    child, master = _cat(path)
    os.set_blocking(master, False)
    rates, frames = [], []
    second, taken, drawn, is_over = perf_counter(), 0, 0, False
    while not is_over or emulator.pending:
        frame_at = perf_counter()
        while not is_over and perf_counter() - frame_at < FRAME_S - BUDGET_S - 0.008:
            try:
                data = os.read(master, PIECE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            is_over = not data
            taken += len(data)
            emulator.write(data)
        emulator.work(BUDGET_S)
        top = max(0, emulator.height - ROWS)
        assert [emulator.line(y) for y in range(top, top + ROWS)]
        drawn += 1
        if (now := perf_counter()) - second >= 1 and not is_over:
            rates.append(taken / 1e6 / (now - second))
            frames.append(drawn / (now - second))
            second, taken, drawn = now, 0, 0
    os.close(master)
    child.wait()
    last = "".join(run.text for run in emulator.line(emulator.height - 2))
    assert "the quick brown fox" in last or "sleeps" in last, last
    if not rates:
        now = perf_counter()
        rates, frames = [taken / 1e6 / (now - second)], [drawn / (now - second)]
    return rates, frames


async def _echo(place: Path) -> Figure:
    """From a key to its echo, through the sandbox's server while the user has the terminal, and on a raw PTY."""
    runtime = LocalRuntime(place)
    await runtime.start()
    shown, changed = bytearray(), asyncio.Event()
    ready = asyncio.Event()

    def on_frame(frame: Frame) -> None:
        if isinstance(frame, TerminalOutput):
            shown.extend(frame.data)
            changed.set()
        elif isinstance(frame, Status) and frame.id == TAKEN:
            ready.set()

    async def sees(text: bytes) -> None:
        while text not in shown:
            changed.clear()
            await changed.wait()

    turn = asyncio.create_task(runtime.execute(CmdRunAction(command="# taken", takes_over=True), 1, on_frame))
    ours, least = [], []
    try:
        await ready.wait()
        await runtime.type_keys(b"bash -c 'echo re\"\"ady; exec cat'\r")
        await sees(b"ready\r\n")
        master, slave = pty.openpty()
        for number in range(ECHOES):
            key = chr(0x2801 + number).encode()
            started_at = perf_counter()
            await runtime.type_keys(key)
            await sees(key)
            ours.append(milliseconds_since(started_at))
            started_at = perf_counter()
            os.write(master, key)
            assert os.read(master, 10)
            least.append(milliseconds_since(started_at))
        os.close(master)
        os.close(slave)
        await runtime.type_keys(b"\x03")
        await runtime.give_terminal_back()
        await turn
    finally:
        await runtime.aclose()
    return Figure("key to echo, terminal taken over", "ms", ours, Limit("raw PTY", least), [Target(10, "p95")])
