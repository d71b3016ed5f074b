"""What the user does on the page while the browser is theirs: the agent's functions, and the keyboard and mouse.

A text that is hidden stands in no call: a place is kept for it, and it is put there last of all. It is in no error
either. A picker of files that a page opens is told, for nobody sees it here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from playwright.async_api import FileChooser

from core.events import BrowseInteractiveAction
from runtime.plugins.browser import functions
from runtime.plugins.browser.call_parser import Call
from runtime.plugins.browser.functions import Button, Step
from runtime.plugins.browser.tabs import HangError, Tabs

HIDDEN = BrowseInteractiveAction.HIDDEN
PICKER = "The page asks for a file. Choose its field by its letters and name a file of the workspace"


async def perform(tabs: Tabs, asked: Sequence[Call], say: Callable[[str], None], hidden: str) -> None:
    """As `functions.perform`, with the functions of this module too. Raises as that does."""

    def picks(chooser: FileChooser) -> None:
        tabs.notes.add(PICKER)

    page, picks_itself = tabs.active, any(call.name == "upload_file" for call in asked)
    if not picks_itself:
        page.on("filechooser", picks)
    try:
        whole = [call._replace(arguments=tuple(_put(value, hidden) for value in call.arguments)) for call in asked]
        await functions.perform(tabs, whole, say, OF_USERS)
        with suppress(HangError):  # which shows again when the page is looked at
            await tabs.drawn()  # a picker opens a little after the click
    finally:
        if not picks_itself:
            page.remove_listener("filechooser", picks)


def without(text: str, hidden: str) -> str:
    """The text without what is hidden. Playwright tells in its errors what was to be typed. Pure."""
    return text.replace(hidden, HIDDEN).replace(repr(hidden)[1:-1], HIDDEN) if hidden else text


def _put(value: Any, hidden: str) -> Any:
    return hidden if value == HIDDEN and hidden else value


async def keyboard_press(step: Step, key: str) -> None:
    """BrowserGym's: a key, or several at once such as `Control+A`, for what has the focus."""
    await step.tabs.active.keyboard.press(key)


async def mouse_click(step: Step, x: float, y: float, button: Button = "left") -> None:
    """BrowserGym's: a click on a place of the view."""
    await step.tabs.active.mouse.click(x, y, button=button)


async def reload(step: Step) -> None:
    """The page again, from where it came."""
    await step.tabs.active.reload()


OF_USERS = {function.__name__: function for function in (keyboard_press, mouse_click, reload)}
