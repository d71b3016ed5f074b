"""BrowserGym's functions: the same names, arguments, patience and errors, on the active tab.

Those are its subsets `chat`, `infeas`, `bid`, `nav` and `tab` and `noop`, which are what OpenHands V0 gives its agents.
Follows `browsergym/core/action/functions.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from playwright.async_api import Error, Locator

from runtime.plugins.browser import addresses
from runtime.plugins.browser.call_parser import Call
from runtime.plugins.browser.extraction import find
from runtime.plugins.browser.tabs import Tabs

ELEMENT_MS = 500
"""BrowserGym's patience with an element."""
MAX_WAIT_MS = 30_000
ACTS_S, NAVIGATES_S = 10.0, 35.0
"""For a function as a whole: each has its own patience, but where a page hangs, that does not hold."""
GOTO_TRIES = 10
"""A page that loads itself anew without end takes the way to the next one away as often as it can."""
NAVIGATES = frozenset({"goto", "go_back", "go_forward", "noop", "reload"})

Button = Literal["left", "middle", "right"]
Modifiers = Sequence[Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]]


Function = Callable[..., Awaitable[Any]]


async def perform(
    tabs: Tabs, calls: Sequence[Call], say: Callable[[str], None], others: Mapping[str, Function] = MappingProxyType({})
) -> None:
    """Carry out calls in order; what one raises ends the step. `say` takes what is for the user.

    `others` are functions beside FUNCTIONS. Raises NameError for a function that there is not, before anything is
    carried out.
    """
    known = {**FUNCTIONS, **others}
    for call in calls:
        if call.name not in known:
            raise NameError(f"Invalid action type '{call.name}'.")
    for call in calls:
        async with asyncio.timeout(NAVIGATES_S if call.name in NAVIGATES else ACTS_S):
            await known[call.name](Step(tabs, say), *call.arguments, **call.named)


class Step:
    """What functions act on."""

    def __init__(self, tabs: Tabs, say: Callable[[str], None]) -> None:
        self.tabs = tabs
        self.say = say

    async def element(self, bid: str) -> Locator:
        """Raises ValueError where there is none."""
        return await find(self.tabs.active, bid)


async def noop(step: Step, wait_ms: float = 1000) -> None:
    await step.tabs.active.wait_for_timeout(min(wait_ms, MAX_WAIT_MS))


async def send_msg_to_user(step: Step, text: str) -> None:
    if not isinstance(text, str):
        raise ValueError(f"Forbidden value: {text} is not a string")
    step.say(text)


async def report_infeasible(step: Step, reason: str) -> None:
    if not isinstance(reason, str):
        raise ValueError(f"Forbidden value: {reason} is not a string")
    step.say(reason)


async def fill(step: Step, bid: str, value: str) -> None:
    await (await step.element(bid)).fill(value, timeout=ELEMENT_MS)


async def select_option(step: Step, bid: str, options: str | list[str]) -> None:
    await (await step.element(bid)).select_option(options, timeout=ELEMENT_MS)


async def click(step: Step, bid: str, button: Button = "left", modifiers: Modifiers = ()) -> None:
    element = await step.element(bid)
    await element.click(button=button, modifiers=list(modifiers), timeout=ELEMENT_MS)


async def dblclick(step: Step, bid: str, button: Button = "left", modifiers: Modifiers = ()) -> None:
    element = await step.element(bid)
    await element.dblclick(button=button, modifiers=list(modifiers), timeout=ELEMENT_MS)


async def hover(step: Step, bid: str) -> None:
    await (await step.element(bid)).hover(timeout=ELEMENT_MS)


async def press(step: Step, bid: str, key_comb: str) -> None:
    await (await step.element(bid)).press(key_comb, timeout=ELEMENT_MS)


async def focus(step: Step, bid: str) -> None:
    await (await step.element(bid)).focus(timeout=ELEMENT_MS)


async def clear(step: Step, bid: str) -> None:
    await (await step.element(bid)).clear(timeout=ELEMENT_MS)


async def drag_and_drop(step: Step, from_bid: str, to_bid: str) -> None:
    mouse = step.tabs.active.mouse
    await (await step.element(from_bid)).hover(timeout=ELEMENT_MS)
    await mouse.down()
    await (await step.element(to_bid)).hover(timeout=ELEMENT_MS)
    await mouse.up()


async def upload_file(step: Step, bid: str, file: str | list[str]) -> None:
    element = await step.element(bid)
    async with step.tabs.active.expect_file_chooser() as chooser:
        await element.click(timeout=ELEMENT_MS)
    await (await chooser.value).set_files(file)


async def scroll(step: Step, delta_x: float, delta_y: float) -> None:
    await step.tabs.active.mouse.wheel(delta_x, delta_y)


async def goto(step: Step, url: str) -> None:
    if why_not := addresses.why_not(url):
        raise ValueError(why_not)
    page = step.tabs.active
    for tries_left in reversed(range(GOTO_TRIES)):
        left = page.url
        try:
            await page.goto(url)
            return
        except Error as error:
            if f'is interrupted by another navigation to "{url}"' in error.message:  # of our last try
                await page.wait_for_load_state()
                return
            if not tries_left or f'is interrupted by another navigation to "{left}"' not in error.message:
                raise


async def go_back(step: Step) -> None:
    await step.tabs.active.go_back()


async def go_forward(step: Step) -> None:
    await step.tabs.active.go_forward()


async def new_tab(step: Step) -> None:
    await step.tabs.open()


async def tab_close(step: Step) -> None:
    await step.tabs.active.close()
    if not step.tabs.context.pages:
        await step.tabs.open()


async def tab_focus(step: Step, index: int) -> None:
    step.tabs.active = step.tabs.context.pages[index]
    await step.tabs.active.bring_to_front()


FUNCTIONS: dict[str, Function] = {
    function.__name__: function
    for function in (
        noop,
        send_msg_to_user,
        report_infeasible,
        scroll,
        fill,
        select_option,
        click,
        dblclick,
        hover,
        press,
        focus,
        clear,
        drag_and_drop,
        upload_file,
        go_back,
        go_forward,
        goto,
        tab_close,
        tab_focus,
        new_tab,
    )
}
