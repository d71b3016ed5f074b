"""Commands and the screen for the trust in folders and imported conversations.

The screen has the files of a folder that affect agents, with the whole text of the highlighted one. The answers are
above the files in the same list, and Enter chooses the highlighted one, at first "do not trust". The result is True to
trust, False to refuse, None without an answer. Everything shown is untrusted and sanitized.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.answer_list import DIGITS, HIGHLIGHT, NO_HIGHLIGHT
from tui.dialogs.choice_dialog import SENDS, GuardedScreen
from tui.dialogs.dialog import SureScreen
from tui.i18n import _
from tui.shortcuts.command import Command, Group, keyed
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.mode_words import mode_words

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.trust.folder_survey import Piece
    from core.trust.trust_store import TrustState
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab

PATH_CELLS = 70
SHOWN_PROBLEMS = 5

QUESTION = _(
    "This folder contains files that give your agent instructions or run commands. They are ignored until you trust "
    "them. Review them with ↑ ↓."
)
CHANGED = _("You trusted this folder before. Files marked ● are new or have changed.")
KINDS = {
    "instructions": _("instructions"),
    "microagent": _("microagent"),
    "skill": _("skill"),
    "command": _("slash command"),
    "agent": _("agent"),
    "hooks": _("hooks"),
    "MCP servers": _("MCP servers"),
}
ALL_TRUSTED = _("You trust all of these files in their current version.")
NO, YES, REVOKE, KEEP = "no", "yes", "revoke", "keep"
ANSWERS = {
    NO: _("Do not trust them; the agent ignores them"),
    YES: _("Trust them until they change"),
    KEEP: _("Keep trusting them"),
    REVOKE: _("Stop trusting them"),
}


class _Lines(OptionList, can_focus=False):
    """The answers and the files. It has no focus, because the screen handles the keys."""


class TrustScreen(GuardedScreen[bool | None]):
    """The files of one folder."""

    DEFAULT_CSS = """
    TrustScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 120; height: 90%; padding: 0 1; background: $surface; border: round $warning;
            border-title-color: $text-warning; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        & #trust-summary { height: auto; margin-bottom: 1; color: $text-warning; }
        OptionList, OptionList:focus { height: auto; max-height: 10; border: none; background: $surface; padding: 0; }
        & #trust-path { height: 1; margin-top: 1; color: $text-accent; text-style: bold; }
        VerticalScroll { height: 1fr; background: $panel; padding: 0 1; scrollbar-size-vertical: 1; }
        &.-low > Vertical { height: 100%; width: 100%; }
        &.-low #trust-summary { max-height: 2; margin: 0; }
        &.-low OptionList { max-height: 4; }
        &.-low #trust-path { margin: 0; }
    }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]
    BINDINGS = [
        Binding("escape", "leave", "Leave"),
        Binding("pagedown,space", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
    ]

    def __init__(self, state: TrustState, *, asks: bool) -> None:
        """`asks` tells that leaving the screen refuses."""
        super().__init__()
        self._state, self._asks = state, asks
        self._answers = (NO, YES) if state.waiting else (KEEP, REVOKE) if state.trusted else ()
        self._pieces: Sequence[Piece] = [*state.waiting, *state.trusted]
        self._marked = 0
        """The line with the highlight's mark."""
        self.is_revoked = False
        """Whether the user revokes the trust."""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            folder = sanitize_line(self._state.survey.folder, PATH_CELLS)
            box.border_title = _("Trust {folder}?").format(folder=folder) if self._state.waiting else folder
            box.border_subtitle = _("↑ ↓ choose or read · Enter answers · PgDn scrolls · Esc closes")
            yield Static(Content(self._summary()), id="trust-summary")
            ids = (*self._answers, *(None for _piece in self._pieces))
            yield _Lines(*(Option(self._line(at, NO_HIGHLIGHT), id=id) for at, id in enumerate(ids)), markup=False)
            yield Static(id="trust-path")
            with VerticalScroll(can_focus=False):
                yield Static(id="trust-text")

    def _summary(self) -> str:
        state = self._state
        text = CHANGED if state.changed or (state.trusted and state.waiting) else QUESTION
        lines = [text if state.waiting else ALL_TRUSTED]
        lines += [sanitize_line(f"! {problem}", 200) for problem in state.survey.problems[:SHOWN_PROBLEMS]]
        return "\n".join(lines)

    def on_mount(self) -> None:
        """Show the first file, with the highlight on the first answer."""
        lines = self.query_one(OptionList)
        lines.highlighted = 0 if self._answers or self._pieces else None
        if self._pieces:
            self._show(self._pieces[0])

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Mark the line under the cursor, and show the whole text of its file."""
        for at, mark in ((self._marked, NO_HIGHLIGHT), (event.option_index, HIGHLIGHT)):
            event.option_list.replace_option_prompt_at_index(at, self._line(at, mark))
        self._marked = event.option_index
        if (at := event.option_index - len(self._answers)) >= 0:
            self._show(self._pieces[at])

    def _line(self, at: int, mark: str) -> Content:
        """Return the line of an answer, with its number, or of a file."""
        files_at = at - len(self._answers)
        if files_at < 0:
            return Content.styled(f"{mark} {at + 1} {ANSWERS[self._answers[at]]}", "bold")
        return Content.assemble(f"{mark} ", _file_line(self._pieces[files_at], self._state))

    def _show(self, piece: Piece) -> None:
        self.query_one("#trust-path", Static).update(Content(sanitize_line(piece.path, PATH_CELLS)))
        self.query_one("#trust-text", Static).update(Content(sanitize(piece.text)))
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def on_key(self, event: events.Key) -> None:
        """Move the highlight or answer, unless the key may have been meant for something else."""
        lines = self.query_one(OptionList)
        if not self.is_taken(event):
            return
        if event.key == SENDS:
            self._take()
        elif event.key == "up":
            lines.action_cursor_up()
        elif event.key == "down":
            lines.action_cursor_down()
        elif event.key in DIGITS and int(event.key) <= len(self._answers):
            lines.highlighted = int(event.key) - 1

    def _take(self) -> None:
        """Choose the highlighted answer; for a file, scroll its text."""
        option = self.query_one(OptionList).highlighted_option
        match option.id if option is not None else None:
            case "yes":
                self.dismiss(True)
            case "no":
                self.dismiss(False)
            case "keep":
                self.dismiss(None)
            case "revoke":
                self.is_revoked = True
                self.dismiss(None)
            case _:
                self.action_page(1)

    def action_page(self, pages: int) -> None:
        """Scroll the text."""
        text = self.query_one(VerticalScroll)
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)

    def action_leave(self) -> None:
        """Refuse, or close the screen."""
        self.dismiss(False if self._asks and self._state.waiting else None)


def _file_line(piece: Piece, state: TrustState) -> Content:
    waits = piece in state.waiting
    mark = ("● ", "$text-warning") if waits else ("✓ ", "$text-success")
    return Content.assemble(
        mark, (sanitize_line(piece.path, PATH_CELLS), "bold"), (f"  {KINDS[piece.kind]}", "$text-muted")
    )


async def ask_trust(app: Context, folder: str) -> None:
    """Ask once about the files of a folder, before a conversation begins there. Raises ConfigurationError."""
    manager = app.manager
    if manager is None or not manager.trust.asks:
        return
    state = await manager.trust.state_of(folder)
    if not state.needs_answer:
        return

    if await app.push_screen_wait(TrustScreen(state, asks=True)):
        await manager.trust.approve(folder, state)
        app.flash(_("Trusted until these files change."))
    else:
        await manager.trust.refuse(state)
        app.flash(keyed(_("Not trusted: the agent ignores these files. {conv.trust} shows them again.")))


def show_trust(app: Context) -> None:
    """Show the files of the folder that affect agents, and let the user trust them or revoke trust."""
    if app.manager is None:
        app.flash(_("Handloom is still starting."))
        return
    app.attempt(_manage_trust(app, app.manager))


async def _manage_trust(app: Context, manager: ConversationManager) -> None:

    folder, along = (
        project_folder(app),
        app.tabs.conversation.session.memory.along if app.tabs.conversation else (),
    )
    state = await manager.trust.state_of(folder, along)
    if not (state.waiting or state.trusted or state.survey.problems):
        app.flash(_("This folder contains no files that need your trust."))
        return
    screen = TrustScreen(state, asks=False)
    answer = await app.push_screen_wait(screen)
    try:
        if answer:
            await manager.trust.approve(folder, state)
            app.flash(_("Trusted from your next message on, until these files change."))
        elif answer is False:
            await manager.trust.refuse(state)
        elif screen.is_revoked:
            await manager.trust.revoke(folder)
            app.flash(_("Trust revoked. The agent still knows what it has already read."))
    finally:
        for tab in app.tabs.conversations:
            await tab.session.memory.refresh()


def project_folder(app: Context) -> str:
    """The folder of the current conversation."""
    if (tab := app.tabs.conversation) is not None:
        return tab.session.memory.folder
    return app.tabs.current.folder if app.tabs.current is not None else app.options.workspace


async def consents(app: Context, tab: ConversationTab) -> bool:
    """Whether a conversation may continue; the user is asked once about an imported one."""
    if not tab.session.consent.is_needed:
        return True
    question = _(
        "This conversation was imported from “{origin}”. Others wrote it, the agent will read all of it, and it may "
        "contain text that is meant to mislead the agent."
    )
    facts = tab.facts
    where = (
        _("Its commands run in a sandbox, in the mode “{mode}”. Continue?")
        if facts.isolated
        else _("Its commands run without a sandbox, in the mode “{mode}”. Continue?")
    )
    asked = question.format(origin=sanitize_line(tab.session.consent.origin, 60))
    asked = f"{asked} {where.format(mode=mode_words(facts.confirm_mode))}"
    if not await app.push_screen_wait(SureScreen(asked, _("continue"))):
        return False
    await tab.session.consent.give()
    return True


ROWS = (
    Command("conv.trust", (), "Folder trust", "Review the project's files for agents; trust them or revoke "
            "trust.", Group.CONVERSATIONS, leader="F", slash="trust", run=show_trust,
            also="hooks"),
)  # fmt: skip
