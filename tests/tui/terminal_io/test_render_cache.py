"""What is no longer on the screen is no longer in memory."""

from __future__ import annotations

import gc
import weakref

from textual.widget import Widget

from tests.tui.workspace.running_app import running, until


async def test_closed_dialog_frees_its_strips() -> None:
    async with running() as it:
        for key in ("f1", "ctrl+p"):
            await it.press(key)
            drawn = [weakref.ref(widget._styles_cache) for widget in it.app.screen.query(Widget)]
            assert len(drawn) > 2
            await it.press("escape")
            assert it.shows_the_workspace
            await until(it.pilot, lambda: gc.collect() >= 0 and all(cache() is None for cache in drawn))  # noqa: B023
