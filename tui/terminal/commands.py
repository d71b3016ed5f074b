"""Taking over the agent's terminal and giving it back. A mixin of the app.

While the user has it and the pane has the focus, every key goes to the program, those of the workspace included; only
the key that took it over gives it back. Who looks elsewhere keeps it: the border says so, and a click goes back to it.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from textual import events

from tui.commands import BY_ID, key_of, keyed
from tui.i18n import _
from tui.terminal.input_hint import WaitsHint
from tui.terminal.view import TerminalView
from tui.terminal_io.textual_patches.escape_bursts import typed
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from tui.workspace.conversation import ConversationTab


ROOMY = 240
"""Columns from which the terminal is wide enough beside the chat; on less it fills the screen while it is taken."""
GIVES_BACK = frozenset({*BY_ID["terminal.take"].keys, "ctrl+right_square_bracket"})
"""A function key may be another program's; ctrl+] every terminal has, as telnet's way out."""


class Terminals(Frame):
    """The commands of the terminal, as methods of the app."""

    async def hurry_terminals(self) -> None:
        """Have the faster emulator from now on, where there is one."""
        vt = await asyncio.to_thread(import_module, "tui.terminal_io.emulator")
        model = await asyncio.to_thread(import_module, "tui.terminal.model")
        if (kind := await asyncio.to_thread(vt.load_faster)) is not None:
            model.TerminalModel.faster = kind
            for tab in self.open_tabs:
                tab.terminal.hurry(kind)

    def do_terminal_take(self) -> None:
        tab = self.living
        if tab is None:
            self.flash(keyed(_("No conversation is open. Press {conv.new} to start one.")))
        elif self.workspace.browser.has_focus or tab.session.user_control.browser.is_on:
            self.workspace.browser.action_ask("take")  # the same key, for what the user looks at
        elif tab.has_terminal:
            self._give_back(tab)
        else:
            self.workspace.look_at("terminal")
            if self.workspace.size.width < ROOMY and not self.workspace.maximised_pane:
                self.workspace.maximised_pane = True
                self.workspace.arrange_panes()
            self.call_after_refresh(self._take, tab)

    def _take(self, tab: ConversationTab) -> None:
        async def take() -> None:
            rows, columns = self.workspace.terminal.screen_size
            await tab.session.user_control.terminal.begin(rows, columns)
            tab.terminal.waits = False
            tab.terminal.on_reply = tab.session.user_control.terminal.type
            tab.terminal.used = True
            self.wake(tab)

        self.attempt(take())

    def _give_back(self, tab: ConversationTab) -> None:
        tab.terminal.on_reply = None
        tab.session.user_control.terminal.give_back()
        self.workspace.maximised_pane = False
        self.workspace.arrange_panes()
        self.workspace.helm.focus()
        self.flash(_("You returned the terminal. The agent sees what you did in its next step."))

    def show_who_has_terminal(self) -> None:
        """Have the pane say who has the terminal; called once a frame."""
        tab, view = self.living, self.workspace.terminal
        taken = tab is not None and tab.has_terminal
        view.show_taken(taken)
        key = key_of("terminal.take")
        waits = tab is not None and tab.terminal.waits and not taken
        title, told = _("Terminal"), self.current.about_terminal if self.current is not None else ""
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
        self.workspace.query_one(WaitsHint).show(waits)

    def key_to_terminal(self, event: events.Key) -> bool:
        """Send a key to the program where the terminal is the user's. Answers whether it was meant for it."""
        view = self.workspace.terminal
        if self.screen is not self.workspace or not view.taken or not view.has_focus:
            return False
        if event.key in GIVES_BACK:
            if typed(event):  # Esc came with it, and is the program's
                view.key(events.Key("escape", "\x1b"))
            self.do_terminal_take()
            return True
        return view.key(event)

    def on_terminal_view_typed(self, message: TerminalView.Typed) -> None:
        """Keys for the program."""
        from core.errors import UsageError

        if (tab := self.living) is not None:
            try:
                tab.session.user_control.terminal.type(message.data)
            except UsageError as error:
                self.flash(str(error))

    def on_terminal_view_resized(self) -> None:
        """The pane has another size, and so has the terminal while it is the user's."""
        if (tab := self.living) is not None and tab.has_terminal:
            tab.session.user_control.terminal.resize(*self.workspace.terminal.screen_size)

    def on_waits_hint_chosen(self) -> None:
        """A click on the line that says that a command waits."""
        self.do_terminal_take()
