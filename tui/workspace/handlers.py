"""What each command does: one method `do_<id>` per row of the command table. A test holds that none is missing."""

from __future__ import annotations

from tui.agents.commands import Choosing
from tui.approval.commands import Answers
from tui.browser.commands import Browsing
from tui.commands import keyed
from tui.dialogs.dialog import SureScreen
from tui.events.commands import EventLog
from tui.export.commands import Exports
from tui.find.commands import Reading
from tui.i18n import _
from tui.memory.commands import Remembering
from tui.plan.commands import Planning
from tui.prompt.commands import Composing
from tui.prompt.slash_sources import Slashes
from tui.replay.commands import Replaying
from tui.rerun.commands import Rerun
from tui.review.commands import Reviewing
from tui.secrets.commands import SecretKeeping
from tui.sessions.commands import SessionManager
from tui.shortcuts.commands import Remapping
from tui.terminal.commands import Terminals
from tui.terminal_io.graphics.commands import Picturing
from tui.themes.commands import Appearance
from tui.trust.commands import FolderTrust
from tui.undo.commands import Undoing
from tui.workspace.conversation_commands import Conversations
from tui.workspace.footer import MODES, next_mode
from tui.workspace.outside import Outside
from tui.workspace.panels import Panels
from tui.workspace.split import Split

MODE_TOLD = {
    "always": _("The agent asks before every action."),
    "risky": _("The agent asks before risky actions."),
    "auto-edit": _("The agent edits files in the workspace without asking, and asks before everything else."),
    "plan": _("The agent only reads and plans; it changes nothing."),
    "never": _("The agent does not ask, except for actions that untrusted content may have caused."),
}
QUIT_WITHIN_S = 2.0
"""How long ctrl+c stays armed: two presses that belong together, not two that happened."""


class Handlers(
    Answers,
    Composing,
    Panels,
    Conversations,
    SessionManager,
    Rerun,
    Reviewing,
    Undoing,
    Exports,
    EventLog,
    Reading,
    Split,
    Appearance,
    Outside,
    Replaying,
    Planning,
    Choosing,
    Remembering,
    Terminals,
    SecretKeeping,
    FolderTrust,
    Slashes,
    Browsing,
    Picturing,
    Remapping,
):
    """The commands, as methods of the app."""

    _quit_armed_at = float("-inf")

    # -- workspace -----------------------------------------------------------------------------------------------------

    def do_app_leader(self) -> None:
        prompt = self.workspace.prompt
        is_cut = self.last_key.key == "ctrl+x"
        if is_cut and self.focused is prompt and not prompt.selection.is_empty:
            prompt.action_cut_selection()  # what ctrl+x means everywhere else, where it can mean it
        else:
            self.arm_leader()

    def do_app_interrupt(self) -> None:
        selected = self.screen.get_selected_text() or self.workspace.prompt.selected_text
        tab = self.living
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        elif self.workspace.prompt.leave_list():
            pass
        elif self.workspace.prompt.text:
            self.workspace.prompt.put("")
        elif tab is not None and (tab.running or tab.runs_command):
            self.attempt(tab.session.interrupt())
        elif self.clock() - self._quit_armed_at < QUIT_WITHIN_S:
            self.exit()
        else:
            self._quit_armed_at = self.clock()
            self.flash(keyed(_("Press {app.interrupt} again to quit.")))

    def do_app_back(self) -> None:
        workspace, tab = self.workspace, self.living
        question = workspace.question
        if self.leave_copy_mode() or workspace.prompt.leave_list() or self.leave_find() or self.leave_hints():
            return
        if workspace.notice.display:
            workspace.notice.clear()
        elif self.leave_filter():
            pass
        elif question is not None and self.focused is workspace.prompt:
            if not question.step_back():
                self.say_question_stays()
        elif tab is not None and (tab.running or tab.runs_command):
            self.attempt(tab.session.interrupt())
        elif not workspace.restore():
            workspace.helm.focus()

    def do_app_redraw(self) -> None:
        self.workspace.chat.go("end")
        self.workspace.events_view.action_end()
        self.workspace.terminal.action_end()
        self.refresh(layout=True)

    def do_app_quit(self) -> None:
        busy = [tab for tab in self.open_tabs if tab.running]
        if not busy:
            self.exit()
            return

        def chosen(yes: bool | None) -> None:
            if yes:
                self.exit()

        names = _(", ").join(_("“{title}”").format(title=tab.title) for tab in busy)
        question = _("The agent is still working in {names}. It will be stopped; what it did is kept.")
        self.push_screen(SureScreen(question.format(names=names), _("quit")), chosen)

    do_prompt_quit = do_app_quit

    # -- panes ---------------------------------------------------------------------------------------------------------

    def do_pane_chat(self) -> None:
        self.workspace.choose_pane("chat")

    def do_pane_events(self) -> None:
        self.workspace.choose_pane("events")

    def do_pane_terminal(self) -> None:
        self.workspace.choose_pane("terminal")

    def do_pane_browser(self) -> None:
        self.workspace.choose_pane("browser")

    def do_pane_next(self) -> None:
        self.workspace.cycle(1)

    def do_pane_prev(self) -> None:
        self.workspace.cycle(-1)

    def do_detail_toggle(self) -> None:
        if self.focused is self.workspace.prompt and self.workspace.prompt.expand_chip():
            return
        if self.current is None:
            return
        chat = self.current.chat
        if self.focused is self.workspace.chat and self.workspace.chat.cursor is not None:
            self.workspace.chat.action_fold()
            return
        blocks = [block for block in chat.blocks if block.can_fold]
        folded = any(block.folded for block in blocks)
        for block in blocks:
            if block.folded == folded:
                chat.toggle(block)

    def do_queue_drop(self) -> None:
        tab = self.living
        if tab is None or not tab.session.state.queued:
            self.flash(_("Nothing is queued."))
            return
        last = tab.session.state.queued[-1]
        if not self.workspace.prompt.text:
            self.workspace.prompt.put(last.text)
        self.attempt(tab.session.unqueue(last.id))

    def do_prompt_mode(self) -> None:
        tab = self.living
        if tab is None:
            return
        own = str(self.manager.settings.agent.confirm) if self.manager is not None else MODES[0]
        mode = next_mode(str(tab.session.approval.mode), own)
        tab.session.approval.set_mode(mode)
        self.attempt(tab.session.approval.keep_mode(mode, own=mode == own))
        self.flash(MODE_TOLD[mode])
        self.attempt(self.judge_again(tab))
        self.wake(tab)
