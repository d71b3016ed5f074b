"""The page's picture in a real terminal: xterm with sixel, on a virtual display.

It needs Xvfb, xterm and xdotool; where one of them is missing, the test is skipped by that name.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from tests.doubles import FINISH, write_script
from tests.journeys.real_xterm import BEGINS, RealXterm
from tests.journeys.test_page_pictures import QUARTERS, Site, same, site
from tests.program import Handloom

__all__ = ["site"]  # the fixture

pytestmark = [pytest.mark.browser, pytest.mark.xterm, pytest.mark.alone, pytest.mark.timeout(240)]

SIZE = (120, 36)


def page(seen: Image.Image) -> Image.Image | None:
    """The bounding box of the page's colours; None if none is visible."""
    found = Image.new("L", seen.size)
    for colour in QUARTERS:
        near = ImageChops.difference(seen, Image.new("RGB", seen.size, colour)).split()
        here = near[0]
        for channel in near[1:]:
            here = ImageChops.lighter(here, channel)
        found = ImageChops.lighter(found, here.point([255] * 10 + [0] * 246))
    box = found.getbbox()
    return seen.crop(box) if box and sum(found.histogram()[255:]) > 1000 else None


def shows(xterm: RealXterm, *, wider_than: int = 0) -> bool:
    """Whether all quarters are visible, each in its place with its size."""
    seen = page(xterm.seen())
    if seen is None or seen.width <= wider_than or abs(seen.width / seen.height - 1280 / 720) > 0.1:
        return False
    small = Image.new("RGB", (2, 2))
    small.putdata(QUARTERS)
    return same(seen, small.resize(seen.size, Image.Resampling.NEAREST))


def test_xterm_shows_the_page_only_in_its_pane(handloom: Handloom, site: Site) -> None:
    opened = {"name": "browser", "arguments": {"code": f"goto('{site.url}')", "security_risk": "LOW"}}
    model = write_script(handloom.workspace.parent, [{"tool_calls": [opened]}, FINISH])
    folder = Path(handloom.home).parent
    program = Handloom(folder, HANDLOOM__AGENT__CONFIRM="never")
    with closing(RealXterm(program, folder, "--model", model, size=SIZE)) as xterm:
        xterm.wait_for("waiting for you")
        xterm.press("g", "o", "Return")
        xterm.wait_for("finished")
        xterm.press("F5")
        xterm.until(lambda: shows(xterm), "the page is not seen")
        xterm.press("F5")
        xterm.until(lambda: shows(xterm, wider_than=600), "the page does not fill the screen")
        assert BEGINS in xterm.written
        before = xterm.press("F1")
        xterm.wait_for("ype to search", since=before)  # its first letter has the cursor
        xterm.until(lambda: not shows(xterm), "the page lies over a dialog")
        drawn = xterm.written.count(BEGINS)
        for key in "page":
            before = xterm.press(key)
            xterm.until(lambda: len(xterm.written) > before, "what is typed into the dialog is not seen")  # noqa: B023
        assert xterm.written.count(BEGINS) == drawn, "the page is drawn over the dialog"
        xterm.press("Escape")
        xterm.until(lambda: shows(xterm, wider_than=600), "the page is not seen after the dialog")
        xterm.press("F2")
        xterm.until(lambda: shows(xterm) and not shows(xterm, wider_than=600), "the page is not beside the chat")
        xterm.press("F2")
        xterm.until(lambda: page(xterm.seen()) is None, "a pane that is hidden leaves its picture")
        xterm.press("F5")
        xterm.until(lambda: shows(xterm), "the pane is back")
        xterm.press("ctrl+q")
        assert xterm.end() == 0
