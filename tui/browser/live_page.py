"""The live page of a conversation's browser: fetched for as long as its pane is in sight."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.screen import Screen

    from tui.terminal_io.graphics.picture_cells import Pixels
    from tui.workspace.conversation import ConversationTab


class LivePageWatcher:
    """Watches the page of one conversation at a time."""

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self._watched: ConversationTab | None = None

    def watch(self, tab: ConversationTab | None) -> None:
        """Watch the page of this conversation, and no other; None watches none."""
        if tab is self._watched:
            return
        self._watched = tab
        self._screen.workers.cancel_group(self._screen, "page")
        if tab is not None:
            begin = partial(_follow_page, tab)  # no coroutine yet: the worker may end before it runs
            self._screen.run_worker(begin, group="page")  # type: ignore[arg-type]

    def restart(self) -> None:
        """Fetch the page from its beginning, such as when more of its pixels are wanted."""
        tab, self._watched = self._watched, None
        self._screen.workers.cancel_group(self._screen, "page")
        self.watch(tab)


async def _follow_page(tab: ConversationTab) -> None:
    """Bring the living page to the tab's model until cancelled, or until it turns out that there is no browser."""
    from core.errors import UsageError
    from tui.terminal_io.graphics.picture_cells import PictureError, decoded

    with suppress(UsageError):
        async with aclosing(tab.session.runtime.watch_page()) as pages:
            try:
                async for page in pages:
                    try:
                        pixels: Pixels | str = await asyncio.to_thread(decoded, page.data, tab.browser.side)
                    except PictureError as error:
                        pixels = str(error)
                    tab.browser.show_live(page, pixels)
            finally:
                tab.browser.end_live()
