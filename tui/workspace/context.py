"""Context: the part of the app that features use: the screen, the tabs, the manager, messages and dialogs.

`HandloomApp` implements it. A feature takes a `Context` and nothing else of the app, so a test can pass a small one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from textual.screen import Screen

    from core.conversations.conversation_manager import ConversationManager
    from tui.cli.options import StartOptions
    from tui.prompt.submission import Submission
    from tui.workspace.screen import Workspace
    from tui.workspace.tab import Tab
    from tui.workspace.tabs import Tabs

T = TypeVar("T")


class Context(Protocol):
    """The app as a feature sees it."""

    clock: Callable[[], float]
    manager: ConversationManager | None
    """None until the store is open."""
    options: StartOptions
    is_starting: bool
    """True until the first conversation has been opened."""
    connected: asyncio.Event
    """Set once the store is open."""
    submission: Submission
    tabs: Tabs
    workspace: Workspace

    def attempt(self, work: Coroutine[Any, Any, None], group: str = "default", *, exclusive: bool = False) -> None:
        """Run a coroutine in the background and report its errors. If exclusive, cancel what runs in its group."""

    def cancel(self, group: str) -> None:
        """Cancel the background work of a group."""

    def flash(self, message: str) -> None:
        """Show a line for three seconds."""

    def report(self, message: str) -> None:
        """Show a problem until the user dismisses it."""

    def wake(self, tab: Tab) -> None:
        """Draw a tab in the next frame, because it has changed."""

    def copy_to_clipboard(self, text: str, note: str = "") -> None:
        """Copy a text to the clipboard and say so."""

    def open_url(self, url: str) -> None:
        """Open an address in the user's web browser."""

    def push_screen(self, screen: Screen[T], callback: Callable[[T | None], None] | None = None) -> object:
        """Open a dialog; the callback gets its result."""

    async def push_screen_wait(self, screen: Screen[T]) -> T:
        """Open a dialog and wait for its result."""
        ...

    async def do(self, command_id: str, argument: str = "") -> None:
        """Carry out a command by its id."""
