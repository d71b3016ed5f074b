"""Prompt: where the user writes to the agent.

Enter sends; a paste never does. The prompt knows no conversation: it posts what was submitted, keeps one draft for the
tab that is shown (`take`, `put`), and asks for the transcript to be scrolled without losing the focus. The completion
list is drawn over the transcript by an overlay that the screen composes. Keys that belong to the app are not bound
here. Imports no `core` before it is used.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events
from textual.actions import SkipAction
from textual.binding import Binding
from textual.geometry import Offset
from textual.message import Message
from textual.widget import Widget

from tui.commands import BY_ID, keyed
from tui.i18n import _
from tui.prompt.attachments import Chips, Picture, RefusedError, is_long, picture_path, read_clipboard, read_picture
from tui.prompt.completion import Completer, ListOverlay
from tui.prompt.history_search import HistorySearch, merge_history
from tui.prompt.text_area import ChipText, editing_keys, own_keys

if TYPE_CHECKING:
    from tui.approval.view import QuestionView
    from tui.chat.view import Where
    from tui.workspace.tab import Tab

SEND_KEYS = frozenset(BY_ID["prompt.send"].keys)
NEWLINE_KEYS = (
    frozenset({"shift+enter", "ctrl+enter", "shift+\r", "ctrl+\r"}).union(BY_ID["prompt.newline"].keys) - SEND_KEYS
)
"""The fixed ones work in terminals that can tell them from Enter. Those with \\r are what Textual makes of xterm's
modifyOtherKeys."""
_COMPLETES: dict[str, Literal["enter", "tab"]] = {"enter": "enter", "tab": "tab"}
"""The keys that take a row of the list."""
SHELL = "!"
"""The first character of a shell command."""
_UNPRINTABLE = {code: None for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\n\t"}


class Prompt(ChipText):
    """The message that is being written."""

    HELP = keyed(
        _(
            "{prompt.send} sends, {prompt.newline} inserts a new line, {prompt.up} on the "
            "first line and {prompt.down} on the last browse the history."
        )
    )
    DEFAULT_CSS = """
    Prompt {
        height: auto;
        min-height: 3;
        max-height: 50vh;
        scrollbar-size-vertical: 1;
        border-title-color: $text-muted;
        &.-shell, &.-shell:focus {
            border: tall $warning; background: $warning 8%; border-title-color: $text-warning;
            border-title-style: bold;
        }
    }
    """
    BINDINGS: ClassVar = [
        *editing_keys(),
        *own_keys(),
        Binding("ctrl+x", "cut_selection", "Cut", show=False, id="prompt.cut"),
        Binding("ctrl+d", "delete_or_leave", "Delete right", show=False, id="prompt.delete_right"),
        Binding("shift+up", "scroll_chat('line_up')", "Line up", show=False, id="prompt.line_up"),
        Binding("shift+down", "scroll_chat('line_down')", "Line down", show=False, id="prompt.line_down"),
    ]

    class Submitted(Message):
        """The user sent a message, with its chips; the prompt is empty again."""

        def __init__(self, text: str, question: QuestionView | None = None, tab: Tab | None = None) -> None:
            """`question` and `tab` are those that were shown when Enter was pressed."""
            super().__init__()
            self.text, self.question, self.tab = text, question, tab

    class ScrollWanted(Message):
        """The transcript should scroll, as `ChatView.go` does."""

        def __init__(self, where: Where) -> None:
            super().__init__()
            self.where: Where = where

    class HelpWanted(Message):
        """A question mark was typed into the empty prompt."""

    class Failed(Message):
        """Something could not be pasted."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    class PictureAttached(Message):
        """A picture was added to the message."""

    def __init__(
        self,
        *,
        history: list[str] | None = None,
        placeholder: str = "",
        overlay: ListOverlay | None = None,
        id: str | None = None,
    ) -> None:
        self.chips = Chips()
        self.list = overlay or ListOverlay()
        """Draws the list; somewhere on the same screen."""
        self.list_anchor: Widget = self
        """The list is placed above this widget: the prompt, or a container around it."""
        self.completer = Completer(self)
        self.search = HistorySearch(self)
        self.tab: Tab | None = None
        """The tab that is shown, for which the message is."""
        self.question: QuestionView | None = None
        """The question above the prompt. It takes arrows, digits and Enter while the prompt is empty."""
        super().__init__(
            placeholder=placeholder, id=id, soft_wrap=True, show_line_numbers=False, highlight_cursor_line=False
        )
        self.sent: list[str] = history if history is not None else []
        """The sent messages, the newest last."""
        self.load_history: Callable[[], Awaitable[Sequence[str]]] | None = None
        """Loads the messages of earlier sessions, the newest first. Does not raise."""
        self._pending_steps: int | None = None
        """How far the arrows went while the history is being loaded; None otherwise."""
        self.read_clipboard: Callable[[], Picture | str] = partial(read_clipboard, os.environ)
        """Raises RefusedError. Blocks."""
        self.folder = ""
        """Pasted paths are relative to it."""
        self._recalled: int | None = None
        """The index in `sent` of the message that is shown instead of the draft."""
        self._draft = ""

    def take(self) -> str:
        """Remove and return the unsent text."""
        text = self._draft if self._recalled is not None else self.text
        self.put("")
        return text

    def put(self, text: str) -> None:
        """Replace the text, with the cursor at its end."""
        self._recalled, self._draft = None, ""
        self._show(text)

    def _show(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)
        self.edited()
        self.completer.suppress()

    def edited(self) -> None:
        """Update what depends on the text: the list, the look of a shell command, the question."""
        is_shell = self.document[0].startswith(SHELL)
        if is_shell is not self.has_class("-shell"):
            self.set_class(is_shell, "-shell")
            hint = keyed(_("shell: {prompt.send} runs the command in the agent's sandbox"))
            self.border_title = hint if is_shell else ""
        self.completer.update()
        if self.question is not None:
            self.question.show_typing(is_typing=bool(self.text))

    # -- the list over the transcript --------------------------------------------------------------------------------

    def close_list(self) -> bool:
        """Close the list or the search, and keep the text. Returns whether one was open."""
        return self.search.end() or self.completer.close()

    async def take_row(self, key: Literal["tab", "click"]) -> bool:
        """Take the row under the cursor of the list. Returns False if the key is not for the list."""
        if self.search.is_active:
            self.search.take()
            return True
        return await self.completer.take(key)

    def move_hardware_cursor(self, to: Offset | None = None) -> None:
        """Move the terminal's cursor there or to the text's cursor: input methods open their window at it."""
        self.app.cursor_position = self.cursor_screen_offset if to is None else to

    def on_resize(self) -> None:
        if self.list.display:
            self.call_after_refresh(lambda: self.list.place(self.list_anchor.region))

    def on_blur(self) -> None:
        self.close_list()

    def action_search(self) -> None:
        """Search the history; messages of earlier sessions follow when they have been loaded."""
        self.completer.close()
        self.search.begin()
        self._load_history()

    # -- keys --------------------------------------------------------------------------------------------------------

    async def _on_key(self, event: events.Key) -> None:
        if self.search.is_active:
            self.search.on_key(event)
        elif self.completer.is_open and event.key in ("up", "down"):
            self.list.move(1 if event.key == "down" else -1)
        elif self.completer.is_open and event.key in ("pageup", "pagedown"):
            self.list.move_page(1 if event.key == "pagedown" else -1)
        elif self._is_for_question(event):
            pass
        elif event.key in SEND_KEYS:
            await self._enter()
        elif self.completer.is_open and event.key in _COMPLETES and await self.completer.take(_COMPLETES[event.key]):
            pass  # if these keys are not those of the commands that take a row
        elif event.key in NEWLINE_KEYS:
            self.insert_here("\n")
        elif event.key == "question_mark" and not self.text:
            self.post_message(self.HelpWanted())
        else:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()

    def _is_for_question(self, event: events.Key) -> bool:
        """Offer the key to the question above the prompt, unless a list is open. Returns whether it was taken."""
        if self.question is None or self.completer.is_open:
            return False
        sends = event.key in SEND_KEYS or (event.key == "enter" and not self.text)
        if self.question.takes_key(event, self.text, sends=sends):
            return True
        if event.is_printable and not self.text:
            self.insert_here(self.question.digits_of_text())
        return False

    async def _enter(self) -> None:
        """Take a row of the list, else replace a backslash before the cursor with a new line, else send."""
        if await self.completer.take("enter"):
            return
        row, column = self.cursor_location
        if self.selection.is_empty and column and self.document[row][column - 1] == "\\":
            self.replace("\n", (row, column - 1), (row, column), maintain_selection_offset=False)
            return
        self.submit()

    def submit(self) -> None:
        """Post the text and clear the prompt; blank text is not sent."""
        text = self.text
        if not text.strip():
            if text and self.question is not None:  # the prompt looks empty, and the question is not answered
                self.put("")
                self.question.say_blank()
            return
        if not self.sent or self.sent[-1] != text:
            self.sent.append(text)
        self.put("")
        question = self.question if self.question is not None and not self.question.is_answered else None
        self.post_message(self.Submitted(text, question, self.tab))

    # -- pasting -----------------------------------------------------------------------------------------------------

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if self.search.is_active:
            self.search.add(event.text)
        elif not event.text:  # what a terminal sends for a clipboard that has only a picture
            await self._paste_clipboard(or_else="")
        else:
            await self._paste(event.text)

    async def _paste(self, text: str) -> None:
        """Insert the text without control characters; the path of a picture attaches the picture."""
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNPRINTABLE)
        if (path := picture_path(text, self.folder)) is not None:
            try:
                self._attach_picture(await asyncio.to_thread(read_picture, path))
                return
            except FileNotFoundError:
                pass  # text about a picture that is elsewhere
            except RefusedError as error:
                self.post_message(self.Failed(str(error)))
        self.insert_here(self.chips.paste(text) if is_long(text) else text)

    async def action_paste_clipboard(self) -> None:
        """Paste a picture or text from the clipboard, else what was last copied in the app."""
        await self._paste_clipboard(or_else=self.app.clipboard)

    async def _paste_clipboard(self, *, or_else: str) -> None:
        found: Picture | str = ""
        try:
            found = await asyncio.to_thread(self.read_clipboard)
        except RefusedError as error:
            if not or_else:
                self.post_message(self.Failed(str(error)))
        if isinstance(found, Picture):
            self._attach_picture(found)
        elif text := found or or_else:
            await self._paste(text)

    def _attach_picture(self, picture: Picture) -> None:
        self.insert_here(self.chips.attach(picture))
        self.post_message(self.PictureAttached())

    # -- history -----------------------------------------------------------------------------------------------------

    def _load_history(self) -> None:
        """Load the messages of earlier sessions, once."""
        if self.load_history is not None:
            load, self.load_history = self.load_history, None
            self._pending_steps = 0
            self.run_worker(self._add_history(load, self.text), exit_on_error=False)

    async def _add_history(self, load: Callable[[], Awaitable[Sequence[str]]], text: str) -> None:
        """Add the loaded messages, then do the steps that were made meanwhile, unless the text was changed."""
        try:
            earlier = await load()
        finally:
            steps, self._pending_steps = self._pending_steps or 0, None
        self.sent[:] = merge_history(earlier, self.sent)
        for _step in range(abs(steps) if self.text == text else 0):
            self._recall(-1 if steps < 0 else 1)
        self.search.refresh()

    def action_up(self) -> None:
        """Move up; on the first line, recall the message before."""
        if self.navigator.is_first_wrapped_line(self.cursor_location) and self.selection.is_empty:
            self._load_history()
            self._recall(-1)
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        """Move down; on the last line, recall the message after."""
        if self.navigator.is_last_wrapped_line(self.cursor_location) and self.selection.is_empty:
            self._recall(1)
        else:
            self.action_cursor_down()

    def _recall(self, step: int) -> None:
        if self._pending_steps is not None:
            self._pending_steps += step
            return
        at = len(self.sent) if self._recalled is None else self._recalled
        to = at + step
        if not 0 <= to <= len(self.sent):
            return
        if self._recalled is None:
            self._draft = self.text
        if to == len(self.sent):
            self.put(self._draft)
        else:
            self._recalled = to
            self._show(self.sent[to])

    # -- keys that are the app's if they mean nothing here -------------------------------------------------------------

    def action_cut_selection(self) -> None:
        """Cut the selection; without one the key is the app's."""
        if self.selection.is_empty:
            raise SkipAction
        self.action_cut()

    def action_delete_or_leave(self) -> None:
        """Delete to the right; in an empty prompt the key is the app's."""
        if not self.text:
            raise SkipAction
        self.action_delete_right()

    def action_scroll_chat(self, where: Where) -> None:
        self.post_message(self.ScrollWanted(where))
