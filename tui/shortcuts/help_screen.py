"""The help: the most used keys, then every key of the command table, those of the focused widget first.

Typing filters them.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from tui.commands import BY_ID, COMMANDS, Command, Scope, all_keys, by_group
from tui.dialogs.dialog import Field
from tui.dialogs.modal import Modal
from tui.i18n import _

ESSENTIALS = (
    "prompt.send", "prompt.newline", "app.back", "app.palette", "prompt.file", "prompt.mode", "conv.new",
    "conv.manager", "find", "app.quit", "pane.chat", "pane.events", "pane.terminal", "pane.browser",
)  # fmt: skip
"""What a new user needs: ten commands and the panes."""
TWO_COLUMNS_FROM = 104
"""Cells from which there are two columns."""
Part = tuple[str, str]
_CLOSING = "，。、；：！？）”》"
_PIECE = re.compile(rf"[ -~]+?(?: +|(?=[^ -~])|\Z)[{_CLOSING}]*|[（“《]?[^ -~][{_CLOSING}]*")
"""What a line break never splits: a word or one wide character, with its closing punctuation."""


class HelpScreen(Modal[str]):
    """The keys, searched by typing. Returns `keys` if the user wants to change them."""

    DEFAULT_CSS = """
    HelpScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 94%; max-width: 140; height: 92%; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        Input, Input:focus { height: 1; border: none; background: $panel; padding: 0 1; }
        VerticalScroll { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
        Horizontal { height: auto; }
        .help-column { width: 1fr; height: auto; margin-right: 2; }
    }
    HelpScreen.-low > Vertical { width: 100%; height: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(("escape", *BY_ID["app.help"].keys)), "dismiss", "Leave"),
        Binding("enter", "dismiss", show=False, priority=True),
        Binding("ctrl+o", "dismiss('keys')", show=False, priority=True),
        Binding("down", "scroll(1)", show=False, priority=True),
        Binding("up", "scroll(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
    ]

    def __init__(self, scope: Scope, about: str = "") -> None:
        """`scope` is where the focus is, `about` the help text of the focused widget."""
        super().__init__()
        self._scope, self._about = scope, about

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Keys")
            box.border_subtitle = _("type to search · ↑ ↓ scroll · ctrl+o your own keys · Esc closes")
            yield Field(placeholder=_("Type to search the keys and what they do"), id="help-find")
            with VerticalScroll(can_focus=False), Horizontal():
                yield Static(classes="help-column")
                yield Static(classes="help-column")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 16, "-low")
        self.call_after_refresh(self._fill)

    def on_input_changed(self) -> None:
        self._fill()
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def _fill(self) -> None:
        width = self.query_one(VerticalScroll).scrollable_content_region.width
        columns = list(self.query(".help-column").results(Static))
        count = 2 if width >= TWO_COLUMNS_FROM else 1
        query = self.query_one("#help-find", Input).value
        texts = help_columns(width // count - 3, self._scope, query, count, self._about)
        for number, column in enumerate(columns):
            column.display = number < count
            column.update(texts[number] if number < count else "")

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        area = self.query_one(VerticalScroll)
        area.scroll_relative(y=pages * max(1, area.size.height - 1), animate=False)


def help_columns(width: int, scope: Scope, query: str = "", count: int = 1, about: str = "") -> list[Content]:
    """The table in columns of `width` cells: the most used keys, those of the scope, then the rest by group."""
    blocks = [block for block in _blocks(scope, query, width, about) if block]
    if not blocks:
        return [Content.styled(_("No key matches."), "$text-muted"), *[Content("")] * (count - 1)]
    heights = [sum(text.count("\n") for text, style in block) for block in blocks]
    columns: list[list[Part]] = [[] for number in range(count)]
    filled, column = 0, 0
    for block, height in zip(blocks, heights, strict=True):
        if filled and filled + height / 2 > sum(heights) / count and column + 1 < count:
            filled, column = 0, column + 1
        columns[column] += block
        filled += height
    return [Content.assemble(*parts) for parts in columns]


def _blocks(scope: Scope, query: str, width: int, about: str) -> Iterable[list[Part]]:
    words = query.casefold().split()
    found = [command for command in COMMANDS if all(word in _words(command) for word in words)]
    scopes = _scopes(scope)
    if not words:
        most_used = [BY_ID[id] for id in ESSENTIALS if all_keys(BY_ID[id])]
        yield [(f"{_('Most used')}\n", "bold $text-accent"), *_short_rows(most_used, width), ("\n", "")]
    own = [] if scope is Scope.GLOBAL else [command for command in found if command.scope in scopes]
    if own:
        block = [(f"{_('Here: {place}').format(place=scope.words)}\n", "bold $text-accent")]
        if about and not words:
            block += [(f"{line}\n", "$text-muted") for line in _wrapped(about, max(16, width))]
        yield [*block, *_rows(own, width, where=False), ("\n", "")]
    rest = [command for command in found if command not in own]
    for group, commands in by_group(rest):
        yield [(f"{group}\n", "bold $text-accent"), *_rows(commands, width), ("\n", "")]


def _scopes(scope: Scope) -> set[Scope]:
    """The scopes whose keys work together with those of this one."""
    return {
        Scope.PROMPT: {Scope.PROMPT, Scope.EMPTY_PROMPT},
        Scope.QUESTION: {Scope.QUESTION, Scope.PROMPT, Scope.EMPTY_PROMPT},
        Scope.CHAT: {Scope.CHAT, Scope.LIST},
        Scope.BROWSER: {Scope.BROWSER},
    }.get(scope, {scope})


def _rows(commands: Sequence[Command], width: int, where: bool = True) -> Iterable[Part]:
    left = _left(width)
    for command in commands:
        shown = ", ".join(all_keys(command))
        title = command.title
        if where and command.scope is not Scope.GLOBAL:
            title = _("{title} ({place})").format(title=title, place=command.scope.words)
        first, *more = _wrapped(_("{title}. {help}").format(title=title, help=command.help), max(16, width - left - 1))
        if cell_len(shown) > left - 2:
            yield (f" {shown}\n", "bold")
            shown = ""
        yield (f" {shown}{' ' * (left - cell_len(shown))}", "bold")
        yield (first[: len(title) + 1], "")
        yield (f"{first[len(title) + 1 :]}\n", "$text-muted")
        for line in more:
            yield (f"{' ' * (left + 1)}{line}\n", "$text-muted")


def _short_rows(commands: Sequence[Command], width: int) -> Iterable[Part]:
    """The first key and the title of each command, on one line."""
    left = _left(width)
    for command in commands:
        key = all_keys(command)[0]
        yield (f" {key}{' ' * max(1, left - cell_len(key))}", "bold")
        yield (f"{command.title}\n", "")


def _left(width: int) -> int:
    """The cells of the column of keys."""
    return min(max(12, width // 3), 20)


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells. Breaks between wide characters, but never before punctuation."""
    if cell_len(text) == len(text):
        return textwrap.wrap(text, width, break_on_hyphens=False)
    lines, line = [], ""
    for piece in _PIECE.findall(text):
        if line and cell_len(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, line] if line else lines


def _words(command: Command) -> str:
    shown = f"{command.title} {command.help} {command.group} {' '.join(all_keys(command))}"
    return f"{shown} {command.words_found}".casefold()
