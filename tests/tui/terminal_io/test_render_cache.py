"""What is no longer on the screen is no longer in memory."""

from __future__ import annotations

import gc
import weakref

from textual._styles_cache import StylesCache
from textual.widget import Widget

from tests.tui.workspace.running_app import running, until
from tui.terminal_io.textual_patches import render_cache


async def test_a_dialog_that_was_left_takes_along_what_was_drawn_of_it() -> None:
    async with running() as it:
        for key in ("f1", "ctrl+p"):
            await it.press(key)
            drawn = [weakref.ref(widget._styles_cache) for widget in it.app.screen.query(Widget)]
            assert len(drawn) > 2
            await it.press("escape")
            assert it.shows_the_workspace
            await until(it.pilot, lambda: gc.collect() >= 0 and all(cache() is None for cache in drawn))  # noqa: B023


def test_it_may_be_installed_twice() -> None:
    render_cache.install()
    found = StylesCache.get_inner_outer
    render_cache.install()
    assert StylesCache.get_inner_outer is found
