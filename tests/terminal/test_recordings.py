"""What programs wrote to a terminal of 120 by 30, and what it shows in the end, compared with tmux.

`recordings/NAME.gz` has the bytes, `recordings/NAME.txt` what tmux shows, with its history. `npm install`,
`pip download`, `cargo build`, `pytest` and a visit to vim, between two prompts, were recorded from the programs.
`docker` is `docker build`, written after BuildKit's display for terminals (`util/progress/progressui/display.go`).

With HANDLOOM_SNAPSHOTS=write the test with tmux writes the texts again.
"""

from __future__ import annotations

import gzip
import os
import shlex
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from core.events.output import OutputBuffer, plain_text
from core.terminal import COLUMNS, ROWS
from core.terminal.text_screen import TextScreen
from tui.terminal_io.emulator import Emulator
from tui.terminal_io.pyte_emulator import PyteEmulator

HERE = Path(__file__).parent / "recordings"
NAMES = ("npm", "pip", "cargo", "pytest", "docker", "vim")
KINDS: list[type[Emulator]] = [PyteEmulator]
if find_spec("pyghostty") is not None:
    from tui.terminal_io.ghostty_emulator import GhosttyEmulator

    KINDS.append(GhosttyEmulator)


def recorded(name: str) -> bytes:
    return gzip.decompress((HERE / f"{name}.gz").read_bytes())


def shown_by_tmux(name: str) -> str:
    return (HERE / f"{name}.txt").read_text("utf-8")


def wrapped(text: str) -> list[str]:
    """The rows of a terminal: a longer line continues in the next one."""
    return [line[at : at + COLUMNS] for line in text.split("\n") for at in range(0, max(1, len(line)), COLUMNS)]


def tidy(lines: list[str]) -> str:
    """The lines without blanks at their ends and blank lines at the end."""
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


@pytest.mark.tmux
@pytest.mark.parametrize("name", NAMES)
def test_texts_are_what_tmux_shows(name: str, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(recorded(name))
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    path = shlex.quote(str(tmp_path / "bytes"))
    program = f"stty raw -echo; cat {path}; printf '\\033]2;all drawn\\007'; sleep 600"
    environ = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    subprocess.run([*tmux, "new-session", "-d", *size, program], check=True, env=environ)
    try:
        title = ""
        while title != "all drawn":
            time.sleep(0.05)
            title = subprocess.check_output([*tmux, "display-message", "-p", "#{pane_title}"], text=True).strip()
        shown = subprocess.check_output([*tmux, "capture-pane", "-p", "-S", "-"], text=True)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    if os.environ.get("HANDLOOM_SNAPSHOTS") == "write":
        (HERE / f"{name}.txt").write_text(tidy(shown.split("\n")), "utf-8")
    assert tidy(shown.split("\n")) == shown_by_tmux(name)


@pytest.mark.parametrize("name", NAMES)
def test_output_ends_as_in_tmux(name: str) -> None:
    assert tidy(wrapped(plain_text(recorded(name)))) == shown_by_tmux(name)


@pytest.mark.parametrize("piece", [1, 7, 500])
@pytest.mark.parametrize("name", NAMES)
def test_output_in_pieces_ends_as_in_tmux(name: str, piece: int) -> None:
    buffer, data = OutputBuffer(clock=float), recorded(name)
    for at in range(0, len(data), piece):
        buffer.feed(data[at : at + piece])
        if at % 1000 == 0:
            buffer.last(4)
    assert tidy(wrapped(buffer.last(ROWS))) in shown_by_tmux(name)
    assert tidy(wrapped(buffer.take(whole=True))) == shown_by_tmux(name)


@pytest.mark.parametrize("name", NAMES)
def test_last_screen_is_that_of_tmux(name: str) -> None:
    screen = TextScreen()
    screen.feed(recorded(name))
    assert tidy(wrapped(screen.take_scrolled() + screen.text())) == shown_by_tmux(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_terminal_pane_shows_what_tmux_shows(kind: type[Emulator], name: str) -> None:
    emulator = kind(COLUMNS, ROWS)
    data = recorded(name)
    for at in range(0, len(data), 4096):
        emulator.write(data[at : at + 4096])
        while emulator.work():
            pass
    lines = ["".join(run.text for run in emulator.line(y)) for y in range(emulator.height)]
    assert tidy(lines) == shown_by_tmux(name)


def test_vim_on_the_screen_is_shown_until_it_is_left() -> None:
    data = recorded("vim")
    left = data.rindex(b"\x1b[?1049l")
    buffer = OutputBuffer()
    buffer.feed(data[:left])
    first = buffer.take()
    assert first.startswith("$ vim notes.txt\n")
    assert "line 47 of the notes" in first
    assert first.endswith('"notes.txt" 59L, 1221B written')
    assert buffer.take() == first.removeprefix("$ vim notes.txt\n"), "the whole screen, not only what has changed"
    buffer.feed(data[left:])
    assert buffer.take() == "$"
