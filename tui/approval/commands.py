"""The commands for approvals: finding the question that waits, choosing when the agent asks, and the permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tui.dialogs.search_list import Finder, Row, ranked
from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.footer import MODES, next_mode
from tui.workspace.mode_words import MODE_WORDS

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab

MODE_MESSAGES = {
    "always": _("The agent asks before every action."),
    "risky": _("The agent asks before risky actions."),
    "auto-edit": _("The agent asks before everything except edits in the workspace."),
    "plan": _("The agent only reads and plans; it changes nothing."),
    "never": _("The agent only asks about actions that untrusted content may have caused."),
}


class ModeScreen(Finder):
    """Choose an approval mode; the result is its name in the settings."""

    TITLE_TEXT = _("Approval mode")
    PLACEHOLDER = _("Type to narrow down, or choose what needs your approval")

    def __init__(self, current: str, about: Mapping[str, str]) -> None:
        """`about` has the modes in their order, each with a sentence."""
        super().__init__()
        self._current, self._about = current, about

    def rows(self, query: str) -> Sequence[Row]:
        rows = [
            Row(mode, MODE_WORDS[mode], about, _("current") if mode == self._current else "", mode)
            for mode, about in self._about.items()
        ]
        return ranked(query, rows) if query else rows


def focus_question(app: Context) -> None:
    """Go to the prompt below the question."""
    if app.workspace.question is not None:
        app.workspace.main_input.focus()
    else:
        app.flash(_("No question is waiting."))


def next_waiting(app: Context) -> None:
    """Go to the next conversation that waits for an answer; the shown one is the last that is looked at."""
    tabs, current = app.tabs.conversations, app.tabs.current
    at = next((n for n, tab in enumerate(tabs) if tab is current), -1)
    for tab in (*tabs[at + 1 :], *tabs[: at + 1]):
        if tab.waits_for is not None:
            if tab is not current:
                app.tabs.show(tab)
            app.workspace.main_input.focus()
            return
    app.flash(_("No conversation is waiting for you."))


def change_mode(app: HandloomApp) -> None:
    """Take the next mode of confirmation."""
    if (tab := app.tabs.conversation) is not None:
        _set_mode(app, tab, next_mode(str(tab.session.approval.mode), _own_mode(app)))


def choose_mode(app: HandloomApp, name: str = "") -> None:
    """Take the mode of this name; without one, the user chooses it from a list."""
    tab = app.tabs.conversation
    if tab is None:
        return
    if name in MODE_MESSAGES:
        _set_mode(app, tab, name)
        return
    if name:
        modes = ", ".join(MODE_MESSAGES)
        app.flash(
            _("There is no mode “{name}”. The modes are {modes}.").format(name=sanitize_line(name, 40), modes=modes)
        )
        return

    async def choose() -> None:
        chosen = await app.push_screen_wait(ModeScreen(str(tab.session.approval.mode), MODE_MESSAGES))
        if chosen is not None:
            _set_mode(app, tab, chosen)

    app.attempt(choose())


def show_permissions(app: HandloomApp) -> None:
    """Show what is always allowed or denied, and let the user revoke it."""
    from core.security.permissions import PermissionFile
    from tui.approval.permissions import PermissionsScreen

    if app.manager is not None:
        session = app.tabs.conversation.session if app.tabs.conversation is not None else None
        app.push_screen(PermissionsScreen(PermissionFile(app.manager.store.home), session))


def _own_mode(app: HandloomApp) -> str:
    """The mode of the settings."""
    return str(app.manager.settings.agent.confirm) if app.manager is not None else MODES[0]


def _set_mode(app: HandloomApp, tab: ConversationTab, mode: str) -> None:
    tab.session.approval.set_mode(mode)
    app.attempt(tab.session.approval.store_mode(mode, own=mode == _own_mode(app)))
    app.flash(MODE_MESSAGES[mode])
    app.attempt(app.approvals.judge_again(tab))
    app.wake(tab)


ROWS = (
    Command("ask.focus", (), "Answer the question", "Go to the prompt below the question.", Group.QUESTIONS,
            leader="a", run=focus_question),
    Command("question.move", ("up", "down", *"123456789"), "Choose an answer", "Arrows and digits move the highlight "
            "while the prompt is empty. They do not answer.", Group.QUESTIONS, Scope.QUESTION, hint="choose",
            native=True),
    Command("question.take", ("enter",), "Answer", "With an empty prompt, choose the highlighted answer. With text, "
            "deny the action and send the text to the agent.", Group.QUESTIONS, Scope.QUESTION, hint="answer",
            native=True),
    Command("ask.next", (), "Next waiting", "Go to the next conversation that is waiting for your answer.",
            Group.QUESTIONS, leader="N", slash="waiting", run=next_waiting),
    Command("conv.mode", (), "Approval mode", "Choose what the agent may do without asking.", Group.CONVERSATIONS,
            slash="mode", words="NAME", acts=True, run_with=choose_mode,
            also="yolo full auto approve permissions confirm plan accept dangerously skip"),
    Command("prompt.mode", ("shift+tab",), "Next approval mode",
            "Switch between asking before everything, auto-approving edits, and planning only.",
            Group.PROMPT, Scope.PROMPT, hint="mode", run=change_mode),
    Command("app.permissions", (), "Permissions", "Show what is always allowed or denied, and revoke it.",
            Group.WORKSPACE, leader="Y", slash="permissions", run=show_permissions,
            also="add dir directory allow deny approve rules auto approve"),
)  # fmt: skip
