"""The command and the screen for changes: the user reviews, accepts, reverts and comments on those of a conversation.

The screen decides nothing: each key asks the session for one step, after which the remaining changes are loaded again.
When the screen closes, the remarks are sent to the agent or put into the prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.choice_dialog import GuardedScreen
from tui.dialogs.dialog import LineScreen, SureScreen
from tui.dialogs.search_list import Clickable
from tui.i18n import _, counted
from tui.shortcuts.command import Command, Group, keyed
from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from core.checkpoints.model import FileChange
    from core.review.review import Changes, Hunk, Review
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab

Reviewing = Callable[[], AbstractAsyncContextManager["Review"]]
"""Opens the review of the session for one step; raises UsageError while the agent works."""

SIDE_BY_SIDE_FROM = 100
"""From this width on the files are beside the changes, not above them."""
MAX_LINES = 2_000
"""Lines of one file that are drawn."""
LINE_CELLS = 400
KINDS = {"created": ("+", "$text-success"), "changed": ("~", "$text-primary"), "deleted": ("−", "$text-error")}
"""By the kind of change."""
_SIGNS = {"+": "$text-success", "-": "$text-error", "@": "$text-muted"}


class Remark(NamedTuple):
    """A comment of the user on a change. Texts of files are foreign."""

    path: str
    hunk: tuple[str, ...]
    text: str


class ReviewResult(NamedTuple):
    """The remarks made on the screen."""

    remarks: Sequence[Remark]
    send: bool
    """Whether they go to the agent at once."""


class ChangesScreen(GuardedScreen[ReviewResult]):
    """The files on one side, the changes of the selected one on the other."""

    guards_bindings = True

    DEFAULT_CSS = """
    ChangesScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 96%; height: 94%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        Clickable, Clickable:focus { border: none; background: $surface; padding: 0; scrollbar-size-vertical: 1; }
        #changes-files { width: 36%; height: 1fr; }
        #changes-hunks { width: 1fr; height: 1fr; padding: 0 0 0 1; scrollbar-size-vertical: 1; }
        #changes-message { height: auto; color: $text-muted; }
        .hunk { height: auto; border-left: outer $surface; padding: 0 0 0 1; margin-bottom: 1; }
        .hunk.-chosen { border-left: outer $accent; }
    }
    ChangesScreen.-narrow {
        Horizontal { layout: vertical; }
        #changes-files { width: 100%; height: auto; max-height: 30%; border-bottom: solid $panel; }
        #changes-hunks { padding: 0; }
    }
    """
    BINDINGS = [
        Binding("escape", "leave", "Leave", priority=True),
        Binding("tab,right,left,enter", "change_side", show=False, priority=True),
        Binding("pagedown,space", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("a", "accept", show=False),
        Binding("r", "revert", show=False),
        Binding("A", "accept_all", show=False),
        Binding("R", "revert_all", show=False),
        Binding("c", "remark", show=False),
        Binding("s", "send", show=False),
        Binding("down,j,n", "move(1)", show=False, priority=True),
        Binding("up,k,p", "move(-1)", show=False, priority=True),
    ]

    def __init__(self, review: Reviewing) -> None:
        super().__init__()
        self._review = review
        self._changes: Changes | None = None
        self._path = ""
        self._hunks: list[Hunk] | None = None
        self._at = 0
        self._in_hunks = False
        self._remarks: list[Remark] = []
        self._problem = ""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Changes in this conversation")
            with Horizontal():
                yield Clickable(id="changes-files", markup=False)
                yield VerticalScroll(id="changes-hunks", can_focus=False)
            yield Static(id="changes-message")

    def on_mount(self) -> None:
        """Load the changes."""
        self.query_one(OptionList).focus()
        self._start_loading()

    def on_resize(self) -> None:
        """Put files and changes next to each other if there is room."""
        self.set_class(self.size.width < SIDE_BY_SIDE_FROM, "-narrow")

    # -- loading -------------------------------------------------------------------------------------------------------

    @work(exclusive=True)
    async def _start_loading(self) -> None:
        await self._load()

    async def _load(self) -> None:
        from core.errors import HandloomError

        """Draw everything again, with the cursor on the same file or the one in its place."""
        files = self.query_one(OptionList)
        place = files.highlighted or 0
        self._show_message(_("Loading files …"))
        try:
            async with self._review() as review:
                self._changes = await review.changes()
        except HandloomError as error:
            self._changes = None
            self._show_message(str(error), wrong=True)
            return
        shown = self._changes.files
        names = [change.path for change in shown]
        files.set_options([Option(_file(change), id=str(number)) for number, change in enumerate(shown)])
        self._show_message("")
        if names:
            files.highlighted = names.index(self._path) if self._path in names else min(place, len(names) - 1)
        else:
            self._path, self._hunks = "", []
            await self._draw()

    @property
    def _selected_file(self) -> FileChange | None:
        at = self.query_one(OptionList).highlighted
        return None if self._changes is None or at is None else self._changes.files[at]

    def on_option_list_option_highlighted(self) -> None:
        """Show the changes of this file."""
        if self._selected_file is not None:
            self._at = 0 if self._selected_file.path != self._path else self._at
            self._path = self._selected_file.path
            self._show()

    @work(exclusive=True, group="hunks")
    async def _show(self) -> None:
        from core.errors import HandloomError

        changes, path = self._changes, self._path
        assert changes is not None
        try:
            async with self._review() as review:
                self._hunks = await review.hunks(changes, path)
        except HandloomError as error:
            self._hunks = None
            self._show_message(str(error), wrong=True)
        self._at = max(0, min(self._at, len(self._hunks or ()) - 1))
        await self._draw()

    # -- keys ----------------------------------------------------------------------------------------------------------

    def action_change_side(self) -> None:
        """Move to the changes of this file, or back to the files."""
        self._in_hunks = not self._in_hunks and bool(self._hunks)
        self._mark()

    def action_move(self, step: int) -> None:
        """Move to the next change, or the next file."""
        if self._in_hunks:
            self._at = max(0, min(self._at + step, len(self._hunks or ()) - 1))
            self._mark()
        else:
            files = self.query_one(OptionList)
            (files.action_cursor_down if step > 0 else files.action_cursor_up)()

    def action_page(self, pages: int) -> None:
        """Scroll the changes."""
        place = self.query_one("#changes-hunks", VerticalScroll)
        place.scroll_relative(y=pages * max(1, place.size.height - 1), animate=False)

    def action_accept(self) -> None:
        """Accept this file, or this change of it."""
        self._apply(lambda review, changes: review.accept(changes, self._path, self._selected_hunks))

    @work
    async def action_revert(self) -> None:
        """Revert this file, or this change of it, once the user has confirmed it."""
        if self._changes is None or not self._path:
            return
        changes, path, hunks = self._changes, self._path, self._selected_hunks
        question = _("Revert all changes in {path}?") if hunks is None else _("Revert this change in {path}?")
        yes = keyed(_("revert; {conv.redo} brings the change back"))
        if await self.app.push_screen_wait(SureScreen(question.format(path=sanitize_line(path, 80)), yes)):
            self._apply(lambda review, _now: review.revert(changes, path, hunks))

    def action_accept_all(self) -> None:
        """Accept all changes."""
        if self._changes is not None and self._changes.files:
            self._apply(lambda review, changes: review.accept(changes))

    @work
    async def action_revert_all(self) -> None:
        """Revert all changes, once the user has confirmed it."""
        if self._changes is None or not self._changes.files:
            return
        count = counted(len(self._changes.files), "Revert the changes in {n} file?", "Revert the changes in {n} files?")
        if await self.app.push_screen_wait(
            SureScreen(count, keyed(_("revert all; {conv.redo} brings the changes back")))
        ):
            self._apply(lambda review, changes: review.revert(changes))

    @property
    def _selected_hunks(self) -> Collection[int] | None:
        """The change under the cursor; None for the whole file."""
        return {self._at} if self._in_hunks and self._hunks else None

    @work(exclusive=True)
    async def _apply(self, step: Callable[[Review, Changes], Awaitable[object]]) -> None:
        from core.errors import HandloomError

        if self._changes is None or not self._path:
            return
        try:
            async with self._review() as review:
                done = await step(review, self._changes)
        except HandloomError as error:
            self._show_message(str(error), wrong=True)
            return
        await self._load()
        if (why := getattr(done, "why", "")) and not getattr(done, "done", True):
            self._show_message(_("Not reverted. {why}").format(why=why), wrong=True)

    @work
    async def action_remark(self) -> None:
        """Comment on this file, or this change of it."""
        if not self._path:
            return
        hunk = self._hunks[self._at].lines if self._hunks and self._in_hunks else ()
        title = _("About {path}").format(path=sanitize_line(self._path, 40))
        answer = await self.app.push_screen_wait(LineScreen(title, _("What should be different?")))
        if answer and answer.strip():
            self._remarks.append(Remark(self._path, hunk, answer.strip()))
            self._mark()

    def action_send(self) -> None:
        """Send the remarks to the agent."""
        if self._remarks:
            self.dismiss(ReviewResult(self._remarks, send=True))

    def action_leave(self) -> None:
        """Close the screen and put the remarks into the prompt."""
        self.dismiss(ReviewResult(self._remarks, send=False))

    # -- drawing -------------------------------------------------------------------------------------------------------

    def _show_message(self, text: str, *, wrong: bool = False) -> None:
        changes = self._changes
        lines = [Content.styled(sanitize_line(text, 300), "$text-error" if wrong else "$text-muted")] if text else []
        if not text and changes is not None and not changes.files:
            lines.append(Content(_("No changes left to review.")))
        if changes is not None and changes.others:
            message = counted(len(changes.others), "{n} file changed by others is not listed.",
                           "{n} files changed by others are not listed.")  # fmt: skip
            lines.append(Content(message))
        self.query_one("#changes-message", Static).update(Content("\n").join(lines))

    async def _draw(self) -> None:
        """The changes of the chosen file."""
        place = self.query_one("#changes-hunks", VerticalScroll)
        await place.remove_children()
        if self._hunks is None:
            text = _("This file is binary or too large to show line by line. a accepts it, r reverts it.")
            await place.mount(Static(Content(text), classes="hunk"))
        else:
            left, drawn = MAX_LINES, []
            for hunk in self._hunks:
                if left <= 0:
                    break
                drawn.append(Static(_lines(hunk.lines[:left]), classes="hunk"))
                left -= len(hunk.lines)
            await place.mount_all(drawn)
        self._mark()

    def _mark(self) -> None:
        """Show where the cursor is, and what the keys do there."""
        hunks = list(self.query(".hunk"))
        self._in_hunks = self._in_hunks and bool(self._hunks)
        for number, hunk in enumerate(hunks):
            hunk.set_class(self._in_hunks and number == self._at, "-chosen")
        if self._in_hunks and self._at < len(hunks):
            self.query_one("#changes-hunks", VerticalScroll).scroll_to_widget(hunks[self._at], animate=False, top=True)
        what = _("this change") if self._in_hunks else _("this file")
        keys = [_("a accept {what} · r revert").format(what=what), _("c remark")]
        if self._remarks:
            keys.append(counted(len(self._remarks), "s sends {n} remark", "s sends {n} remarks"))
        if self._hunks:
            keys.append(_("Tab files") if self._in_hunks else _("Tab changes"))
        if self.size.width >= SIDE_BY_SIDE_FROM:
            keys += [_("A R all"), _("Esc closes")]
        self.query_one(Vertical).border_subtitle = " · ".join(keys)


def _file(change: FileChange) -> Content:
    glyph, colour = KINDS[change.kind]
    lines = _("binary") if change.binary else f"+{change.added} −{change.removed}"
    return Content.assemble((f"{glyph} ", colour), sanitize_line(change.path, 80), (f"  {lines}", "$text-muted"))


def _lines(lines: Sequence[str]) -> Content:
    return Content("\n").join(
        Content.styled(sanitize_line(line, LINE_CELLS) or " ", _SIGNS.get(line[:1], "")) for line in lines
    )


def show_changes(app: Context) -> None:
    """Show what the agent has changed in the files."""
    if app.tabs.conversation is not None:
        app.attempt(_review(app, app.tabs.conversation))


async def _review(app: Context, tab: ConversationTab) -> None:
    from core.review.review import comment

    result = await app.push_screen_wait(ChangesScreen(tab.session.undo.review))
    if not result.remarks:
        return
    remarks, contexts = zip(*(comment(*remark) for remark in result.remarks), strict=True)
    if result.send:
        await tab.session.send("\n".join(remarks), context="\n\n".join(text for text in contexts if text))
        app.flash(counted(len(remarks), "{n} remark is sent.", "{n} remarks are sent."))
    else:
        app.workspace.prompt.put("\n".join([app.workspace.prompt.text, *remarks]).strip())
        app.flash(_("Your remarks are in the prompt."))


ROWS = (
    Command("conv.changes", (), "Changes", "Review the agent's file changes; accept or revert them.",
            Group.CONVERSATIONS, leader="d", slash="changes", acts=True, run=show_changes,
            aliases=("diff",), also="patch edits git accept reject"),
)  # fmt: skip
