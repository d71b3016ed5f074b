"""Takes docs/page-in-a-terminal.png: what a real xterm shows of the browser pane, pixel for pixel.

    python -m tests.terminal_picture [--out docs]

It needs Xvfb, xterm and xdotool (on Debian: apt-get install xvfb xterm xdotool), fonts for xterm, and a Chromium; where
one of them is missing it says so, and leaves the picture that is there.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import closing
from pathlib import Path

from tests.journeys.real_xterm import BEGINS, RealXterm
from tests.machine import REQUIREMENTS
from tests.pictures import PAGE
from tests.program import Handloom

SIZE = (120, 40)
FONT = ("-fa", "DejaVu Sans Mono", "-fs", "10", "-xrm", "XTerm*pointerMode: 2", "-bd", "black")
"""A pointer that hides while keys are pressed, and no frame."""
COLOURS = 128


def take(out: Path, folder: Path) -> None:
    """Play the session in the terminal, and save the screen when the page is drawn."""
    program = Handloom(folder, HANDLOOM__AGENT__CONFIRM="never")
    with closing(RealXterm(program, folder, "--model", PAGE.model, size=SIZE, options=FONT)) as xterm:
        xterm.wait_for("waiting for you")
        xterm.press("g", "o", "Return")
        xterm.wait_for("finished")
        xterm.press("F5")
        xterm.until(lambda: BEGINS in xterm.written, "the page is not drawn")
        xterm.press("F5")
        xterm.until(lambda: xterm.rests, "the page changes all the time")
        seen = xterm.seen()
        seen.crop(seen.getbbox()).quantize(COLOURS).save(out / "page-in-a-terminal.png", optimize=True)


def main() -> None:
    """Take it, where that can be done."""
    parser = argparse.ArgumentParser(description="Take docs/page-in-a-terminal.png.")
    parser.add_argument("--out", type=Path, default=Path("docs"), metavar="DIR")
    out = parser.parse_args().out
    for name in ("xterm", "browser"):
        if why := REQUIREMENTS[name]():
            print(f"The picture of a page in a terminal stays as it is: {why}.")
            return
    with tempfile.TemporaryDirectory(prefix="handloom-terminal-") as folder:
        take(out, Path(folder))
    print(out / "page-in-a-terminal.png")


if __name__ == "__main__":
    main()
