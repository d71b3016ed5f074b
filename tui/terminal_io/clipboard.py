"""The clipboard: which ways lead to it from here, and which of them was gone.

On this machine a program of the desktop's sets it for certain; over ssh it would set the wrong one, so there the
terminal is asked (OSC 52), which cannot say whether it obeyed. Inside tmux, tmux is told as well: its client may sit on
another machine than its environment says. Nothing here draws; programs are run in a thread of the caller's.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tui.i18n import _
from tui.terminal_io import escapes

TIMEOUT_S = 3.0
"""For a program that sets the clipboard; they need milliseconds, unless their display is gone."""


class Tool(NamedTuple):
    """A program that reads a text from its standard input into a clipboard."""

    name: str
    command: tuple[str, ...]


WAYLAND = Tool("wl-copy", ("wl-copy",))
X11 = (
    Tool("xclip", ("xclip", "-selection", "clipboard", "-in")),
    Tool("xsel", ("xsel", "--clipboard", "--input")),
)
MAC = Tool("pbcopy", ("pbcopy",))
TMUX = Tool("tmux", ("tmux", "load-buffer", "-w", "-"))


def is_remote(environ: Mapping[str, str]) -> bool:
    """Whether the user sits at another machine."""
    return any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))


def desktop_tools(
    environ: Mapping[str, str],
    which: Callable[[str], str | None] = shutil.which,
    platform: str = sys.platform,
) -> list[Tool]:
    """The programs that set the clipboard of this machine's desktop, the best first; none over ssh."""
    if is_remote(environ):
        return []
    wanted: list[Tool] = []
    if platform == "darwin":
        wanted.append(MAC)
    if environ.get("WAYLAND_DISPLAY"):
        wanted.append(WAYLAND)
    if environ.get("DISPLAY"):
        wanted.extend(X11)
    return [tool for tool in wanted if which(tool.command[0])]


def run(tool: Tool, text: str) -> bool:
    """Set the clipboard by a program; whether it says that it did. Blocks for up to TIMEOUT_S."""
    try:
        done = subprocess.run(
            tool.command,
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,  # xclip stays to serve the text, and would hold a pipe open
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def set_by_tools(text: str, environ: Mapping[str, str], tools: Sequence[Tool] | None = None) -> list[str]:
    """Set the clipboard by what is there, and tell the names of what did it. Blocks for up to some seconds."""
    worked = []
    for tool in desktop_tools(environ) if tools is None else tools:
        if run(tool, text):
            worked.append(tool.name)
            break
    if environ.get("TMUX") and shutil.which("tmux") and run(TMUX, text):
        worked.append(TMUX.name)
    return worked


def how(worked: Sequence[str], sent: bool, environ: Mapping[str, str]) -> str:
    """The way that the text went, for people; empty where it went nowhere. `sent` is about the terminal."""
    if worked:
        return _(" and ").join(worked)
    if not sent:
        return ""
    if environ.get("TMUX"):
        return _("terminal, OSC 52 through tmux: needs set-clipboard on")
    return _("terminal, OSC 52: if nothing arrived, allow it in the terminal's settings")


async def copy(
    text: str, note: str, environ: Mapping[str, str], emit: Callable[[str], None], *, headless: bool = False
) -> str:
    """Set the clipboard by every way that leads there from here, and return what to tell the user.

    `note` says what was copied; `emit` sends a sequence to the terminal; without a terminal no program is run.
    """
    worked = await asyncio.to_thread(set_by_tools, text, environ, [] if headless else None)
    sequence = None if worked else escapes.clipboard(text, environ)
    if sequence is not None:
        emit(sequence)
    if way := how(worked, sequence is not None, environ):
        return _("{said} ({way}).").format(said=note, way=way)
    told = _("Not copied: {count} characters are more than a terminal takes (OSC 52, 74 KB).")
    return told.format(count=f"{len(text):,}")
