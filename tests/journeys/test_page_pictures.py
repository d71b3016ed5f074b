"""The page's picture in a terminal that draws pictures: what is seen is the page, whatever moves, covers or changes it.

The terminal is ours, the rest is real: the screen on a PTY, Chromium, the page.
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
from tests.journeys.graphic_terminal import KITTY, SIXEL, GraphicTerminal
from tests.program import Handloom

pytestmark = [pytest.mark.browser, pytest.mark.alone, pytest.mark.timeout(240)]

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
    """The page, which changes when it is told to."""

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
    handloom: Handloom, site: Site, kind: str, *, more: tuple[dict[str, object], ...] = (), **environ: str
) -> Iterator[GraphicTerminal]:
    """The workspace, in whose browser pane the page is open."""
    opened = {"name": "browser", "arguments": {"code": f"goto('{site.url}')", "security_risk": "LOW"}}
    model = write_script(handloom.workspace.parent, [{"tool_calls": [opened]}, *more, FINISH])
    environ = {"HANDLOOM__AGENT__CONFIRM": "never", **environ}
    terminal = GraphicTerminal(handloom, "--model", model, kind=kind, **environ)
    try:
        terminal.wait_for("waits for you")
        terminal.write("go\r")
        terminal.wait_for("finished")
        terminal.write("\x1b[15~\x1b[15~")  # F5: the browser, all of the screen
        terminal.wait_for("Quarters", "live")
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


def shows(terminal: GraphicTerminal, quarters: tuple[tuple[int, int, int], ...]) -> bool:
    """Whether what is seen is the page: its quarters in their places, and nothing else."""
    seen = terminal.picture()
    if seen is None:
        return False
    width, height = seen.size
    page = Image.new("RGB", (2, 2))
    page.putdata(quarters)
    difference = ImageChops.difference(seen, page.resize((width, height), Image.Resampling.NEAREST))
    return max(ImageStat.Stat(difference).mean) < 6 and not terminal.holes


def same(seen: Image.Image | None, other: Image.Image | None) -> bool:
    if seen is None or other is None or seen.size != other.size:
        return False
    return max(ImageStat.Stat(ImageChops.difference(seen, other)).mean) < 3


def covered(terminal: GraphicTerminal) -> bool:
    """Whether what is seen of the picture is a part of it, or nothing."""
    return terminal.picture() is None or terminal.holes > 0


def ends_whole(terminal: GraphicTerminal) -> bool:
    """Whether the program ends as it should, and leaves nothing."""
    terminal.write("\x11")
    return terminal.end() == 0 and terminal.is_whole and not terminal.pictures


@pytest.mark.parametrize("kind", [KITTY, SIXEL])
def test_the_page_is_seen_as_it_is_and_as_it_changes(handloom: Handloom, site: Site, kind: str) -> None:
    with browsing(handloom, site, kind) as terminal:
        until(terminal, lambda: shows(terminal, QUARTERS), "the page is not seen")
        site.may_change.set()
        until(terminal, lambda: shows(terminal, OTHER), "the page is not seen as it is after its change")
        assert ends_whole(terminal)


@pytest.mark.parametrize("kind", [KITTY, SIXEL])
def test_what_moves_and_covers_it_leaves_no_rest(handloom: Handloom, site: Site, kind: str) -> None:
    with browsing(handloom, site, kind) as terminal:
        until(terminal, lambda: shows(terminal, QUARTERS), "the page is not seen")
        terminal.resize(90, 30)
        until(terminal, lambda: shows(terminal, QUARTERS) and terminal.screen.count("\n") == 29, "after a resize")
        small = terminal.picture()
        terminal.write("\x1bOP")  # F1
        until(terminal, lambda: "Type to search" in terminal.screen, "no dialog")
        until(terminal, lambda: covered(terminal), "a dialog does not cover the picture")
        terminal.write("\x1b")
        until(terminal, lambda: shows(terminal, QUARTERS), "after the dialog")
        assert same(terminal.picture(), small)
        terminal.write("z")  # its upper left part, as large as its pixels are
        until(terminal, lambda: shows(terminal, (QUARTERS[0],) * 4), "enlarged")
        terminal.write("zf\x1b")
        until(terminal, lambda: shows(terminal, QUARTERS), "after the letters")
        terminal.write("\x1bOQ\x1bOQ")  # F2: the chat, all of the screen
        until(terminal, lambda: terminal.picture() is None, "a pane that is hidden leaves its picture")
        assert not terminal.pictures
        before = terminal.sent_bytes
        site.may_change.set()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            terminal.read(0.2)
        assert terminal.sent_bytes == before, "nothing is sent for a pane that nobody sees"
        terminal.write("\x1b[15~")
        until(terminal, lambda: shows(terminal, OTHER), "the pane is back")
        assert ends_whole(terminal)
