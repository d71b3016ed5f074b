"""The commands for questions: finding the one that waits, and choosing when the agent asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.i18n import _
from tui.shortcuts.command import Command, Group, Scope
from tui.workspace.footer import MODES, next_mode

if TYPE_CHECKING:
    from tui.app import HandloomApp
    from tui.workspace.context import Context

MODE_MESSAGES = {
    "always": _("The agent asks before every action."),
    "risky": _("The agent asks before risky actions."),
    "auto-edit": _("The agent edits files in the workspace without asking, and asks before everything else."),
    "plan": _("The agent only reads and plans; it changes nothing."),
    "never": _("The agent does not ask, except for actions that untrusted content may have caused."),
}


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
    tab = app.tabs.conversation
    if tab is None:
        return
    own = str(app.manager.settings.agent.confirm) if app.manager is not None else MODES[0]
    mode = next_mode(str(tab.session.approval.mode), own)
    tab.session.approval.set_mode(mode)
    app.attempt(tab.session.approval.store_mode(mode, own=mode == own))
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
    Command("prompt.mode", ("shift+tab",), "Approval mode",
            "Switch between asking before everything, auto-approving edits, and planning only.",
            Group.PROMPT, Scope.PROMPT, hint="mode", slash="mode", run=change_mode,
            also="yolo auto approve permissions confirm plan"),
)  # fmt: skip
