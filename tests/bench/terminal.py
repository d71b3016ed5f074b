"""The terminal: a flood through the whole program, with frames and keys under it, and the echo of a key.

The flood goes all the way: a command of the agent in the sandbox's server, its socket, the emulator, the screen. Its
limit is the copy of the same bytes out of a raw PTY; that of an echo, the echo of a raw PTY; that of a key, a key at
rest. libghostty is measured where its package is installed, and not mentioned where it is not.
"""

from __future__ import annotations

import asyncio
import os
import pty
import random
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from core.events import CmdRunAction, Frame, Status, TerminalOutput
from runtime.local.local_runtime import LocalRuntime
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.program import WORKSPACE, WORKSPACE_DRAWN, Program
from tests.bench.size import sized
from tests.doubles import FINISH, bash, write_script
from tui.terminal_io.emulator import load_ghostty

ECHOES, KEYS_AT_REST = sized(60, 3), sized(40, 3)
FLOOD_BYTES = sized(100_000_000, 20_000_000)
"""What `cat` floods with."""
LINE = b"\x1b[32m%07d\x1b[0m the quick brown fox jumps over the lazy dog, and the dog sleeps on in the sun\r\n"
PIECE_BYTES = 64 * 1024
TAKEN = "STATUS$TERMINAL_TAKEN"
QUIET_S = 1.0
GAPS_S = (0.02, 0.05)
"""Between two keys of a fast typist."""
FIRST_GLYPH, SEED = 0x1401, 3
"""Canadian syllabics, which no screen draws; Braille is used by the spinner."""
BEGINS_FRAME = b"\x1b[?2026h"
FRAME_BYTES = 1000
"""A frame with a new screenful of the flood is larger; a frame for a key is smaller."""
WITHOUT_LIBGHOSTTY = {"PYGHOSTTY_LIB": "/nowhere"}


def measure() -> list[Figure]:
    with folder() as place:
        path = place / "flood"
        lines = b"".join(LINE % n for n in range(100_000))
        path.write_bytes((lines * (FLOOD_BYTES // len(lines) + 1))[:FLOOD_BYTES])
        figures = []
        kinds = {"pyte": (WITHOUT_LIBGHOSTTY, 0.2)}
        if load_ghostty() is not None:
            kinds["libghostty"] = ({}, 20)
        for name, (environ, target) in kinds.items():
            raw = [_raw(path)]
            rates, costs, frames, keys, at_rest = [], [], [], [], []
            for typing in (False, True):
                flood = _Flood(path, place / f"{name}-{typing}", environ)
                flood.run(typing=typing)
                rates.append(flood.rate)
                costs.append(flood.processor_s)
                frames += flood.frames_each_second if not typing else []
                keys += flood.keys_ms
                at_rest += flood.at_rest_ms
            limit = Limit("cat on a raw PTY", [*raw, _raw(path)])
            at_rest_limit = Limit("the same at rest", at_rest)
            figures.append(Figure(f"cat of 100 MB, {name}: taken in", "MB/s", rates, limit, [Target(target)]))
            figures.append(Figure(f"cat of 100 MB, {name}: processor time", "s", costs))
            figures.append(Figure(f"cat of 100 MB, {name}: frames", "1/s", frames, None, [Target(25)]))
            figures.append(
                Figure(f"cat of 100 MB, {name}: key to paint", "ms", keys, at_rest_limit, [Target(50, "p95")])
            )
        return [*figures, asyncio.run(_echo(place))]


class _Flood:
    """One flood of the whole program, on a home of its own."""

    def __init__(self, path: Path, place: Path, environ: Mapping[str, str]) -> None:
        place.mkdir()
        model = write_script(place, [{"tool_calls": [bash(f"cat {path}; echo flood''ed")]}, FINISH])
        self._environ = {"HANDLOOM_HOME": str(place / "home"), "HANDLOOM__AGENT__CONFIRM": "never", **environ}
        self._arguments = [*WORKSPACE, "--workspace", str(place), "--model", model]
        self.rate = 0.0
        """Megabytes per second, from the first line on the screen to the text after the last."""
        self.frames_each_second: list[float] = []
        self.processor_s = 0.0
        """Processor time of the screen, the sandbox's server and `cat` for a flood, whatever else the machine does."""
        self.keys_ms: list[float] = []
        self.at_rest_ms: list[float] = []

    def run(self, *, typing: bool) -> None:
        """Flood the terminal. Each key is an unused character, because sent text stays visible."""
        with Program(self._arguments, self._environ) as program:
            program.drawn(WORKSPACE_DRAWN)
            program.quiet(QUIET_S)
            if typing:
                self.at_rest_ms = [program.press(chr(FIRST_GLYPH + number)) for number in range(KEYS_AT_REST)]
            program.write("go\r")
            program.drawn(b"brown fox")
            before_s = _processor_s(program.pid)
            self._watch(program, chr(FIRST_GLYPH + KEYS_AT_REST) if typing else "")
            self.processor_s = _processor_s(program.pid) - before_s

    def _watch(self, program: Program, glyph: str) -> None:
        chance, started_at = random.Random(SEED), perf_counter()
        seen, frames, second, sent_at, next_at = b"", 0, started_at, 0.0, started_at
        while b"flooded" not in seen:
            now = perf_counter()
            if glyph and not sent_at and now >= next_at:
                program.write(glyph)
                sent_at = perf_counter()
            new = program.read(0.005)
            seen = seen[-20_000:] + new
            if sent_at and glyph.encode() in seen:
                self.keys_ms.append(milliseconds_since(sent_at))
                glyph, sent_at, next_at = chr(ord(glyph) + 1), 0.0, perf_counter() + chance.uniform(*GAPS_S)
            pieces = seen.split(BEGINS_FRAME)
            frames += sum(len(piece) > FRAME_BYTES for piece in pieces[:-1])
            seen = BEGINS_FRAME * (len(pieces) > 1) + pieces[-1]
            if now - second >= 1:
                self.frames_each_second.append(frames / (now - second))
                frames, second = 0, now
        ended_at = perf_counter()
        if not self.frames_each_second:  # it took less than a second
            self.frames_each_second.append(frames / (ended_at - second))
        self.rate = FLOOD_BYTES / 1e6 / (ended_at - started_at)


def _processor_s(pid: int) -> float:
    """Processor time of a process and its living and finished descendants. Linux only; 0 elsewhere."""
    total, parents = 0.0, {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        with suppress(OSError, ValueError):
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            parents[int(name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    family = {pid}
    while more := {one for one, (parent, _) in parents.items() if parent in family} - family:
        family |= more
    for one in family & parents.keys():
        total += parents[one][1]
    return total


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
