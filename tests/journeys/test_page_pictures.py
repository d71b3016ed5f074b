"""The page's picture in a terminal that draws pictures: what is seen is the page, whatever moves, covers or changes it.

The terminal is emulated by the test, the rest is real: the screen on a PTY, Chromium, the page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image, ImageChops, ImageStat

from tests.doubles import FINISH, write_script
from tests.journeys.graphic_terminal import CELL, ITERM2, KITTY, SIXEL, GraphicTerminal, TerminalWithTmux
from tests.program import Handloom
from tui.terminal_io.graphics.picture_cells import KEPT_SIDE

pytestmark = [
    *(pytest.mark.browser, pytest.mark.alone, pytest.mark.timeout(240)),
    pytest.mark.usefixtures("no_isolation"),  # a sandbox has no way to the site of the test
]

WAIT_S = 60.0
PAGE = """<title>Quarters</title><style>
body { margin: 0; display: grid; grid-template: 1fr 1fr / 1fr 1fr; height: 100vh }
.other :first-child { background: black !important }
</style><body><div style="background:#c02020"></div><div style="background:#20a040"></div>
<div style="background:#2040c0"></div><div style="background:#e0c020"></div>
<script>fetch('/wait').then(() => document.body.className = 'other')</script>"""
QUARTERS = ((192, 32, 32), (32, 160, 64), (32, 64, 192), (224, 192, 32))
OTHER = ((0, 0, 0), *QUARTERS[1:])


class Site:
    """The page, which changes on request."""

    def __init__(self) -> None:
        self.may_change = may_change = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/wait":
                    may_change.wait(WAIT_S * 2)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                with suppress(ConnectionError):  # the page is gone, and asks for nothing any more
                    self.wfile.write(PAGE.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/"


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    thread = threading.Thread(target=served.server.serve_forever)
    thread.start()
    yield served
    served.may_change.set()
    served.server.shutdown()
    served.server.server_close()
    thread.join()


@contextmanager
def browsing(
    handloom: Handloom,
    site: Site,
    kind: str,
    answers: dict[bytes, str] | None = None,
    tmux: str | None = None,
    **environ: str,
) -> Iterator[GraphicTerminal]:
    """The workspace, in whose browser pane the page is open; with lines of its configuration, inside tmux."""
    opened = {"name": "browser", "arguments": {"code": f"goto('{site.url}')", "security_risk": "LOW"}}
    model = write_script(handloom.workspace.parent, [{"tool_calls": [opened]}, FINISH])
    environ = {"HANDLOOM__AGENT__CONFIRM": "never", **environ}
    terminal = (
        GraphicTerminal(handloom, "--model", model, kind=kind, **environ)
        if tmux is None
        else TerminalWithTmux(handloom, "--model", model, options=tmux, kind=kind, **environ)
    )
    terminal.answers = answers or {}
    try:
        terminal.wait_for("waiting for you")
        terminal.write("go\r")
        terminal.wait_for("finished")
        terminal.write("\x1b[15~")  # F5: the browser
        terminal.wait_for("take over", "Quarters", "live")
        terminal.write("\x1b[15~")  # all of the screen
        until(terminal, lambda: "Ready." not in terminal.screen, "the browser does not fill the screen")
        yield terminal
    finally:
        terminal.close()


def until(terminal: GraphicTerminal, is_so: Callable[[], bool], what: str) -> None:
    """Read on until something is so."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"{what}\n{terminal.screen}")
        terminal.read(0.1)


def shows(terminal: GraphicTerminal, quarters: tuple[tuple[int, int, int], ...], *, enlarged: bool = False) -> bool:
    """Whether the visible picture is the page or its upper left part, with its quarters in place."""
    seen = terminal.picture()
    if seen is None:
        return False
    small = Image.new("RGB", (2, 2))
    small.putdata(quarters)
    page = small.resize((1280, 720), Image.Resampling.NEAREST)
    if enlarged:  # eight pixels of the page in a column, and sixteen in a row
        page = page.crop((0, 0, seen.width // CELL[0] * 8, seen.height // CELL[1] * 16))
    return same(seen, page.resize(seen.size)) and not terminal.holes


def same(seen: Image.Image | None, other: Image.Image | None) -> bool:
    if seen is None or other is None or seen.size != other.size:
        return False
    return max(ImageStat.Stat(ImageChops.difference(seen, other)).mean) < 6


def cells_of(terminal: GraphicTerminal, colour: str) -> int:
    """How many cells have a ground of about a colour."""
    wanted = bytes.fromhex(colour)

    def is_near(told: str) -> bool:
        return len(told) == 6 and all(abs(a - b) < 12 for a, b in zip(bytes.fromhex(told), wanted, strict=True))

    rows = (terminal._screen.buffer[y] for y in range(terminal._screen.lines))
    return sum(is_near(cell.bg) for row in rows for cell in row.values())


def covered(terminal: GraphicTerminal) -> bool:
    """Whether the visible picture is a part of the page, or nothing."""
    return terminal.picture() is None or terminal.holes > 0


def widest(terminal: GraphicTerminal) -> int:
    return max(kept.image.width for kept in terminal.pictures.values())


def ends_whole(terminal: GraphicTerminal) -> bool:
    """Whether the program ends as it should, and leaves nothing."""
    terminal.write("\x11")
    return terminal.end() == 0 and terminal.is_whole and not terminal.pictures


@pytest.mark.parametrize("kind", [KITTY, SIXEL, ITERM2])
def test_page_is_drawn_and_updated(handloom: Handloom, site: Site, kind: str) -> None:
    with browsing(handloom, site, kind) as terminal:
        until(terminal, lambda: shows(terminal, QUARTERS), "the page is not seen")
        until(terminal, lambda: kind != KITTY or widest(terminal) > KEPT_SIDE, "not as sharp as the page is")
        erased = terminal.erased
        site.may_change.set()
        until(terminal, lambda: shows(terminal, OTHER), "the page is not seen as it is after its change")
        assert terminal.erased == erased, "cells flash up between two pictures"
        assert ends_whole(terminal)


@pytest.mark.parametrize("kind", [KITTY, SIXEL, ITERM2])
def test_moved_or_covered_picture_leaves_no_rest(handloom: Handloom, site: Site, kind: str) -> None:
    with browsing(handloom, site, kind) as terminal:
        until(terminal, lambda: shows(terminal, QUARTERS), "the page is not seen")
        terminal.resize(90, 30)
        until(terminal, lambda: shows(terminal, QUARTERS) and terminal.screen.count("\n") == 29, "after a resize")
        terminal.write("\x1bOP")  # F1
        until(terminal, lambda: "Type to search" in terminal.screen, "no dialog")
        until(terminal, lambda: covered(terminal), "a dialog does not cover the picture")
        drawn = terminal.drawn
        terminal.write("palette")
        until(terminal, lambda: "palette" in terminal.screen, "what is typed into the dialog is not seen")
        assert covered(terminal)
        assert terminal.drawn == drawn, "the picture is drawn over the dialog"
        terminal.write("\x1b")
        until(terminal, lambda: shows(terminal, QUARTERS), "after the dialog")
        terminal.write("z")  # its upper left part, as large as its pixels are
        until(terminal, lambda: shows(terminal, QUARTERS, enlarged=True), "enlarged")
        terminal.write("zf\x1b")
        until(terminal, lambda: shows(terminal, QUARTERS), "after the letters")
        terminal.write("\x1bOQ\x1bOQ")  # F2: the chat, all of the screen
        until(terminal, lambda: terminal.picture() is None, "a pane that is hidden leaves its picture")
        until(terminal, lambda: not terminal.pictures, "the terminal keeps it")
        before = terminal.sent_bytes
        site.may_change.set()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            terminal.read(0.2)
        assert terminal.sent_bytes == before, "nothing is sent for a pane that nobody sees"
        terminal.write("\x1b[15~")
        until(terminal, lambda: shows(terminal, OTHER), "the pane is back")
        assert ends_whole(terminal)


@pytest.mark.tmux
def test_tmux_passes_the_picture_on_to_kitty(handloom: Handloom, site: Site) -> None:
    with browsing(handloom, site, KITTY, tmux="set -g allow-passthrough on") as terminal:
        until(terminal, lambda: shows(terminal, QUARTERS), "the page is not seen")
        site.may_change.set()
        until(terminal, lambda: shows(terminal, OTHER), "the page is not seen as it is after its change")
        terminal.write("\x1bOP")  # F1
        until(terminal, lambda: covered(terminal), "a dialog does not cover the picture")
        terminal.write("\x1b")
        until(terminal, lambda: shows(terminal, OTHER), "after the dialog")
        terminal.write("\x11")
        assert terminal.end() == 0


@pytest.mark.tmux
@pytest.mark.parametrize(
    ("kind", "options"),
    [(KITTY, "set -g allow-passthrough off"), (ITERM2, "set -g allow-passthrough on")],
    ids=["nothing is passed on", "not kitty"],
)
def test_tmux_without_a_way_for_pictures_shows_the_page_in_cells(
    handloom: Handloom, site: Site, kind: str, options: str
) -> None:
    with browsing(handloom, site, kind, tmux=options) as terminal:
        site.may_change.set()
        until(terminal, lambda: cells_of(terminal, "000000") > 100, "the page is not drawn in cells")
        assert not terminal.sent
        assert not terminal.drawn


NONSENSE = {
    b"\x1b_G": "\x1b_Gi=31;ENOTSUPPORTED: \x07\x1b\\\x1b_Gi=99;OK\x1b\\",
    b"\x1b[>q": "\x1bP>|kitty" + "x" * 3000 + "\x1b\\",
    b"\x1b[16t": "\x1b[6;0;99999t\x1b[6;999;1t",
    b"\x1b[c": "\x1b[?4;4;4;;;999999999c\x1b[?62;22c",
}


@pytest.mark.parametrize("answers", [dict.fromkeys(NONSENSE, ""), NONSENSE], ids=["never", "nonsense"])
def test_without_a_graphics_reply_the_page_is_drawn_in_cells(
    handloom: Handloom, site: Site, answers: dict[bytes, str]
) -> None:
    with browsing(handloom, site, KITTY, answers) as terminal:
        until(terminal, lambda: terminal.asked >= 3, "nothing was asked")
        site.may_change.set()
        until(terminal, lambda: cells_of(terminal, "000000") > 100, "the page is not drawn in cells")
        assert not terminal.sent
        terminal.write("\x1bOQ")  # F2: the prompt has nothing in it
        terminal.wait_for("Ask for something")
        assert ends_whole(terminal)


def test_late_and_split_reply_is_recognised_and_types_nothing(handloom: Handloom, site: Site) -> None:
    with browsing(handloom, site, KITTY, dict.fromkeys(NONSENSE, "")) as terminal:
        until(terminal, lambda: cells_of(terminal, "c02020") > 100, "the page is not drawn in cells")
        terminal.answers = {}
        for piece in ("\x1bP>|kit", "ty(0.42.0)\x1b", "\\\x1b_", "Gi=31;", "OK\x1b\\\x1b[6;2", "0;10t\x1b[?62", ";22c"):
            terminal.write(piece)
            terminal.read(0.03)
        until(terminal, lambda: shows(terminal, QUARTERS), "the page is not seen")
        terminal.write("\x1bOQ")
        terminal.wait_for("Ask for something")
        assert ends_whole(terminal)


@pytest.mark.parametrize(
    ("kind", "wanted"), [(KITTY, "blocks"), (KITTY, "sixel"), (SIXEL, "kitty"), (KITTY, "off")], ids=lambda each: each
)
def test_graphics_setting_is_obeyed(handloom: Handloom, site: Site, kind: str, wanted: str) -> None:
    with browsing(handloom, site, kind, HANDLOOM__SCREEN__PICTURES=wanted) as terminal:
        if wanted == "off":
            terminal.wait_for("An image of")
        else:
            until(terminal, lambda: cells_of(terminal, "c02020") > 100, "the page is not drawn in cells")
        assert terminal.picture() is None
        assert bool(terminal.asked) is (wanted in ("sixel", "kitty"))
        assert ends_whole(terminal)


def test_other_program_on_the_terminal_sees_no_picture(handloom: Handloom, site: Site) -> None:
    """The editor has it, and then the page is seen again."""
    editor = handloom.workspace / "editor"
    editor.write_text("#!/bin/sh\necho EDITING > /dev/tty; read line < /dev/tty\n")
    editor.chmod(0o755)
    with browsing(handloom, site, KITTY, EDITOR=str(editor), VISUAL=str(editor)) as terminal:
        until(terminal, lambda: shows(terminal, QUARTERS), "the page is not seen")
        terminal.write("\x1bOQ")  # F2: the chat, and the browser beside it
        until(terminal, lambda: shows(terminal, QUARTERS) and "Ready." in terminal.screen, "beside the chat")
        terminal.write("\x1b[17;2~")  # shift+F6: back to the prompt
        terminal.wait_for("ctrl+j new line")
        terminal.write("\x07")  # ctrl+g
        terminal.wait_for("EDITING", raw=True)
        assert not terminal.pictures
        terminal.write("\r")
        until(terminal, lambda: shows(terminal, QUARTERS), "the page is not seen again")
        assert ends_whole(terminal)
