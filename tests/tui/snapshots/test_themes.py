"""The same conversation in every theme, without colours, and in ASCII."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from core.events import CmdRunAction, EventSource, FileEditAction, FileEditObservation
from core.screen_settings import ScreenSettings
from tests.tui.frame.running import Running, running
from tests.tui.snapshots.comparing import compare
from tui.themes import OURS

SIZE = (100, 30)
ANSWER = "I looked at **three** files. The bug is in `parse()`:\n\n```python\nreturn int(text) + 1  # off by one\n```"


@pytest.fixture(autouse=True)
def _pinned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same clock everywhere, and nothing of whoever runs the test."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("LANG", "C.UTF-8")
    for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def conversation(it: Running) -> None:
    """A message, an answer, a command that failed, an edit, and a question: what a theme has to tell apart."""
    session = it.session
    await session.send("Please mend the parser.")
    await session.say(ANSWER)
    await session.run("pytest -q", "1 failed, 3 passed\n", 1)
    edit = await session.stream.append(FileEditAction(path="parser.py"))
    diff = "@@ -1,2 +1,2 @@\n def parse(text):\n-    return int(text) + 1\n+    return int(text)"
    observed = FileEditObservation(path="parser.py", diff=diff)
    await session.stream.append(observed, EventSource.ENVIRONMENT, edit.id)
    await session.hold(CmdRunAction(command="rm -rf build"))
    await it.settle()
    await it.press("f2", "up")


@pytest.mark.parametrize("name", sorted(path.stem for path in OURS.glob("*.toml")))
async def test_the_theme_looks_as_it_did(name: str) -> None:
    async with running(size=SIZE, theme=name) as it:
        await conversation(it)
        compare(name, it.app)


async def test_without_colours_it_looks_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(size=SIZE) as it:
        await conversation(it)
        compare("no-color", it.app)


async def test_in_ascii_it_looks_as_it_did() -> None:
    async with running(size=SIZE, screen=ScreenSettings(glyphs="ascii")) as it:
        await conversation(it)
        compare("ascii", it.app)
