"""A bare bash on a pseudo-terminal, read without a loop: the least that a command can cost."""

from __future__ import annotations

import os
import pty
import subprocess
from types import TracebackType
from typing import Self

_END = b"\x1e"
_START = f"stty -echo; PS1=$'\\x{_END.hex()}'; PS2=\n".encode()


class BareShell:
    """Runs commands one after the other. Use as a context manager."""

    def __enter__(self) -> Self:
        self._fd, inner = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        os.write(self._fd, _START)
        self._read_to_prompt()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._fd)

    def run(self, command: str) -> bytes:
        """The output of one shell command."""
        os.write(self._fd, command.encode() + b"\n")
        return self._read_to_prompt()

    def skip(self, command: str) -> None:
        """Let one line of shell print, and keep nothing of it."""
        os.write(self._fd, command.encode() + b"\n")
        while not os.read(self._fd, 65536).endswith(_END):
            pass

    def _read_to_prompt(self) -> bytes:
        output = b""
        while not output.endswith(_END):
            output += os.read(self._fd, 65536)
        return output.removesuffix(_END)
