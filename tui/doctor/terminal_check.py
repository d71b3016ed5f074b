"""The terminal and the clipboard: what can be drawn here, and the way that a copied text would go."""

from __future__ import annotations

import os
import re
import select
import shutil
import sys
import termios
import time
import tty

from tui.doctor.finding import Finding, Mark, Patient
from tui.i18n import _
from tui.terminal_io import clipboard as ways
from tui.terminal_io.escapes import QUERY_ABILITIES
from tui.terminal_io.glyphs import speaks_utf8
from tui.terminal_io.graphics.graphics_terminal import GraphicsTerminal, cell_size

ANSWERS_IN_S = 0.2
"""What a terminal takes to answer, over a slow connection, too."""
SMALLEST = (80, 24)
_DEVICE = "\x1b[c"
"""What every terminal answers."""
_LAST_ANSWER = re.compile(rb"\x1b\[\?[\d;]*c")
_SYNCHRONIZED = re.compile(rb"\x1b\[\?2026;[1-4]\$y")
_KITTY = re.compile(rb"\x1b\[\?\d+u")
_ANSWERS = re.compile(r"\x1b[_P][^\x1b\a]*\x1b\\|\x1b\[[?>\d;]*[ct]")


def terminal(patient: Patient) -> Finding:
    """What it says of itself, and what it answers where it can be asked."""
    environ = patient.environ
    term = environ.get("TERM", "")
    if term in ("", "dumb"):
        return Finding(
            Mark.NOTE,
            _("TERM is dumb or not set: the terminal cannot show a full screen"),
            _("Use: handloom --screen-reader, or handloom run TASK"),
        )
    columns, rows = shutil.get_terminal_size()
    facts = [term, _colours(patient), f"{columns}x{rows}"]
    if inside := next((name for name in ("TMUX", "STY") if environ.get(name)), ""):
        facts.append("tmux" if inside == "TMUX" else "screen")
    if ways.is_remote(environ):
        facts.append("ssh")
    if patient.on_terminal:
        questions: list[str] = []
        pictures = GraphicsTerminal("auto", environ, questions.append, lambda: cell_size(sys.__stdin__))
        pictures.query()
        answer = _ask("".join(questions).removesuffix(_DEVICE) + QUERY_ABILITIES)
        for told in _ANSWERS.findall(answer.decode("latin-1")):
            pictures.handle_reply(told)
        facts += [_("synchronized output")] * bool(_SYNCHRONIZED.search(answer))
        facts += [_("kitty keyboard")] * bool(_KITTY.search(answer))
        facts += {"kitty": [_("kitty graphics")], "sixel": [_("sixel graphics")]}.get(pictures.method, [])
    found = ", ".join(facts)
    if not speaks_utf8(environ):
        return Finding(Mark.NOTE, found, _("Only ASCII characters can be shown. Set LANG to a UTF-8 locale."))
    if patient.on_terminal and (columns < SMALLEST[0] or rows < SMALLEST[1]):
        return Finding(Mark.NOTE, found, _("Enlarge the window to at least 80 columns and 24 rows."))
    return Finding(Mark.OK, found)


def _colours(patient: Patient) -> str:
    environ = patient.environ
    if environ.get("NO_COLOR"):
        return _("no colours (NO_COLOR)")
    if environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return _("{count} colours").format(count="16 M")
    return _("{count} colours").format(count="256" if "256" in environ.get("TERM", "") else "16")


def _ask(questions: str) -> bytes:
    """What the terminal answers within ANSWERS_IN_S; nothing where it is another program's at the moment. Blocks.

    The last question is _DEVICE.
    """
    fd, answer = sys.stdin.fileno(), b""
    if os.tcgetpgrp(fd) != os.getpgrp():
        return answer
    before = termios.tcgetattr(fd)
    ends_at = time.monotonic() + ANSWERS_IN_S
    try:
        tty.setcbreak(fd)
        os.write(sys.stdout.fileno(), questions.encode())
        while (left_s := ends_at - time.monotonic()) > 0 and not _LAST_ANSWER.search(answer):
            if select.select([fd], [], [], left_s)[0]:
                answer += os.read(fd, 1024)
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)
    return answer


def clipboard(patient: Patient) -> Finding:
    """The way that a copied text would go."""
    environ = patient.environ
    tools = ways.desktop_tools(environ, lambda name: shutil.which(name, path=environ.get("PATH")))
    if tools:
        return Finding(Mark.OK, tools[0].name)
    if environ.get("TERM", "") in ("", "dumb"):
        return Finding(Mark.NOTE, _("not available"), _("Use a terminal that supports OSC 52."))
    if environ.get("WAYLAND_DISPLAY") or environ.get("DISPLAY"):
        advice = _("Install wl-clipboard or xclip, unless your terminal supports OSC 52.")
        return Finding(Mark.NOTE, ways.how([], True, environ), advice)
    return Finding(Mark.OK, ways.how([], True, environ))
