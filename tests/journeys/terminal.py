"""A real terminal for the workspace: tmux, typed into and read by a test."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time
import uuid
from pathlib import Path

from tests.program import HANDLOOM, Handloom
from tui.dialogs.choice_dialog import HELD_GUARDS

GUARD_MS = "HANDLOOM__SCREEN__QUESTION_GUARD_MS"
WAIT_S = 90.0
"""Until something has to be on the screen: generous, because other tests may have the cores."""
READ_S = 3.0
"""Until a question that takes keys has moved its highlight."""
CHOOSES = 5
LOG_LINES = 30
"""How much of the program's log an error message contains."""


class Terminal:
    """A tmux server of its own with one shell in it. Close it."""

    def __init__(self, program: Handloom, columns: int, rows: int) -> None:
        self._socket = f"handloom-{uuid.uuid4().hex[:8]}"
        self._folder = program.workspace.parent
        variables = {GUARD_MS: "50", **program.environ, "TERM": "screen-256color"}
        self._guard_s = int(variables[GUARD_MS]) / 1000
        pairs = [f"{name}={value}" for name, value in variables.items()]
        shell = ["env", "-i", *pairs, "sh", "-i"]
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("new-session", "-d", *size, "-c", str(program.workspace), shlex.join(shell))

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout

    def type(self, text: str) -> None:
        """Type characters literally."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: Enter, Escape, C-q, F4."""
        self._tmux("send-keys", *keys)

    def agree(self, question: str = "Run this command?") -> None:
        """Allow the action of the current question once.

        The question shows what the command would carry out, which can be what it prints: it is gone when this returns.
        """
        self.wait_for(question)
        self.choose(1)
        self.wait_for(question, gone=True)

    def choose(self, row: int) -> None:
        """Take a row of the question by its number.

        The highlight goes to another row first: only a highlight that moves shows that the question takes keys.
        """
        for at in (2 if row == 1 else 1, row):
            self.highlight(at)
        self.press("Enter")

    def highlight(self, row: int) -> None:
        """Move the highlight to a row by its number."""
        for _attempt in range(CHOOSES):
            self.read_the_question()
            self.press(str(row))
            with contextlib.suppress(AssertionError):  # on a busy machine, the question was drawn only now
                self.wait_for(f"❯ {row} ", within_s=READ_S)
                return
        raise AssertionError(f"row {row} cannot be highlighted\n{self.screen}")

    def read_the_question(self) -> None:
        """Take as long as it takes until the question takes keys."""
        time.sleep(self._guard_s * HELD_GUARDS + 0.1)

    def handloom(self, *arguments: str) -> None:
        """Start the program from the shell."""
        self.type(shlex.join([*HANDLOOM, *arguments]))
        self.press("Enter")

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def is_alternate(self) -> bool:
        """Whether a full-screen program has the terminal."""
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def wait_for(self, *texts: str, gone: bool = False, within_s: float = WAIT_S) -> str:
        """Wait until all texts are on the screen (or none of them). Returns the screen.

        tmux does not notify of screen changes, so this is the only place that polls.
        """
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            screen = self.screen
            if all((text in screen) is not gone for text in texts):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{'still' if gone else 'not'} on the screen: {texts}\n{self.screen}\n{self._log_tail()}")

    def _log_tail(self) -> str:
        lines: list[str] = []
        for log in sorted(self._folder.rglob("logs/handloom.log")):
            lines += log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join(lines)

    def shell(self, command: str) -> str:
        """The output of a shell command while no program has the terminal."""
        path = Path(self._folder, f"said-{uuid.uuid4().hex[:6]}")
        self.type(f"{command} > {shlex.quote(str(path))}; echo rea''dy {path.name[-6:]}")
        self.press("Enter")
        self.wait_for(f"ready {path.name[-6:]}")
        return path.read_text()

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], capture_output=True, check=False, timeout=20)
