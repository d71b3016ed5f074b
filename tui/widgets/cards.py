"""Questions to the user, inline above the prompt: may this action be carried out, may the agent go on.

A card shows the whole of what is asked, scrollable, as it was made clean. It answers only through the command table
(`y`, `n`, `e`, ...), never to Enter, and to no key that was meant for something else (`tui.model.held`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.commands import BY_ID, key_of
from tui.i18n import _
from tui.model.held import LastKey, Listening


class Card(Vertical, can_focus=True):
    """A question and the keys that answer it."""

    DEFAULT_CSS = """
    Card {
        height: auto; padding: 0 1;
        border-left: outer $warning; background: $warning 8%;
        & > .card--title { height: auto; text-style: bold; color: $text-warning; }
        & > .card--keys { height: auto; color: $text-muted; }
        &:focus > .card--keys { color: $foreground; }
        & > VerticalScroll { height: auto; max-height: 30vh; background: $surface; }
    }
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.listening = Listening(clock())

    def hear(self, last: LastKey) -> None:
        """Know of the key that was pressed last before it appeared."""
        self.listening.last = last

    @property
    def ready(self) -> bool:
        """Whether the key that was pressed last can be an answer."""
        return self.listening.listens


def keys_line(*pairs: tuple[str, str]) -> Content:
    """Keys with what they do, for the foot of a card."""
    parts: list[tuple[str, str]] = []
    for key, word in pairs:
        parts += [(key, "bold"), (f" {word}   ", "")]
    return Content.assemble(*parts)


_HALTED = {
    "limit": _("A limit is reached. How shall it go on?"),
    "model": _("The model did not answer. How shall it go on?"),
    "sandbox": _("The sandbox is gone. How shall it go on?"),
    "stuck": _("The agent goes round in a circle. How shall it go on?"),
}


class HaltCard(Card):
    """Something stands in the way: what it is, and the ways out, each with its key."""

    def __init__(
        self, kind: str, detail: str, ways: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self.kind = kind
        self.ways = ways
        self._detail = detail

    def compose(self) -> ComposeResult:
        yield Static(Content(_HALTED.get(self.kind, _("How shall it go on?"))), classes="card--title")
        with VerticalScroll(can_focus=False):
            yield Static(Content(self._detail))
        commands = [BY_ID[f"halt.{way}"] for way in self.ways]
        yield Static(keys_line(*((key_of(c.id), c.title.lower()) for c in commands)), classes="card--keys")


class PlanCard(Card):
    """Shall this plan be carried out? A message to the agent is an answer, too."""

    def __init__(self, plan: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._plan = plan

    def compose(self) -> ComposeResult:
        yield Static(Content(_("Carry out this plan? Nothing is changed before.")), classes="card--title")
        with VerticalScroll(can_focus=False):
            yield Static(Content(self._plan))
        keys = keys_line((key_of("plan.approve"), _("carry it out")), (key_of("plan.edit"), _("edit it first")))
        yield Static(keys + Content(_("or write what shall be otherwise")), classes="card--keys")


class Queue(Static):
    """What will be said once the agent rests, in order."""

    DEFAULT_CSS = """
    Queue {
        display: none; height: auto; max-height: 4; padding: 0 1;
        border-left: outer $secondary; background: $secondary 8%; color: $text-muted;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._texts: list[str] = []

    def tell(self, texts: list[str]) -> None:
        """Show clean texts, a line each; none takes it away."""
        if texts == self._texts:
            return
        self._texts = texts
        self.display = bool(texts)
        parts: list[tuple[str, str]] = []
        for text in texts:
            queued = "\n" * bool(parts) + _("queued:") + " "
            parts += [(queued, "bold $text-secondary"), (text, "$foreground")]
        remedy = _("{key} takes it back").format(key=key_of("queue.drop"))
        self.update(Content.assemble(*parts, (f"   {remedy}", "$text-muted")))


class Notice(Static):
    """One clear message about what went wrong and what to do next. Esc takes it away."""

    DEFAULT_CSS = """
    Notice {
        display: none; height: auto; max-height: 8; padding: 0 1;
        border-left: outer $error; background: $error 8%; color: $foreground;
    }
    """

    def tell(self, text: str) -> None:
        """Show a clean text."""
        self.update(Content(text))
        self.display = True

    def clear(self) -> None:
        """Take it away."""
        self.display = False
