"""A real xterm on a virtual display: its screenshots are read from the display's memory.

Keys go in by xdotool. What the program writes is kept, too, so that a test waits for a state and not for a time.
"""

from __future__ import annotations

import os
import shlex
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

from tests.program import HANDLOOM, Handloom

WAIT_S = 60.0
WIDTH, HEIGHT = 1400, 900
SIXEL = ("-ti", "vt340", "-xrm", "XTerm*decTerminalID: vt340", "-xrm", "XTerm*numColorRegisters: 256")
BEGINS = b"\x1bP0;1;0q"
"""A picture in sixels."""
QUIET_S = 2.0
_HEADER = struct.Struct(">25I")
"""Of the display's memory, which has the form of an X window dump."""


class RealXterm:
    """The program in xterm, as large as said. Close it."""

    def __init__(
        self,
        program: Handloom,
        folder: Path,
        *arguments: str,
        size: tuple[int, int],
        options: Sequence[str] = (),
    ) -> None:
        self._memory = folder / "Xvfb_screen0"
        self._log = folder / "written"
        reading, writing = os.pipe()
        screen = ("-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-nolisten", "tcp")
        self._display = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-fbdir", str(folder), *screen],
            pass_fds=[writing],
            stderr=subprocess.DEVNULL,
        )
        os.close(writing)
        with os.fdopen(reading) as told:
            self._environ = {**program.environ, "DISPLAY": f":{told.readline().strip()}"}
        command = ["env", "COLORTERM=truecolor", *HANDLOOM, *arguments]  # a variable that xterm takes away
        self._number = folder / "number"
        kept = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(self._number)]
        kept += ["script", "-qefc", shlex.join(command), str(self._log)]
        geometry = ["-geometry", f"{size[0]}x{size[1]}+0+0", "-b", "2", "+sb"]
        self._xterm = subprocess.Popen(
            ["xterm", "-u8", "-tn", "xterm-256color", *SIXEL, *geometry, *options, "-e", *kept],
            env=self._environ,
            cwd=program.workspace,
            stderr=subprocess.DEVNULL,
        )

    @property
    def written(self) -> bytes:
        """The program's output so far."""
        return self._log.read_bytes() if self._log.exists() else b""

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait until something is so."""
        end = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < end, f"{what}\n{self.written[-2000:].decode('utf-8', 'replace')!r}"
            assert self._xterm.poll() is None, f"xterm has ended: {what}"
            time.sleep(0.1)

    @property
    def rests(self) -> bool:
        """Whether nothing was written for a while."""
        return self._log.exists() and time.time() - self._log.stat().st_mtime > QUIET_S

    def wait_for(self, text: str, *, since: int = 0) -> None:
        self.until(lambda: text.encode() in self.written[since:], f"{text!r} was not written")

    def press(self, *keys: str) -> int:
        """Press keys by their names in X. Answers how much was written before."""
        before = len(self.written)
        pointer = ["mousemove", "200", "200"]  # who has the pointer has the keys
        subprocess.run(["xdotool", *pointer, "key", "--delay", "50", *keys], env=self._environ, check=True)
        return before

    def seen(self) -> Image.Image:
        """A screenshot of the display."""
        memory = self._memory.read_bytes()
        header = _HEADER.unpack_from(memory)
        start, width, height, line, colours = header[0] + header[19] * 12, header[4], header[5], header[12], header[19]
        assert colours >= 0
        return Image.frombytes("RGB", (width, height), memory[start : start + line * height], "raw", "BGRX", line)

    def end(self) -> int:
        """Wait for the end of the program."""
        return self._xterm.wait(WAIT_S)

    def close(self) -> None:
        """End what runs, with the display that it is on."""
        try:
            if self._xterm.poll() is None and self._number.exists():  # the program outlives a terminal that goes away
                os.kill(int(self._number.read_text()), signal.SIGTERM)
                self._xterm.wait(WAIT_S)
        finally:
            self._display.terminate()
            self._display.wait(WAIT_S)
            self._xterm.wait(WAIT_S)
