"""The commands of the workspace: its tabs and panes, copy mode, interrupting and quitting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.events.commands import leave_filter
from tui.find.commands import leave_find
from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope, keyed
from tui.terminal_io import escapes
from tui.workspace.conversation_start import new_conversation
from tui.workspace.layout import SPLIT
from tui.workspace.tabs import confirm_stop

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.workspace.context import Context

QUIT_WITHIN_S = 2.0
"""Two presses of ctrl+c within this time quit."""
TITLE_CHARS = 120


class CopyMode:
    """Copy mode, on or off: one pane fills the screen, and the mouse selects text in the terminal."""

    def __init__(self, app: HandloomApp) -> None:
        self._app = app
        self._before: tuple[str, bool] | None = None
        """The active pane and whether it was maximised; None while copy mode is off."""

    @property
    def is_on(self) -> bool:
        return self._before is not None

    def toggle(self) -> None:
        """Enter copy mode, or leave it."""
        if self.leave():
            return
        workspace = self._app.workspace
        self._before = (workspace.active_pane, workspace.maximised_pane)
        workspace.add_class("-copying")
        workspace.maximised_pane = True
        workspace.show_pane(workspace.active_pane)
        workspace.flash(_("Copy mode: select and copy with the terminal's own mouse support. Esc ends it."))
        self._app.emit(escapes.MOUSE_OFF)

    def leave(self) -> bool:
        """Leave copy mode. Returns whether it was on."""
        if self._before is None:
            return False
        workspace = self._app.workspace
        (workspace.active_pane, workspace.maximised_pane), self._before = self._before, None
        workspace.remove_class("-copying")
        workspace.arrange_panes()
        workspace.flash("")
        workspace.main_input.focus()
        self._app.emit(escapes.MOUSE_ON)
        return True


def interrupt(app: HandloomApp) -> None:
    """Copy the selection, else close the list, else clear the prompt, else stop the agent, else quit."""
    workspace, tab = app.workspace, app.tabs.conversation
    prompt = workspace.prompt
    if selected := app.screen.get_selected_text() or prompt.selected_text:
        app.copy_to_clipboard(selected)
        app.screen.clear_selection()
    elif prompt.close_list():
        pass
    elif prompt.text:
        prompt.put("")
    elif tab is not None and (tab.running or tab.runs_command):
        app.attempt(tab.session.interrupt())
    elif app.clock() - workspace.quit_armed_at < QUIT_WITHIN_S:
        app.exit()
    else:
        workspace.quit_armed_at = app.clock()
        app.flash(keyed(_("Press {app.interrupt} again to quit.")))


def back(app: HandloomApp) -> None:
    """Close what is open, one thing at a time; else stop the agent; else return to the prompt."""
    workspace, tab = app.workspace, app.tabs.conversation
    question, prompt = workspace.question, workspace.prompt
    if app.copy_mode.leave() or prompt.close_list() or leave_find(app) or workspace.browser.leave_hints():
        return
    if workspace.notice.display:
        workspace.notice.clear()
    elif leave_filter(app):
        pass
    elif question is not None and app.focused is prompt:
        if not question.step_back():
            app.approvals.leave()
    elif tab is not None and (tab.running or tab.runs_command):
        app.attempt(tab.session.interrupt())
    elif not workspace.restore():
        workspace.main_input.focus()


def redraw(app: HandloomApp) -> None:
    """Draw the screen again, with each pane at its end."""
    app.workspace.chat.action_go("end")
    app.workspace.events_view.action_end()
    app.workspace.terminal.action_end()
    app.refresh(layout=True)


def quit(app: HandloomApp) -> None:
    confirm_stop(app, [tab for tab in app.tabs.all if tab.running], _("quit"), app.exit)


# -- tabs ------------------------------------------------------------------------------------------------------------


def close_current(app: Context) -> None:
    if app.tabs.current is not None:
        app.tabs.close(app.tabs.current)


def rename(app: Context) -> None:
    """Ask for a new name of the conversation."""
    tab = app.tabs.conversation
    if tab is None:
        return
    from tui.dialogs.dialog import LineScreen

    def chosen(text: str | None) -> None:
        title = " ".join((text or "").split())[:TITLE_CHARS]
        if title:
            app.attempt(tab.session.record.set_title(title))
        elif text is not None:
            app.flash(_("A conversation needs a name. It was not renamed."))

    app.push_screen(LineScreen(_("Name of this conversation"), _("A few words"), tab.title), chosen)


def pause_or_resume(app: Context) -> None:
    """Pause a working agent, or resume a paused one."""
    if (tab := app.tabs.conversation) is not None:
        app.attempt(tab.session.pause() if tab.running else tab.session.resume())


def split(app: Context) -> None:
    """Show the previous conversation beside the current one, or one conversation again."""
    workspace, tabs = app.workspace, app.tabs
    tab, width = tabs.current, workspace.size.width
    if workspace.split_tab is not None:
        workspace.end_split()
    elif tab is None or len(tabs.all) < 2:
        app.flash(keyed(_("There is no other conversation to show beside this one. Press {conv.new} to start one.")))
    elif width < SPLIT:
        text = _("Two conversations side by side need {needed} columns; this terminal has {width}.")
        app.flash(text.format(needed=SPLIT, width=width))
    else:
        next_one = tabs.all[(tabs.all.index(tab) + 1) % len(tabs.all)]
        workspace.split(tabs.previous if tabs.previous in tabs.all else next_one)
    if tab is not None:
        app.wake(tab)


def other_side(app: Context) -> None:
    """Go to the conversation beside the current one."""
    if app.workspace.split_tab is None:
        app.flash(keyed(_("Only one conversation is shown. Press {conv.split} to show another beside it.")))
    else:
        app.tabs.show(app.workspace.split_tab)


ROWS = (
    Command("app.interrupt", ("ctrl+c",), "Copy, clear, stop or quit", "Copy the selection; else clear the prompt; "
            "else stop the agent; else press twice to quit.", Group.WORKSPACE, run=interrupt),
    Command("app.back", ("escape",), "Back, or stop the agent", "Leave the leader; step back in a question; stop the "
            "agent; restore a pane; return to the prompt.", Group.WORKSPACE, run=back),
    Command("app.redraw", ("ctrl+l",), "Redraw", "Redraw the screen and go to the end.", Group.WORKSPACE,
            slash="redraw", run=redraw),
    Command("app.copy_mode", (), "Copy mode", "Show one pane and let the terminal's mouse select text.",
            Group.WORKSPACE, leader="k", slash="select", run=lambda app: app.copy_mode.toggle()),
    Command("app.quit", ("ctrl+q",), "Quit", "Quit; asks first if an agent is working.", Group.WORKSPACE, leader="q",
            slash="quit", run=quit,
            aliases=("exit",), also="leave end close"),
    Command("conv.new", ("ctrl+n",), "New conversation", "Start a conversation in a new tab.", Group.CONVERSATIONS,
            leader="n", slash="new", run=lambda app: app.attempt(new_conversation(app)),
            aliases=("clear",), also="reset start over fresh"),
    Command("conv.goto", (), "Go to tab", "Show the tab with this number.", Group.CONVERSATIONS, leader="1-9",
            run_with=lambda app, digit: app.tabs.show_number(digit)),
    Command("conv.next", ("ctrl+pagedown",), "Next tab", "Show the next conversation.", Group.CONVERSATIONS, leader="]",
            run=lambda app: app.tabs.step(1)),
    Command("conv.prev", ("ctrl+pageup",), "Previous tab", "Show the previous conversation.", Group.CONVERSATIONS,
            leader="[", run=lambda app: app.tabs.step(-1)),
    Command("conv.close", (), "Close tab", "Close this conversation; it is kept and can be opened again.",
            Group.CONVERSATIONS, leader="w", slash="close", run=close_current),
    Command("conv.left", (), "Move tab left", "Move this tab one place to the left.", Group.CONVERSATIONS, leader="<",
            run=lambda app: app.tabs.move(-1)),
    Command("conv.right", (), "Move tab right", "Move this tab one place to the right.", Group.CONVERSATIONS,
            leader=">", run=lambda app: app.tabs.move(1)),
    Command("conv.rename", (), "Rename", "Rename this conversation.", Group.CONVERSATIONS, leader="r", slash="rename",
            acts=True, run=rename),
    Command("conv.reopen", (), "Reopen tab", "Open the tab that was closed last.", Group.CONVERSATIONS, leader="T",
            slash="reopen", run=lambda app: app.attempt(app.tabs.reopen())),
    Command("conv.split", (), "Side by side",
            "Show the previous conversation beside this one; press again to show one.",
            Group.CONVERSATIONS, leader="v", slash="split", run=split,
            also="split screen compare two panes"),
    Command("conv.other", (), "Other side", "Go to the conversation beside this one.", Group.CONVERSATIONS, leader="o",
            run=other_side),
    Command("conv.pause", (), "Pause or resume", "Pause the agent after its current step, or resume it.",
            Group.CONVERSATIONS, leader="p", slash="pause", acts=True, run=pause_or_resume),
    Command("pane.chat", ("f2",), "Chat",
            "Go to the chat. Press again to fill the screen, a third time to restore it.", Group.PANES,
            slash="chat", run=lambda app: app.workspace.choose_pane("chat"),
            also="full screen maximise maximize zoom plot figure image"),
    Command("pane.events", ("f3",), "Events",
            "Go to the event log. Press again to fill the screen, a third time to restore it.",
            Group.PANES, slash="events", run=lambda app: app.workspace.choose_pane("events")),
    Command("pane.terminal", ("f4",), "Terminal",
            "Go to the terminal. Press again to fill the screen, a third time to restore it.",
            Group.PANES, slash="terminal", run=lambda app: app.workspace.choose_pane("terminal"),
            also="bash full screen maximise maximize zoom shell output"),
    Command("pane.browser", ("f5",), "Browser", "Go to the pages that the agent saw. Press again to fill the screen.",
            Group.PANES, slash="browser", run=lambda app: app.workspace.choose_pane("browser"),
            also="full screen maximise maximize zoom screenshot page web"),
    Command("pane.next", ("f6",), "Next pane", "Focus the next pane.", Group.PANES, hint="panes",
            run=lambda app: app.workspace.cycle(1)),
    Command("pane.prev", ("shift+f6",), "Previous pane", "Focus the previous pane.", Group.PANES,
            run=lambda app: app.workspace.cycle(-1)),
    Command("prompt.quit", ("ctrl+d",), "Quit", "Quit; asks first if an agent is working.", Group.PROMPT,
            Scope.EMPTY_PROMPT, run=quit),
    Command("list.open", ("enter",), "Open", "Show the event in full; unfold the block.", Group.READING, Scope.LIST,
            hint="open", native=True),
    Command("list.up", ("up", "k"), "Up",
            "Go to the line, block or event above.", Group.READING, Scope.LIST, native=True),
    Command("list.down", ("down", "j"), "Down", "Go to the line, block or event below.", Group.READING, Scope.LIST,
            native=True),
    Command("list.page_up", ("pageup", "b"), "Page up", "Go one page up.", Group.READING, Scope.LIST, native=True),
    Command("list.page_down", ("pagedown", "f"), "Page down",
            "Go one page down.", Group.READING, Scope.LIST, native=True),
    Command("list.home", ("home", "g"), "Start", "Go to the first line, and load older events.", Group.READING,
            Scope.LIST, native=True),
    Command("list.end", ("end", "G"), "End", "Go to the last line, and follow.", Group.READING, Scope.LIST,
            hint="newest", native=True),
)  # fmt: skip
