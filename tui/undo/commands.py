"""Undo, redo and forks: the user sees what would change before it happens, and the result afterwards.

In the dialog the turns are listed, the newest first; what undoing the highlighted one would do is asked for and shown
below. Its result is what the user chose, or None. Texts of events and names of files are cleaned here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.choice_dialog import GuardedScreen
from tui.dialogs.search_list import Clickable
from tui.i18n import _, counted
from tui.plan.commands import look_for_plan
from tui.replay.commands import fork_here
from tui.shortcuts.command import Command, Group, keyed
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_start import fork_from

if TYPE_CHECKING:
    from core.checkpoints.model import FileChange
    from core.events import UndoObservation
    from core.undo.undo import Turn, UndoPreview
    from tui.chat.view import ChatView
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab

MAX_FILES = 500
"""Files that are listed; users do not read more."""
CELLS = 90
WHAT = ((True, True), (True, False), (False, True))
"""Of chat and files, in the order of the Tab key."""
KINDS = {
    "created": ("+", _("restored"), "$text-success"),
    "changed": ("~", _("reverted"), "$text-primary"),
    "deleted": ("−", _("deleted"), "$text-error"),
}
"""By what would become of a file."""


class UndoChoice(NamedTuple):
    """What is to be undone."""

    preview: UndoPreview
    chat: bool
    files: bool
    overwrite: bool


class UndoScreen(GuardedScreen[UndoChoice | None]):
    """Choose a turn and what of it; or, for a redo, see what it does."""

    guards_bindings = True

    DEFAULT_CSS = """
    UndoScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 100; height: auto; max-height: 90%; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        OptionList, OptionList:focus { height: auto; max-height: 8; border: none; background: $surface; padding: 0; }
        Static { height: auto; }
        #undo-what { margin-top: 1; }
        #undo-files { height: auto; max-height: 16; }
    }
    """
    BINDINGS = [
        Binding("escape", "leave", "Leave"),
        Binding("tab", "next_what", show=False, priority=True),
        Binding("o", "overwrite", show=False),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
    ]

    def __init__(
        self,
        turns: Sequence[Turn],
        preview: Callable[[int], Awaitable[UndoPreview]],
        *,
        first: int | None = None,
        beside: Sequence[str] = (),
        redo: bool = False,
    ) -> None:
        super().__init__()
        self._turns, self._ask, self._beside, self._redo = turns, preview, beside, redo
        self._begin = next((index for index, turn in enumerate(turns) if turn.id == first), 0)
        self._what = 0
        self._overwrite = False
        self._preview: UndoPreview | None = None
        self._previewed_at = float("inf")
        """When the preview was drawn."""
        self._problem = ""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Redo") if self._redo else _("Undo this message and everything after it")
            yield Clickable(*(Option(_turn(turn), id=str(turn.id)) for turn in self._turns), markup=False)
            yield Static(id="undo-what")
            with VerticalScroll(id="undo-files", can_focus=False):
                yield Static(id="undo-list")
            yield Static(id="undo-warnings")

    def on_mount(self) -> None:
        """The last turn, or the one that was asked for."""
        turns = self.query_one(OptionList)
        turns.focus()
        turns.highlighted = self._begin
        self._show()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Ask what undoing it would do."""
        self._preview, self._problem, self._overwrite = None, "", False
        self._previewed_at = float("inf")
        self._show()
        self._load(int(event.option_id or 0))

    @work(exclusive=True)
    async def _load(self, first: int) -> None:
        from core.errors import HandloomError

        try:
            self._preview = await self._ask(first)
        except HandloomError as error:
            self._problem = str(error)
        self._show()
        self.call_after_refresh(self._note_preview)

    def _note_preview(self) -> None:
        self._previewed_at = self._handloom.clock()

    # -- what is possible ----------------------------------------------------------------------------------------------

    @property
    def _choices(self) -> Sequence[tuple[bool, bool]]:
        preview = self._preview
        if preview is None or not preview.changes:
            return ((True, False),)
        return ((preview.chat, True),) if self._redo else WHAT

    @property
    def _chosen(self) -> tuple[bool, bool]:
        return self._choices[self._what % len(self._choices)]

    def action_next_what(self) -> None:
        """Chat and files, the chat, the files, and round again."""
        self._what = (self._what + 1) % len(self._choices)
        self._show()

    def action_overwrite(self) -> None:
        """Take along what others have changed too, or leave it alone again."""
        if self._preview is not None and self._preview.disputed:
            self._overwrite = not self._overwrite
            self._show()

    def action_page(self, pages: int) -> None:
        """Scroll the list of files."""
        files = self.query_one("#undo-files", VerticalScroll)
        files.scroll_relative(y=pages * max(1, files.size.height - 1), animate=False)

    def on_option_list_option_selected(self) -> None:
        """Take it, once what it does has been shown for long enough to be read."""
        if self._preview is not None and self._handloom.clock() - self._previewed_at >= self.guard.guard_s:
            self.dismiss(UndoChoice(self._preview, *self._chosen, self._overwrite))

    def action_leave(self) -> None:
        """Undo nothing."""
        self.dismiss(None)

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        chat, files = self._chosen
        names = {(True, True): _("chat and files"), (True, False): _("the chat"), (False, True): _("the files")}
        parts: list[Content | str | tuple[str, str]] = []
        for choice in self._choices:
            parts += [(f" {names[choice]} ", "reverse" if choice == (chat, files) else "$text-muted"), " "]
        self.query_one("#undo-what", Static).update(Content.assemble(*parts))
        self.query_one("#undo-list", Static).update(Content("\n").join(list(self._file_lines(files))))
        self.query_one("#undo-warnings", Static).update(Content("\n").join(list(self._warnings(files))))
        keys = [_("Tab chat or files")] if len(self._choices) > 1 else []
        keys += [_("Enter confirms"), _("Esc closes")]
        self.query_one(Vertical).border_subtitle = " · ".join(keys)

    def _file_lines(self, files: bool) -> Iterator[Content]:
        preview = self._preview
        if self._problem:
            yield Content.styled(self._problem, "$text-error")
        elif preview is None:
            yield Content.styled(_("Loading files …"), "$text-muted")
        elif preview.why_no_files:
            yield Content.styled(preview.why_no_files, "$text-muted")
        elif not preview.changes:
            yield Content.styled(_("No file changes."), "$text-muted")
        elif not files:
            yield Content.styled(_("Files do not change."), "$text-muted")
        else:
            spared = frozenset() if self._overwrite else frozenset(preview.disputed)
            for change in preview.changes[:MAX_FILES]:
                yield _file(change, stays=change.path in spared)
            if (more := len(preview.changes) - MAX_FILES) > 0:
                yield Content(counted(more, "and {n} more file", "and {n} more files"))

    def _warnings(self, files: bool) -> Iterator[Content]:
        preview = self._preview
        if preview is None:
            return
        if files and preview.disputed:
            text = counted(
                len(preview.disputed),
                "{n} of them was changed by others too.",
                "{n} of them were changed by others too.",
            )
            key = _("o keeps it") if self._overwrite else _("It is kept; o reverts it too.")
            yield Content.styled(f"{text} {key}", "$text-warning")
        if files and preview.others:
            text = counted(
                len(preview.others),
                "{n} file changed only by others is not touched.",
                "{n} files changed only by others are not touched.",
            )
            yield Content.styled(text, "$text-muted")
        for title in self._beside if files else ():
            text = _("“{title}” is working in the same folder; its changes may be mixed in.")
            yield Content.styled(text.format(title=sanitize_line(title, 40)), "$text-warning")


def _turn(turn: Turn) -> Content:
    at = turn.at.astimezone().strftime(_("%d %b %H:%M"))
    return Content.assemble((at, "$text-muted"), "  ", sanitize_line(turn.text, CELLS - 15))


def _file(change: FileChange, *, stays: bool) -> Content:
    glyph, word, colour = ("·", _("kept"), "$text-muted") if stays else KINDS[change.kind]
    lines = _("binary") if change.binary else f"+{change.added} −{change.removed}"
    path = sanitize_line(change.path, CELLS - 30)
    return Content.assemble((f"{glyph} ", colour), path, (f"  {word}  {lines}", "$text-muted"))


# -- undo ----------------------------------------------------------------------------------------------------------


def undo(app: Context) -> None:
    """Undo in the current conversation."""
    if app.tabs.conversation is not None:
        app.attempt(_undo(app, app.tabs.conversation))


def redo(app: Context) -> None:
    """Redo in the current conversation."""
    if app.tabs.conversation is not None:
        app.attempt(_redo(app, app.tabs.conversation))


def undo_from(app: Context, message: ChatView.UndoWanted) -> None:
    """Undo from a message in the chat on."""
    shown = app.workspace.chats.tab_of(message.view)
    for tab in app.tabs.conversations:
        if tab is shown:
            app.attempt(_undo(app, tab, message.event_id))


async def _undo(app: Context, tab: ConversationTab, first: int | None = None) -> None:

    assert app.manager is not None
    turns = await tab.session.undo.turns()
    if not turns:
        app.flash(_("There is nothing to undo yet."))
        return
    beside = await app.manager.others_at_work(tab.session)
    screen = UndoScreen(turns, tab.session.undo.preview, first=first, beside=beside)
    chosen = await app.push_screen_wait(screen)
    if chosen is None:
        return
    done = await tab.session.undo.undo(
        chosen.preview, chat=chosen.chat, files=chosen.files, overwrite=chosen.overwrite
    )  # fmt: skip
    prompt = app.workspace.prompt
    if done.done and chosen.chat and app.tabs.current is tab and not prompt.text:
        prompt.put(chosen.preview.text)
        prompt.focus()
    look_for_plan(app, tab)
    _report(app, done, _("Undone. {files}; {conv.redo} redoes it."))


async def _redo(app: Context, tab: ConversationTab) -> None:
    from core.undo.undo import Turn

    assert app.manager is not None
    preview = await tab.session.undo.preview_redo()
    message = await tab.event(preview.first)
    assert message is not None

    async def again(first: int) -> UndoPreview:
        return preview

    turns = [Turn(preview.first, preview.text, message.timestamp)]
    beside = await app.manager.others_at_work(tab.session)
    chosen = await app.push_screen_wait(UndoScreen(turns, again, beside=beside, redo=True))
    if chosen is None:
        return
    done = await tab.session.undo.redo(chosen.preview, overwrite=chosen.overwrite)
    if done.done and app.tabs.current is tab and app.workspace.prompt.text == preview.text:
        app.workspace.prompt.take()
    _report(app, done, _("Redone. {files}."))


def _report(app: Context, done: UndoObservation, text: str) -> None:
    if not done.done:
        app.report(_("Not undone. {why}").format(why=done.why))
        return
    app.flash(keyed(text, files=counted(done.changed, "{n} file changed", "{n} files changed")))
    if done.kept:
        kept = ", ".join(sanitize_line(path, 60) for path in done.kept[:10])
        app.report(_("These files could not be removed: {files}").format(files=kept))


# -- forks ---------------------------------------------------------------------------------------------------------


def fork(app: Context) -> None:
    """Fork the conversation from the selected event, else from its end; a replay from the event that is shown."""
    tab = app.tabs.conversation
    if tab is None:
        fork_here(app)
        return
    latest = tab.session.stream.latest_id
    if latest < 0:
        app.flash(_("No events yet."))
    else:
        at = _selected_event(app)
        app.attempt(fork_from(app, tab.id, latest if at is None else at))


def _selected_event(app: Context) -> int | None:
    """The event under the cursor of the pane in focus; None if there is none, or another pane has the focus."""
    events, chat = app.workspace.events_view, app.workspace.chat
    if events.has_focus and events.row is not None:
        return events.row.id
    if chat.has_focus and chat.cursor is not None and chat.cursor.event_id >= 0:
        return chat.cursor.event_id
    return None


ROWS = (
    Command("conv.undo", (), "Undo", "Undo a message and everything after it: the chat, the files, or both.",
            Group.CONVERSATIONS, leader="u", slash="undo", acts=True, run=undo,
            aliases=("rewind",), also="revert roll back checkpoint"),
    Command("conv.redo", (), "Redo", "Redo what was undone last.", Group.CONVERSATIONS, leader="R", slash="redo",
            acts=True, run=redo),
    Command("conv.fork", (), "Fork", "Continue from the selected event, or the end, in a new conversation.",
            Group.CONVERSATIONS, leader="f", slash="fork", run=fork),
)  # fmt: skip
