"""A new conversation with another agent. The user reads a project's agent in full before it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.dialogs.choice_dialog import YesNoScreen
from tui.dialogs.dialog import Choice, ChoiceScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.conversation_start import new_conversation

if TYPE_CHECKING:
    from core.agent.registry import AgentKind, Found
    from core.conversations.conversation_manager import ConversationManager
    from tui.workspace.context import Context

NAME_CELLS, NOTE_CELLS, PROBLEM_CELLS = 64, 120, 300
SHOWN_PROBLEMS = 3


class ReadFirstScreen(YesNoScreen):
    """An agent of the project, to be read before it may work: the whole file, scrollable, and two answers.

    Texts handed in are clean. Answers with True for a yes.
    """

    DEFAULT_CSS = """
    ReadFirstScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: 90%; padding: 0 1; background: $surface; border: round $warning;
            border-title-color: $text-warning; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        VerticalScroll { height: 1fr; background: $surface; scrollbar-size-vertical: 1; }
    }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__(_("Do not use it"), _("Allow this agent until its file changes"))
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("↑ ↓ choose · Enter answers · PgUp PgDn scroll · Esc cancels")
            text = _("This project defines an agent. Its instructions would direct the model; read them first.")
            yield Static(Content.assemble((text, "$text-warning"), "\n"))
            with VerticalScroll(can_focus=False):
                yield Static(Content(self._text))
            yield from self.answer_rows()

    def scroll_text(self, pages: int) -> None:
        """Scroll the file by pages."""
        text = self.query_one(VerticalScroll)
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)


def choose_agent(app: Context) -> None:
    """Let the user choose an agent, and begin a conversation with it."""
    if app.manager is None:
        app.flash(_("Handloom is still starting."))
        return
    app.attempt(_new_with_agent(app, app.manager))


async def _new_with_agent(app: Context, manager: ConversationManager) -> None:
    found = await manager.agents_for(app.options.workspace)
    if found.problems:
        app.report(sanitize("\n".join(p[:PROBLEM_CELLS] for p in found.problems[:SHOWN_PROBLEMS])))
    chosen = await app.push_screen_wait(ChoiceScreen(_("Choose an agent"), choices(found)))
    if chosen is None:
        return
    kind = found.kinds[chosen]
    if kind.allowed or await _allow(app, manager, kind):
        await new_conversation(app, kind.name, kind.model)


async def _allow(app: Context, manager: ConversationManager, kind: AgentKind) -> bool:
    """Show a project's agent in full, and take the user's answer."""
    assert kind.file is not None
    title = sanitize_line(str(kind.file.path), NOTE_CELLS)
    if not await app.push_screen_wait(ReadFirstScreen(title, sanitize(kind.file.text))):
        return False
    await manager.trust.allow_agent(kind)
    return True


def choices(found: Found) -> list[Choice]:
    """The agents as lines to choose from."""
    lines = []
    for kind in found.kinds.values():
        origin = kind.origin if kind.allowed else _("{origin}; you review it first").format(origin=kind.origin)
        note = sanitize_line(f"{kind.description} · {origin}", NOTE_CELLS)
        lines.append(Choice(kind.name, sanitize_line(kind.name, NAME_CELLS), note))
    return lines


ROWS = (
    Command("conv.agent", (), "New with another agent", "Choose an agent: one that only reads, one that plans first, "
            "or your own.", Group.CONVERSATIONS, leader="G", slash="agent", run=choose_agent),
)  # fmt: skip
