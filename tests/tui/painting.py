"""Draws the screen of a headless app when a test looks at it, not after every change in between.

Textual draws each frame of a headless app and throws it away, which took two fifths of the time of these tests. A test
that looks at the screen has it drawn then, and every test has its last frame drawn at its end. A test of what the app
remembers of a frame, or does while it draws one, has the marker `every_frame`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from textual._compositor import Compositor
from textual._context import active_app, visible_screen_stack

_TESTS: set[object] = set()
"""The running apps that draw only when the test looks."""


def install() -> None:
    """Let compositors of headless apps skip drawing unless a test looks."""
    original = Compositor.render_update

    def render_update(self: Compositor, full: bool = False, screen_stack: Any = None, **options: Any) -> Any:
        if not _TESTS or not active_app.get().is_headless:
            return original(self, full, screen_stack, **options)
        visible_screen_stack.set([] if screen_stack is None else screen_stack)
        self._dirty_regions.clear()
        return None

    setattr(Compositor, "render_update", render_update)  # noqa: B010


@contextmanager
def only_when_looked_at() -> Iterator[None]:
    """Skip frames of a headless app unless a test looks."""
    test = object()
    _TESTS.add(test)
    try:
        yield
    finally:
        _TESTS.discard(test)
