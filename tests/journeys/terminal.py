"""A real terminal: a shell in tmux, in which the program is started, typed at and looked at as a user would.

tmux is the terminal, so what it says of its own state (alternate screen, mouse, cursor) is what a user would be left
with. Waiting for what a screen shows has no event; `shows` is the one place that looks again and again.
"""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

LOOK_AGAIN_S = 0.05
WITHIN_S = 30.0
"""For the slowest thing that a test waits for, on a machine that does other things too."""
_numbers = itertools.count()


class Terminal:
    """A shell in a terminal of a given size. Use as a context manager."""

    def __init__(self, environ: Mapping[str, str], folder: Path, columns: int, rows: int) -> None:
        self._environ = {**environ, "TERM": "xterm-256color"}
        self._folder = folder
        self._size = (str(columns), str(rows))
        self._name = f"handloom-{os.getpid()}-{next(_numbers)}"

    def __enter__(self) -> Self:
        options = self._folder / "tmux.conf"
        options.write_text('set -g default-terminal "screen-256color"\nset -g status off\nset -g escape-time 0\n')
        columns, rows = self._size
        shell = "exec env PS1='ready> ' bash --norc --noprofile -i"
        self._tmux("-f", str(options), "new-session", "-d", "-x", columns, "-y", rows, shell)
        self.shows("ready>")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._name, *arguments],
            env=self._environ,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        """Press keys, named as tmux names them: Enter, C-q, F3, ..."""
        self._tmux("send-keys", *keys)

    def write(self, text: str) -> None:
        """Type a text as it is."""
        self._tmux("send-keys", "-l", text)

    def run(self, *command: str) -> None:
        """Type a command of the shell and press Enter."""
        self.write(shlex.join(command))
        self.press("Enter")

    @property
    def screen(self) -> str:
        """What is on the screen now, in lines."""
        return self._tmux("capture-pane", "-p")

    def shows(self, wanted: str | Callable[[str], bool], within_s: float = WITHIN_S) -> str:
        """Wait until the screen shows a text, or what a function wants to see; the answer is that screen."""
        deadline = time.monotonic() + within_s
        while True:
            screen = self.screen
            if wanted in screen if isinstance(wanted, str) else wanted(screen):
                return screen
            if time.monotonic() > deadline:
                raise AssertionError(f"the terminal does not show {wanted!r} but\n{screen}")
            time.sleep(LOOK_AGAIN_S)

    @property
    def modes(self) -> dict[str, str]:
        """The state of the terminal that a program can leave wrong."""
        names = ("alternate_on", "mouse_any_flag", "cursor_flag", "keypad_cursor_flag", "keypad_flag", "insert_flag")
        values = self._tmux("display-message", "-p", " ".join(f"#{{{name}}}" for name in names))
        return dict(zip(names, values.split(), strict=True))

    @property
    def pid(self) -> int:
        """The process id of the shell."""
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))
