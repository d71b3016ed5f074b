"""Prompt: where the user writes to the agent.

Enter sends and a paste never does. The prompt keeps no conversation: it posts what was submitted, lends its text to the
tab that it stands in (`take`, `put`), and asks for the transcript to be scrolled without giving up the focus. What it
offers in a list (files, events, commands) comes from sources that the app gives it; the list lies over the transcript
and belongs to whoever composed it. Keys that belong to the app are not bound here. Imports no `core` before it is used.
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
from textual.geometry import Offset, Region
from textual.message import Message
from textual.widget import Widget

from tui.commands import BY_ID, keyed
from tui.i18n import _
from tui.prompt.attachments import RefusedError, picture_path, read_picture
from tui.prompt.chips import Chips, Picture, is_long
from tui.prompt.clipboard_reader import read_clipboard
from tui.prompt.completer import Completer
from tui.prompt.completion_list import ListOverlay
from tui.prompt.history_search import Search
from tui.prompt.prompt_history import joined
from tui.prompt.text_area import ChipText, editing_keys, own_keys

if TYPE_CHECKING:
    from tui.approval.view import QuestionView
    from tui.chat.view import Where
    from tui.workspace.tab import Tab

SEND_KEYS = frozenset(BY_ID["prompt.send"].keys)
_OFTEN_TOLD = frozenset({"shift+enter", "ctrl+enter", "shift+\r", "ctrl+\r"})
"""They begin a line wherever a terminal tells them from Enter. The last two are what xterm's modifyOtherKeys comes to
in Textual."""
NEWLINE_KEYS = _OFTEN_TOLD.union(BY_ID["prompt.newline"].keys) - SEND_KEYS
_TAKES: dict[str, Literal["enter", "tab"]] = {"enter": "enter", "tab": "tab"}
"""The keys of a list, whatever they mean without one."""
SHELL = "!"
"""What begins a command for the shell."""
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
        """The user sends a message, chips and all; the prompt is empty again."""

        def __init__(self, text: str, question: QuestionView | None = None, tab: Tab | None = None) -> None:
            """`question` is the one that was above the prompt when Enter was pressed, `tab` the one that was shown."""
            super().__init__()
            self.text, self.question, self.tab = text, question, tab

    class ScrollWanted(Message):
        """The transcript should move as `ChatView.go` does."""

        def __init__(self, where: Where) -> None:
            super().__init__()
            self.where: Where = where

    class HelpWanted(Message):
        """A question mark was typed into the empty prompt."""

    class Told(Message):
        """Something about what was just done that the user should know."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class PictureAttached(Message):
        """A picture goes with the message from now on."""

    def __init__(
        self,
        *,
        history: list[str] | None = None,
        placeholder: str = "",
        overlay: ListOverlay | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        self.chips = Chips()
        self.list = overlay or ListOverlay()
        """Where lists are shown; somewhere on the same screen."""
        self.stands_in: Widget = self
        """The widget on top of which lists stand: the prompt, or what it shares the lower edge with."""
        self.completer = Completer(self)
        self.search = Search(self)
        self.tab: Tab | None = None
        """The conversation that what is sent now is for."""
        self.question: QuestionView | None = None
        """The question above the prompt, which takes arrows, digits and Enter while the prompt is empty."""
        super().__init__(
            placeholder=placeholder,
            id=id,
            classes=classes,
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
        )
        self.sent: list[str] = history if history is not None else []
        """What was sent before, the newest last. Shared by whoever hands it in; submitting adds to it."""
        self.load_history: Callable[[], Awaitable[Sequence[str]]] | None = None
        """Reads what earlier sessions sent, the newest first. Does not raise."""
        self._steps_when_read: int | None = None
        """How far the arrows went while it is being read; None while it is not."""
        self.read_clipboard: Callable[[], Picture | str] = partial(read_clipboard, os.environ)
        """Raises RefusedError. Blocks."""
        self.folder = ""
        """Against which pasted paths are read."""
        self._recalled: int | None = None
        self._draft = ""

    def take(self) -> str:
        """The unsent text, which is gone from the prompt then."""
        text = self._draft if self._recalled is not None else self.text
        self.put("")
        return text

    def put(self, text: str) -> None:
        """Have this text in the prompt, unsent, the cursor behind it."""
        self._recalled, self._draft = None, ""
        self._show(text)

    def _show(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)
        self.edited()
        self.completer.rest()

    def edited(self) -> None:
        """Follow the text: the list of the word at the cursor, and whether this is for the shell."""
        is_shell = self.document[0].startswith(SHELL)
        if is_shell is not self.has_class("-shell"):
            self.set_class(is_shell, "-shell")
            hint = keyed(_("shell: {prompt.send} runs the command in the agent's sandbox"))
            self.border_title = hint if is_shell else ""
        self.completer.look()
        if self.question is not None:
            self.question.show_typing(is_typing=bool(self.text))

    # -- the list over the transcript --------------------------------------------------------------------------------

    @property
    def room_above(self) -> Region:
        """The region of the screen upon which a list has to stand."""
        return self.stands_in.region

    def leave_list(self) -> bool:
        """Send away the list or the search, and keep the text. Answers whether there was one."""
        return self.search.end() or self.completer.leave()

    async def complete(self) -> bool:
        """Take what the list offers, for Tab. Answers whether the key was the list's."""
        if self.search.is_on:
            self.search.take()
            return True
        return await self.completer.take("tab")

    async def take_clicked(self) -> None:
        """A row of the list was clicked."""
        if self.search.is_on:
            self.search.take()
        else:
            await self.completer.take("click")

    def show_caret(self, at: Offset | None = None) -> None:
        """Put the terminal's own cursor there, or where the text goes: input methods open their window at it."""
        self.app.cursor_position = self.cursor_screen_offset if at is None else at

    def on_resize(self) -> None:
        """The list stays on what is above."""
        if self.list.display:
            self.call_after_refresh(lambda: self.list.place(self.room_above))

    def on_blur(self) -> None:
        """Whoever goes elsewhere is through with the list."""
        self.leave_list()

    def action_search(self) -> None:
        """Search what was sent before; what earlier sessions sent joins in when it has been read."""
        self.completer.leave()
        self.search.begin()
        self._load_history()

    # -- keys --------------------------------------------------------------------------------------------------------

    async def _on_key(self, event: events.Key) -> None:
        if self.search.is_on:
            self.search.key(event)
        elif self.completer.is_open and event.key in ("up", "down"):
            self.list.move(1 if event.key == "down" else -1)
        elif self.completer.is_open and event.key in ("pageup", "pagedown"):
            self.list.move_page(1 if event.key == "pagedown" else -1)
        elif self._belongs_to_question(event):
            pass
        elif event.key in SEND_KEYS:
            await self._enter()
        elif self.completer.is_open and event.key in _TAKES and await self.completer.take(_TAKES[event.key]):
            pass  # where these keys are not the commands that do it
        elif event.key in NEWLINE_KEYS:
            self.insert_here("\n")
        elif event.key == "question_mark" and not self.text:
            self.post_message(self.HelpWanted())
        else:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()

    def _belongs_to_question(self, event: events.Key) -> bool:
        """Whether the question above the prompt has the key; a list over the transcript comes first."""
        if self.question is None or self.completer.is_open:
            return False
        sends = event.key in SEND_KEYS or (event.key == "enter" and not self.text)
        if self.question.takes_key(event, self.text, sends=sends):
            return True
        if event.is_printable and not self.text:
            self.insert_here(self.question.digits_of_text())
        return False

    async def _enter(self) -> None:
        """Take what the list offers; behind a backslash, start a new line in its place; else send."""
        if await self.completer.take("enter"):
            return
        row, column = self.cursor_location
        if self.selection.is_empty and column and self.document[row][column - 1] == "\\":
            self.replace("\n", (row, column - 1), (row, column), maintain_selection_offset=False)
            return
        self.submit()

    def submit(self) -> None:
        """Post what is written and be empty; nothing is not sent."""
        text = self.text
        if not text.strip():
            if text and self.question is not None:  # it looks empty, and answers nothing
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
        """Put pasted text in, lines and all, without what could act on a terminal; a picture's path attaches it."""
        event.stop()
        event.prevent_default()
        if self.search.is_on:
            self.search.add(event.text)
        elif not event.text:  # what a terminal sends for a clipboard that has only a picture
            await self._paste_clipboard(or_else="")
        else:
            await self._paste(event.text)

    async def _paste(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNPRINTABLE)
        if (path := picture_path(text, self.folder)) is not None:
            try:
                self._attach_picture(await asyncio.to_thread(read_picture, path))
                return
            except FileNotFoundError:
                pass  # it is about a picture that is elsewhere
            except RefusedError as error:
                self.post_message(self.Told(str(error)))
        self.insert_here(self.chips.paste(text) if is_long(text) else text)

    async def action_paste_clipboard(self) -> None:
        """Paste what is in the clipboard: a picture, text, or else what was last copied in here."""
        await self._paste_clipboard(or_else=self.app.clipboard)

    async def _paste_clipboard(self, *, or_else: str) -> None:
        found: Picture | str = ""
        try:
            found = await asyncio.to_thread(self.read_clipboard)
        except RefusedError as error:
            if not or_else:
                self.post_message(self.Told(str(error)))
        if isinstance(found, Picture):
            self._attach_picture(found)
        elif text := found or or_else:
            await self._paste(text)

    def _attach_picture(self, picture: Picture) -> None:
        self.insert_here(self.chips.attach(picture))
        self.post_message(self.PictureAttached())

    # -- what was sent before ----------------------------------------------------------------------------------------

    def _load_history(self) -> None:
        """Read what earlier sessions sent, once."""
        if self.load_history is not None:
            read, self.load_history = self.load_history, None
            self._steps_when_read = 0
            self.run_worker(self._take_history(read, self.text), exit_on_error=False)

    async def _take_history(self, read: Callable[[], Awaitable[Sequence[str]]], text: str) -> None:
        """Put it before what this session sent, then do what was asked for meanwhile, unless the user writes."""
        try:
            earlier = await read()
        finally:
            steps, self._steps_when_read = self._steps_when_read or 0, None
        self.sent[:] = joined(earlier, self.sent)
        for _step in range(abs(steps) if self.text == text else 0):
            self._recall(-1 if steps < 0 else 1)
        self.search.refresh()

    def action_up(self) -> None:
        """The line above; above the first, the message sent before."""
        if self.navigator.is_first_wrapped_line(self.cursor_location) and self.selection.is_empty:
            self._load_history()
            self._recall(-1)
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        """The line below; below the last, the message sent after."""
        if self.navigator.is_last_wrapped_line(self.cursor_location) and self.selection.is_empty:
            self._recall(1)
        else:
            self.action_cursor_down()

    def _recall(self, step: int) -> None:
        if self._steps_when_read is not None:
            self._steps_when_read += step
            return
        at = len(self.sent) if self._recalled is None else self._recalled
        to = at + step
        if not 0 <= to <= len(self.sent) or to == at:
            return
        if self._recalled is None:
            self._draft = self.text
        if to == len(self.sent):
            self.put(self._draft)
        else:
            self._recalled = to
            self._show(self.sent[to])

    # -- keys that are the app's where they mean nothing here --------------------------------------------------------

    def action_cut_selection(self) -> None:
        """Cut what is selected; with nothing selected the key is the app's."""
        if self.selection.is_empty:
            raise SkipAction
        self.action_cut()

    def action_delete_or_leave(self) -> None:
        """Delete to the right; in the empty prompt the key is the app's."""
        if not self.text:
            raise SkipAction
        self.action_delete_right()

    def action_scroll_chat(self, where: Where) -> None:
        self.post_message(self.ScrollWanted(where))
