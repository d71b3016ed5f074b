"""For all tests of the screen: Pilot waits for an idle loop, style sheets are parsed once, frames are drawn if seen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.tui import idle, painting, parsed_styles
from tests.tui.workspace.running_app import Running, running

idle.install()
parsed_styles.install()
painting.install()


@pytest.fixture(autouse=True)
def frames_are_drawn_when_looked_at(request: pytest.FixtureRequest) -> Iterator[None]:
    """Unless the test has the marker `every_frame`."""
    if request.node.get_closest_marker("every_frame"):
        yield
        return
    with painting.only_when_looked_at():
        yield


@pytest.fixture(autouse=True)
def developer_has_no_other_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is in the home of whoever runs the tests."""
    monkeypatch.setenv("HANDLOOM__LIBRARY__OTHER_AGENTS", "hide")


@pytest.fixture
async def it() -> AsyncIterator[Running]:
    """The app on doubles, in a terminal of 120 x 40 cells, with one conversation."""
    async with running() as app:
        yield app
