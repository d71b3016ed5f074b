"""BrowserGym's functions: parsing the text of a step into calls, and carrying them out on the active tab.

Calls are names with literal arguments, found as BrowserGym finds them (`browsergym/core/action/parsers.py`), and never
evaluated. They may stand one a line or side by side; comments and other text between them are skipped.

The functions have the names, arguments, timeouts and errors of BrowserGym's subsets `chat`, `infeas`, `bid`, `nav` and
`tab` plus `noop`, the ones that OpenHands V0 gives its agents (`browsergym/core/action/functions.py`). While the user
controls the browser, USER_FUNCTIONS are available as well. Hidden text, such as a password that the user types, appears
in no call and no error: calls hold a placeholder, which is replaced last of all.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from playwright.async_api import Error, FileChooser, Locator

from core.events import BrowseInteractiveAction
from runtime.plugins.browser import network_filter
from runtime.plugins.browser.extraction import find
from runtime.plugins.browser.tabs import HangError, Tabs

MAX_TEXT_CHARS = 64 * 1024
MAX_CALLS = 100
MAX_BRACKETS = 100
"""Closing brackets that are tried as the end of one call, because string arguments may contain some."""

_BEGIN = re.compile(r"(?P<comment>#[^\n]*)|(?<!\w)(?P<name>[A-Za-z_]\w*)[ \t]*\(")


class Call(NamedTuple):
    """A function's name and its arguments."""

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def parse(text: str) -> list[Call]:
    """Return the calls of a step in order. Raises ValueError if there are none or too many."""
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"Received an action of {len(text)} characters, at most {MAX_TEXT_CHARS} are taken.")
    calls = list(_calls(text))
    if not calls:
        raise ValueError("Received an empty action.")
    if len(calls) > MAX_CALLS:
        raise ValueError(f"Received {len(calls)} actions at once, at most {MAX_CALLS} are taken.")
    return calls


def is_passive(text: str) -> bool:
    """Whether a step has only calls that cause no download."""
    try:
        return all(name in PASSIVE for name, *_ in parse(text))
    except ValueError:
        return False


def _calls(text: str) -> Iterator[Call]:
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        position = begin.end()
        if begin["name"] and (found := _call_at(text, begin.start("name"), begin.end())) is not None:
            call, position = found
            yield call


def _call_at(text: str, start: int, bracket: int) -> tuple[Call, int] | None:
    end = bracket
    for _ in range(MAX_BRACKETS):
        end = text.find(")", end) + 1
        if not end:
            return None
        try:
            tree = ast.parse(text[start:end], mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        return (call, end) if (call := _literal(tree)) is not None else None
    return None


def _literal(tree: ast.expr) -> Call | None:
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        return None
    try:
        arguments = tuple(map(ast.literal_eval, tree.args))
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords if keyword.arg}
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None
    return Call(tree.func.id, arguments, named) if len(named) == len(tree.keywords) else None


ELEMENT_MS = 500
"""BrowserGym's timeout for an element."""
MAX_WAIT_MS = 30_000
ACTS_S, NAVIGATES_S = 10.0, 35.0
"""Timeouts for a whole function: playwright's own timeouts do not hold if a page hangs."""
GOTO_TRIES = 10
"""A page that reloads itself endlessly interrupts the navigation to another page each time."""
PASSIVE = frozenset({"noop", "report_infeasible", "scroll", "send_msg_to_user", "tab_focus"})
"""Functions that cause no download: one that begins meanwhile is due to an earlier step."""
NAVIGATES = frozenset({"goto", "go_back", "go_forward", "noop", "reload"})

Button = Literal["left", "middle", "right"]
Modifiers = Sequence[Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]]


Function = Callable[..., Awaitable[Any]]


async def perform(
    tabs: Tabs, calls: Sequence[Call], say: Callable[[str], None], others: Mapping[str, Function] = MappingProxyType({})
) -> None:
    """Carry out calls in order; the first exception ends the step. `say` takes messages to the user.

    `others` are functions in addition to FUNCTIONS. Raises NameError for an unknown function before any call is
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
    """The tabs that functions act on, and the callback for messages to the user."""

    def __init__(self, tabs: Tabs, say: Callable[[str], None]) -> None:
        self.tabs = tabs
        self.say = say

    async def element(self, bid: str) -> Locator:
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
    if why_not := network_filter.address_refusal(url):
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


HIDDEN = BrowseInteractiveAction.HIDDEN
PICKER = "The page asks for a file. Choose its field by its letters and name a file of the workspace"


async def perform_as_user(tabs: Tabs, calls: Sequence[Call], say: Callable[[str], None], hidden: str) -> None:
    """Carry out calls of the user, with USER_FUNCTIONS. Raises as `perform` does.

    `hidden` replaces the placeholder HIDDEN. If the page opens a file chooser, a note says so, because nobody sees it.
    """

    def on_file_chooser(chooser: FileChooser) -> None:
        tabs.notes.add(PICKER)

    page, uploads = tabs.active, any(call.name == "upload_file" for call in calls)
    if not uploads:
        page.on("filechooser", on_file_chooser)
    try:
        whole = [
            call._replace(arguments=tuple(hidden if hidden and value == HIDDEN else value for value in call.arguments))
            for call in calls
        ]
        await perform(tabs, whole, say, USER_FUNCTIONS)
        with suppress(HangError):  # the observation of the page reports it
            await tabs.drawn()  # a file chooser opens a little after the click
    finally:
        if not uploads:
            page.remove_listener("filechooser", on_file_chooser)


def hide_text(text: str, hidden: str) -> str:
    """Replace the hidden text by its placeholder. Playwright's errors quote the text that was to be typed."""
    return text.replace(hidden, HIDDEN).replace(repr(hidden)[1:-1], HIDDEN) if hidden else text


async def keyboard_press(step: Step, key: str) -> None:
    """BrowserGym's function: press a key, or a combination such as `Control+A`, in the focused element."""
    await step.tabs.active.keyboard.press(key)


async def mouse_click(step: Step, x: float, y: float, button: Button = "left") -> None:
    """BrowserGym's function: click at a position of the viewport, in pixels."""
    await step.tabs.active.mouse.click(x, y, button=button)


async def reload(step: Step) -> None:
    await step.tabs.active.reload()


USER_FUNCTIONS = {function.__name__: function for function in (keyboard_press, mouse_click, reload)}
