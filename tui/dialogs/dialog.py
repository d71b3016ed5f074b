"""Simple dialogs: a list to choose from, a question, a text to read. Esc closes them all.

Texts handed in are clean. Each returns its result, or None if the user left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.choice_dialog import YesNoScreen
from tui.dialogs.modal import Modal
from tui.i18n import _


class Field(Input):
    """Textual's Input without a blinking cursor, so that an idle screen paints nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cursor_blink = False


class LineScreen(Modal[str | None]):
    """Asks for one line. Returns it, or None if the user cancels."""

    DEFAULT_CSS = """
    LineScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 64; height: auto; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        Input, Input:focus { height: 1; border: none; background: $panel; padding: 0 1; }
    }
    """
    BINDINGS = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, title: str, placeholder: str, text: str = "", *, hidden: bool = False) -> None:
        """`hidden` shows dots instead of the text."""
        super().__init__()
        self._title, self._placeholder, self._text, self._hidden = title, placeholder, text, hidden

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("Enter confirms · Esc cancels")
            yield Field(self._text, placeholder=self._placeholder, password=self._hidden, compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


_BOX = """
    align: center middle; background: $background 60%;
    & > Vertical {
        width: 90%; max-width: 110; height: auto; max-height: 90%; padding: 0 1;
        background: $surface; border: round $accent;
        border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
    }
"""


class Choice(NamedTuple):
    """One line of a list."""

    key: str
    """The result if it is chosen."""
    title: str
    note: str = ""


class ChoiceScreen(Modal[str | None]):
    """Choose one of a list; typing narrows it down."""

    DEFAULT_CSS = f"""
    ChoiceScreen {{ {_BOX}
        OptionList {{ height: auto; max-height: 100%; border: none; background: $surface; padding: 0; }}
        Input, Input:focus {{ height: 1; border: none; background: $panel; padding: 0 1; margin-bottom: 1; }}
    }}
    """
    BINDINGS = [
        Binding("escape", "dismiss", "Leave"),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], *, empty: str = _("Nothing here.")) -> None:
        """`empty` is shown if nothing matches."""
        super().__init__()
        self._title, self._choices, self._empty = title, choices, empty

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("Enter chooses · Esc closes")
            yield Field(placeholder=_("Type to narrow down"))
            yield OptionList(markup=False)

    def on_mount(self) -> None:
        self._filter("")
        self.query_one(Input).focus()

    def _filter(self, text: str) -> None:
        words = text.casefold().split()
        lines = self.query_one(OptionList)
        lines.clear_options()
        for choice in self._choices:
            if all(word in f"{choice.title} {choice.note}".casefold() for word in words):
                label = Content.assemble((choice.title, "bold"), (f"  {choice.note}", "$text-muted"))
                lines.add_option(Option(label, id=choice.key))
        if not lines.option_count:
            lines.add_option(Option(Content(self._empty), disabled=True))
        lines.highlighted = 0

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter(event.value)

    def on_input_submitted(self) -> None:
        option = self.query_one(OptionList).highlighted_option
        if option is not None and option.id is not None:
            self.dismiss(option.id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_id is not None:
            self.dismiss(event.option_id)

    def action_move(self, step: int) -> None:
        """Move the highlight while the text field keeps the focus."""
        lines = self.query_one(OptionList)
        (lines.action_cursor_down if step > 0 else lines.action_cursor_up)()


class SureScreen(YesNoScreen):
    """Asks before something dangerous; "Cancel" is highlighted at first."""

    DEFAULT_CSS = f"""
    SureScreen {{ {_BOX}
        & > Vertical {{ max-width: 64; border: round $warning; }}
        #sure-question {{ height: auto; margin-bottom: 1; }}
    }}
    """

    def __init__(self, question: str, yes: str) -> None:
        super().__init__(_("Cancel"), yes[:1].upper() + yes[1:])
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_subtitle = _("↑ ↓ choose · Enter answers · Esc cancels")
            yield Static(Content(self._question), id="sure-question")
            yield from self.answer_rows()


class TextScreen(Modal[None]):
    """A long text to scroll through."""

    DEFAULT_CSS = f"""
    TextScreen {{ {_BOX}
        & > Vertical {{ height: 90%; }}
    }}
    """
    BINDINGS = [
        Binding("escape,q,enter", "dismiss", "Leave"),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,f,space", "page(1)", show=False),
        Binding("pageup,b", "page(-1)", show=False),
        Binding("home,g", "top", show=False),
        Binding("end,G", "end", show=False),
    ]

    def __init__(self, title: str, text: Content) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("↑ ↓ PgUp PgDn scroll · Esc closes")
            with VerticalScroll(can_focus=False):
                yield Static(self._text)

    @property
    def _scroll(self) -> VerticalScroll:
        return self.query_one(VerticalScroll)

    def action_scroll(self, lines: int) -> None:
        self._scroll.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        self._scroll.scroll_relative(y=pages * max(1, self._scroll.size.height - 1), animate=False)

    def action_top(self) -> None:
        self._scroll.scroll_home(animate=False)

    def action_end(self) -> None:
        self._scroll.scroll_end(animate=False)
