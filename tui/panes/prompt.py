"""Prompt: where the user writes to the agent.

Enter sends and a paste never does. The prompt keeps no conversation: it posts what was submitted, lends its
text to the tab that it stands in (`take`, `put`), and asks for the transcript to be scrolled without giving
up the focus. Keys that belong to the app are not bound here. Imports no `core`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.actions import SkipAction
from textual.binding import Binding
from textual.message import Message
from textual.widgets import TextArea

if TYPE_CHECKING:
    from textual import events

    from tui.panes.chat.view import Where

NEWLINE_KEYS = frozenset({"ctrl+j", "shift+enter", "ctrl+enter", "shift+\r", "ctrl+\r"})
"""The last two are what xterm's modifyOtherKeys comes to in Textual."""
LEFT_TO_OTHERS = frozenset(
    {"f6", "f7", "ctrl+c", "ctrl+x", "ctrl+d", "pageup", "pagedown", "shift+up", "shift+down", "up", "down"}
)
"""Keys of TextArea that the app or the prompt itself gives another meaning."""
_UNPRINTABLE = {code: None for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\n\t"}


def _editing_keys() -> list[Binding]:
    """TextArea's bindings without those of LEFT_TO_OTHERS."""
    kept = []
    for binding in TextArea.BINDINGS:
        assert isinstance(binding, Binding)
        keys = [key for key in binding.key.split(",") if key not in LEFT_TO_OTHERS]
        if keys:
            kept.append(replace(binding, key=",".join(keys)))
    return kept


class Prompt(TextArea, inherit_bindings=False):
    """The message that is being written."""

    HELP = "Enter sends, ctrl+j starts a new line, ↑ and ↓ at the edges bring back what was sent before."
    DEFAULT_CSS = """
    Prompt {
        height: auto;
        min-height: 3;
        max-height: 50vh;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar = [
        *_editing_keys(),
        Binding("up", "up", "Earlier message", show=False, id="prompt.up"),
        Binding("down", "down", "Later message", show=False, id="prompt.down"),
        Binding("ctrl+x", "cut_selection", "Cut", show=False, id="prompt.cut"),
        Binding("ctrl+d", "delete_or_leave", "Delete right", show=False, id="prompt.delete_right"),
        Binding("pageup", "scroll_chat('page_up')", "Page up", show=False, id="prompt.page_up"),
        Binding("pagedown", "scroll_chat('page_down')", "Page down", show=False, id="prompt.page_down"),
        Binding("shift+up", "scroll_chat('line_up')", "Line up", show=False, id="prompt.line_up"),
        Binding("shift+down", "scroll_chat('line_down')", "Line down", show=False, id="prompt.line_down"),
        Binding("ctrl+home", "scroll_chat('home')", "First", show=False, id="prompt.home"),
        Binding("ctrl+end", "scroll_chat('end')", "Newest", show=False, id="prompt.end"),
    ]

    class Submitted(Message):
        """The user sends a message; the prompt is empty again."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class ScrollWanted(Message):
        """The transcript should move as `ChatView.go` does."""

        def __init__(self, where: Where) -> None:
            super().__init__()
            self.where: Where = where

    class HelpWanted(Message):
        """A question mark was typed into the empty prompt."""

    def __init__(
        self,
        *,
        history: list[str] | None = None,
        placeholder: str = "",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
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

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            self._enter()
        elif event.key in NEWLINE_KEYS:
            self._replace_selection("\n")
        elif event.key == "question_mark" and not self.text:
            self.post_message(self.HelpWanted())
        else:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()

    def _enter(self) -> None:
        """Send; behind a backslash, start a new line in its place."""
        row, column = self.cursor_location
        if self.selection.is_empty and column and self.document[row][column - 1] == "\\":
            self.replace("\n", (row, column - 1), (row, column), maintain_selection_offset=False)
            return
        text = self.text
        if not text.strip():
            return
        if not self.sent or self.sent[-1] != text:
            self.sent.append(text)
        self.put("")
        self.post_message(self.Submitted(text))

    def _replace_selection(self, text: str) -> None:
        if (result := self._replace_via_keyboard(text, *self.selection)) is not None:
            self.move_cursor(result.end_location)

    async def _on_paste(self, event: events.Paste) -> None:
        """Put pasted text in, lines and all, without what could act on a terminal."""
        event.stop()
        event.prevent_default()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNPRINTABLE)
        self._replace_selection(text)

    def action_up(self) -> None:
        """The line above; above the first, the message sent before."""
        if self.navigator.is_first_wrapped_line(self.cursor_location) and self.selection.is_empty:
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
