"""Taking over the agent's terminal and giving it back.

While the user has it and the pane has the focus, every key goes to the program, those of the workspace included; only
the key that took it over gives it back. A user who looks elsewhere keeps it: the border says so, and a click goes back.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from textual import events

from tui.i18n import _
from tui.shortcuts.command import Command, Group, key_of, keyed, keys_of
from tui.terminal.input_hint import WaitsHint
from tui.terminal_io.textual_patches.escape_bursts import typed

if TYPE_CHECKING:
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


ROOMY = 240
"""Columns from which the terminal is wide enough beside the chat; on less it fills the screen while it is taken."""
ALSO_GIVES_BACK = "ctrl+right_square_bracket"
"""A function key may be another program's; ctrl+] every terminal has, as telnet's way out."""


async def hurry_terminals(app: Context) -> None:
    """Have the faster emulator from now on, where there is one."""
    vt = await asyncio.to_thread(import_module, "tui.terminal_io.emulator")
    model = await asyncio.to_thread(import_module, "tui.terminal.model")
    if (kind := await asyncio.to_thread(vt.load_faster)) is not None:
        model.TerminalModel.faster = kind
        for tab in app.tabs.all:
            tab.terminal.hurry(kind)


def take_or_give_back(app: Context) -> None:
    """Take over the terminal, or the browser if the user looks at it; give back what they have."""
    tab = app.tabs.conversation
    if tab is None:
        app.flash(keyed(_("No conversation is open. Press {conv.new} to start one.")))
    elif app.workspace.browser.has_focus or tab.session.user_control.browser.is_on:
        app.workspace.browser.action_ask("take")  # the same key, for what the user looks at
    elif tab.has_terminal:
        _give_back(app, tab)
    else:
        app.workspace.show_pane("terminal")
        if app.workspace.size.width < ROOMY and not app.workspace.maximised_pane:
            app.workspace.maximised_pane = True
            app.workspace.arrange_panes()
        app.workspace.call_after_refresh(_take, app, tab)


def _take(app: Context, tab: ConversationTab) -> None:
    async def take() -> None:
        rows, columns = app.workspace.terminal.screen_size
        await tab.session.user_control.terminal.begin(rows, columns)
        tab.terminal.waits = False
        tab.terminal.on_reply = tab.session.user_control.terminal.type
        tab.terminal.used = True
        app.wake(tab)

    app.attempt(take())


def _give_back(app: Context, tab: ConversationTab) -> None:
    tab.terminal.on_reply = None
    tab.session.user_control.terminal.give_back()
    app.workspace.maximised_pane = False
    app.workspace.arrange_panes()
    app.workspace.main_input.focus()
    app.flash(_("You returned the terminal. The agent sees what you did in its next step."))


def show_who_has_terminal(app: Context) -> None:
    """Have the pane say who has the terminal; called once a frame."""
    tab, view = app.tabs.conversation, app.workspace.terminal
    taken = tab is not None and tab.has_terminal
    view.show_taken(taken)
    key = key_of("terminal.take")
    waits = tab is not None and tab.terminal.waits and not taken
    title, told = _("Terminal"), app.tabs.current.about_terminal if app.tabs.current is not None else ""
    if taken:
        title = _("Terminal: you have control, the agent is waiting")
        ready = tab is not None and tab.session.user_control.terminal.is_ready
        told = _("{key} returns control").format(key=key)
        if not ready:
            told = _("the sandbox is starting; your input is queued") + " · " + told
        elif not view.has_focus:
            told = _("click to type") + " · " + told
    elif waits:
        told = _("waiting for input · {key} takes control").format(key=key)
    if told:
        title = f"{title} · {told}"
    if view.border_title != title:
        view.border_title = title
    app.workspace.query_one(WaitsHint).show(waits)


def key_to_terminal(app: Context, event: events.Key) -> bool:
    """Send a key to the program where the terminal is the user's. Returns whether it was."""
    view = app.workspace.terminal
    if app.workspace.app.screen is not app.workspace or not view.taken or not view.has_focus:
        return False
    if event.key in (*keys_of("terminal.take"), ALSO_GIVES_BACK):
        if typed(event):  # Esc came with it, and is the program's
            view.key(events.Key("escape", "\x1b"))
        take_or_give_back(app)
        return True
    return view.key(event)


def type_into_terminal(app: Context, data: bytes) -> None:
    """Keys for the program."""
    from core.errors import UsageError

    if (tab := app.tabs.conversation) is not None:
        try:
            tab.session.user_control.terminal.type(data)
        except UsageError as error:
            app.flash(str(error))


def resize_terminal(app: Context) -> None:
    """The pane has another size, and so has the terminal while it is the user's."""
    if (tab := app.tabs.conversation) is not None and tab.has_terminal:
        tab.session.user_control.terminal.resize(*app.workspace.terminal.screen_size)


ROWS = (
    Command("terminal.take", ("f12",), "Take over the terminal", "Type in the agent's terminal while it waits; the "
            "same key, or ctrl+], gives it back.", Group.PANES, leader="i", slash="takeover", acts=True,
            run=take_or_give_back),
)  # fmt: skip
