"""Sets the clipboard, and says how.

On this machine a program of the desktop sets it reliably. Over ssh it would set the wrong one, so there the terminal is
asked (OSC 52), which does not report whether it did. Inside tmux, tmux is used as well, because its client may be on
another machine than its environment says.
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
"""For a program that sets the clipboard; they need milliseconds, unless their display is unreachable."""


class Tool(NamedTuple):
    """A program that reads text for a clipboard from standard input."""

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
    return any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))


def desktop_tools(
    environ: Mapping[str, str],
    which: Callable[[str], str | None] = shutil.which,
    platform: str = sys.platform,
) -> list[Tool]:
    """Return the programs that set the clipboard of this machine's desktop, the best first; none over ssh."""
    if is_remote(environ):
        return []
    tools = [MAC] if platform == "darwin" else []
    tools += [WAYLAND] if environ.get("WAYLAND_DISPLAY") else []
    tools += X11 if environ.get("DISPLAY") else ()
    return [tool for tool in tools if which(tool.command[0])]


def run(tool: Tool, text: str) -> bool:
    """Set the clipboard by a program. Returns whether it succeeded. Blocks for up to TIMEOUT_S."""
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
    """Set the clipboard by programs, and return the names of those that did. Blocks for up to some seconds."""
    worked = []
    for tool in desktop_tools(environ) if tools is None else tools:
        if run(tool, text):
            worked.append(tool.name)
            break
    if environ.get("TMUX") and shutil.which("tmux") and run(TMUX, text):
        worked.append(TMUX.name)
    return worked


def how(worked: Sequence[str], sent: bool, environ: Mapping[str, str]) -> str:
    """Describe how the clipboard was set; empty if it was not. `sent` is about the terminal."""
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
    """Set the clipboard in every way that works here, and return a message for the user.

    `note` says what was copied; `emit` sends a sequence to the terminal; if `headless`, no program is run.
    """
    worked = await asyncio.to_thread(set_by_tools, text, environ, [] if headless else None)
    sequence = None if worked else escapes.clipboard(text, environ)
    if sequence is not None:
        emit(sequence)
    if way := how(worked, sequence is not None, environ):
        return _("{said} ({way}).").format(said=note, way=way)
    too_long = _("Not copied: {count} characters are more than terminals accept (OSC 52, 74 KB).")
    return too_long.format(count=f"{len(text):,}")
