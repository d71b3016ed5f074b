"""Take control of the agent's terminal, and return it.

While the user has control and the pane has the focus, every key goes to the program, shortcuts of the workspace
included; only the key that took control returns it. The user keeps control when the focus moves elsewhere: the border
says so, and a click goes back.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from textual import events

from tui.i18n import _
from tui.shortcuts.command import Command, Group, key_of, keyed, keys_of
from tui.terminal_io.textual_patches import typed_bytes

if TYPE_CHECKING:
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab


WIDE_COLUMNS = 240
"""From this width on, the terminal stays beside the chat; on a narrower screen it is maximised while it is taken."""
RETURN_KEY = "ctrl+right_square_bracket"
"""Also returns control: function keys may be taken by another program; every terminal has ctrl+], as in telnet."""


async def use_ghostty(app: Context) -> None:
    """Switch all terminals to libghostty's emulator, if it is installed."""
    emulator = await asyncio.to_thread(import_module, "tui.terminal_io.emulator")
    model = await asyncio.to_thread(import_module, "tui.terminal.model")
    if (kind := await asyncio.to_thread(emulator.load_ghostty)) is not None:
        model.TerminalModel.emulator_type = kind
        for tab in app.tabs.all:
            tab.terminal.switch_emulator(kind)


def toggle_control(app: Context) -> None:
    """Take control of the terminal, or of the browser if it has the focus; return what the user controls."""
    tab = app.tabs.conversation
    if tab is None:
        app.flash(keyed(_("No conversation is open. Press {conv.new} to start one.")))
    elif app.workspace.browser.has_focus or tab.session.user_control.browser.is_on:
        app.workspace.browser.action_ask("take")  # the same key, for what the user looks at
    elif tab.has_terminal:
        _give_back(app, tab)
    else:
        app.workspace.show_pane("terminal")
        if app.workspace.size.width < WIDE_COLUMNS and not app.workspace.maximised_pane:
            app.workspace.maximised_pane = True
            app.workspace.arrange_panes()
        app.attempt(_take(app, tab))


async def _take(app: Context, tab: ConversationTab) -> None:
    await tab.session.user_control.terminal.begin(*app.workspace.terminal.screen_size)
    resize_terminal(app)  # the pane may have been laid out meanwhile
    tab.terminal.waits = False
    tab.terminal.on_reply = tab.session.user_control.terminal.type
    tab.terminal.used = True
    app.wake(tab)


def _give_back(app: Context, tab: ConversationTab) -> None:
    tab.terminal.on_reply = None
    tab.session.user_control.terminal.give_back()
    app.workspace.maximised_pane = False
    app.workspace.arrange_panes()
    app.workspace.main_input.focus()
    app.flash(_("You returned the terminal. The agent sees what you did in its next step."))


def show_terminal_control(app: Context) -> None:
    """Show in the pane who controls the terminal; called once a frame."""
    from tui.terminal.view import InputHint

    tab, view = app.tabs.conversation, app.workspace.terminal
    taken = tab is not None and tab.has_terminal
    view.show_taken(taken)
    key = key_of("terminal.take")
    waits = tab is not None and tab.terminal.waits and not taken
    title, note = _("Terminal"), app.tabs.current.about_terminal if app.tabs.current is not None else ""
    if taken:
        title = _("Terminal: you have control, the agent is waiting")
        ready = tab is not None and tab.session.user_control.terminal.is_ready
        note = _("{key} returns control").format(key=key)
        if not ready:
            note = _("the sandbox is starting; your input is queued") + " · " + note
        elif not view.has_focus:
            note = _("click to type") + " · " + note
    elif waits:
        note = _("waiting for input · {key} takes control").format(key=key)
    if note:
        title = f"{title} · {note}"
    if view.border_title != title:
        view.border_title = title
    app.workspace.query_one(InputHint).show(waits)


def key_to_terminal(app: Context, event: events.Key) -> bool:
    """Send a key to the program if the user controls the terminal. Returns whether it was sent."""
    view = app.workspace.terminal
    if app.workspace.app.screen is not app.workspace or not view.taken or not view.has_focus:
        return False
    if event.key in (*keys_of("terminal.take"), RETURN_KEY):
        if typed_bytes(event):  # Esc came with it, and is for the program
            view.key(events.Key("escape", "\x1b"))
        toggle_control(app)
        return True
    return view.key(event)


def type_into_terminal(app: Context, data: bytes) -> None:
    """Send what was typed to the program."""
    from core.errors import UsageError

    if (tab := app.tabs.conversation) is not None:
        try:
            tab.session.user_control.terminal.type(data)
        except UsageError as error:
            app.flash(str(error))


def resize_terminal(app: Context) -> None:
    """Resize the terminal to the pane while the user controls it."""
    if (tab := app.tabs.conversation) is not None and tab.has_terminal:
        tab.session.user_control.terminal.resize(*app.workspace.terminal.screen_size)


ROWS = (
    Command("terminal.take", ("f12",), "Take over the terminal", "Type in the agent's terminal while it waits; the "
            "same key, or ctrl+], returns control.", Group.PANES, leader="i", slash="takeover", acts=True,
            run=toggle_control),
)  # fmt: skip
