"""The lines around the prompt: queued messages and problems above it, the footer and the hints below it.

The footer shows the state and cost of the conversation, its folder, and whether it is isolated. `pieces` is pure: it
makes texts and styles of facts and a width. Unknown values are shown as a dash, never guessed. The state and the
warning about missing isolation are dropped last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.i18n import _
from tui.shortcuts.command import key_of
from tui.workspace.conversation_status import Mark
from tui.workspace.mode_words import SHORT_MODE_WORDS, mode_words

MODES = ("always", "auto-edit", "plan")
"""The approval modes, in the order in which shift+tab goes through them."""
UNKNOWN = "—"
_BETWEEN = " · "
_GAP = len(_BETWEEN)
ABOUT = "~"
"""Precedes an estimated number."""


def next_mode(mode: str, configured: str) -> str:
    """The mode after this one; the cycle includes the one of the settings."""
    modes = MODES if configured in MODES else (configured, *MODES)
    return modes[(modes.index(mode) + 1) % len(modes)] if mode in modes else modes[0]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the footer shows. Texts are clean."""

    mark: Mark = Mark.IDLE
    state: str = _("starting")
    elapsed_s: int | None = None
    """Seconds that the agent has been working; None if it is not."""
    model: str = ""
    context_used: int = 0
    """Tokens of the latest call."""
    context_window: int = 0
    """0 if unknown."""
    cost: float | None = None
    """US dollars of the whole conversation; None if a price is unknown."""
    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False
    """Whether tokens and cost are estimates, because a provider did not send them."""
    iteration: int = 0
    max_iterations: int | None = 0
    """0 for no limit, None if unknown."""
    workspace: str = ""
    confirm_mode: str = ""
    isolated: bool = True


class Piece(NamedTuple):
    """A part of the footer. The one with the highest `rank` is shortened first, if it can be, then dropped."""

    text: str
    style: str
    rank: int
    short: str = ""


def tokens(count: int) -> str:
    """A number of tokens: 940, 12k, 1.5M."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def context(used: int, window: int) -> str:
    """How full the context is: `38% of 200k`. An overfull one is never rounded to 100%."""
    share = _share(used, window)
    if not used or not window:
        return share
    text = _("{share} of {window}, too full") if used > window else _("{share} of {window}")
    return text.format(share=share, window=tokens(window))


def _share(used: int, window: int) -> str:
    """The used share of the window; for an unknown window, the used tokens."""
    if not used:
        return UNKNOWN
    if not window:
        return tokens(used)
    if used > window:
        return f"{max(101, 100 * used // window)}%"
    return f"{100 * used // window or '<1'}%"


def dollars(cost: float | None) -> str:
    """An amount of US dollars; None is an unknown one."""
    if cost is None:
        return _("cost {cost}").format(cost=UNKNOWN)
    return f"${cost:.4f}" if 0 < cost < 1 else f"${cost:,.2f}"


def duration(seconds: int) -> str:
    """A duration: 12s, 3m05s, 2h10m."""
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"


def elide_path(path: str, width: int) -> str:
    """A path in at most `width` cells, cut in the middle."""
    if cell_len(path) <= width:
        return path
    if width < 8:
        return ""
    head, tail = width // 3, width - width // 3 - 1
    return path[:head] + "…" + path[-tail:]


def pieces(facts: Facts, width: int) -> tuple[list[Piece], list[Piece]]:
    """The left and the right half of the footer, which together fit into `width` cells."""
    left = [Piece(f"{facts.mark.glyph} {facts.state}", f"bold {facts.mark.colour}", 0)]
    if facts.elapsed_s is not None:
        left.append(Piece(duration(facts.elapsed_s), "$text-muted", 3))
        left.append(Piece(_("esc to stop"), "$text-muted", 7))
    if facts.model:
        left.append(Piece(facts.model, "", 8, short=facts.model.rpartition("/")[2]))
        over = facts.context_used > facts.context_window > 0
        full = _("context {share}").format(share=context(facts.context_used, facts.context_window))
        shorter = _("ctx {share} too full") if over else _("ctx {share}")
        shorter = shorter.format(share=_share(facts.context_used, facts.context_window))
        left.append(Piece(full, "$text-warning" if over else "$text-muted", 4, short=shorter))
        about = ABOUT if facts.estimated else ""
        if facts.cost is None or facts.cost or facts.tokens_in or facts.tokens_out:
            left.append(Piece(f"{about if facts.cost is not None else ''}{dollars(facts.cost)}", "$text-muted", 5))
        if facts.tokens_in or facts.tokens_out:
            spent = _("{prompt} in / {answer} out")
            spent = spent.format(
                prompt=f"{about}{tokens(facts.tokens_in)}", answer=f"{about}{tokens(facts.tokens_out)}"
            )
            left.append(Piece(spent, "$text-muted", 11))
        if facts.max_iterations or (facts.max_iterations is None and facts.iteration):
            steps = f"{facts.iteration}/{facts.max_iterations or UNKNOWN}"
            left.append(Piece(_("step {share}").format(share=steps), "$text-muted", 9, short=steps))
    right = []
    if facts.confirm_mode:
        short = SHORT_MODE_WORDS.get(facts.confirm_mode, "")
        right.append(Piece(mode_words(facts.confirm_mode), "$text-secondary", 2, short=short))
    if not facts.isolated:
        right.append(Piece(_("NO SANDBOX"), "bold $text-error", 1))
    while _width(left) + _width(right) > width:
        last = max([*left, *right], key=lambda piece: piece.rank)
        if last.rank <= 1:
            break
        shortens = 0 < cell_len(last.short) < cell_len(last.text)
        replacement = [last._replace(text=last.short, short="")] if shortens else []
        for half in (left, right):
            if last in half:
                half[half.index(last) : half.index(last) + 1] = replacement
    if right and _width(left) + _width(right) > width:
        left = [Piece(facts.mark.glyph, f"bold {facts.mark.colour}", 0)]
    room = width - _width(left) - _width(right)
    path = elide_path(facts.workspace, min(room, 40))
    if path:
        right.insert(0, Piece(path, "$text-muted", 10))
    return left, right


def _width(half: Sequence[Piece]) -> int:
    return sum(cell_len(piece.text) + _GAP for piece in half)


class Footer(Widget):
    """The state of the conversation, below the prompt."""

    DEFAULT_CSS = """
    Footer { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.facts = Facts()

    def show(self, facts: Facts) -> None:
        """Show these facts; redraws only if they differ."""
        if facts != self.facts:
            self.facts = facts
            self.refresh()

    def render(self) -> Content:
        width = self.size.width
        left, right = (_joined(half) for half in pieces(self.facts, width))
        used = sum(cell_len(text) for text, _style in (*left, *right))
        return Content.assemble(*left, (" " * max(0, width - used), ""), *right)


def _joined(half: Sequence[Piece]) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    for index, piece in enumerate(half):
        parts += [(_BETWEEN if index else "", "$text-muted"), (piece.text, piece.style)]
    return parts


class Hints(Widget):
    """The keys that work where the focus is; for a short time, a message."""

    DEFAULT_CSS = """
    Hints {
        height: 1; padding: 0 1; background: $background; color: $text-muted;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hints: Sequence[tuple[str, str]] = ()
        self._flash = ""

    def show(self, hints: Sequence[tuple[str, str]]) -> None:
        """Show (key, word) pairs."""
        if hints != self._hints:
            self._hints = hints
            self.refresh()

    def flash(self, text: str) -> None:
        """Show a clean line instead; an empty one shows the hints again."""
        self._flash = text
        self.refresh()

    def render(self) -> Content:
        if self._flash:
            return Content.styled(self._flash, "$text-accent")
        parts: list[tuple[str, str]] = []
        used = 0
        for key, word in self._hints:
            used += cell_len(key) + cell_len(word) + 3
            if used > self.size.width:
                break
            parts += [(key, "bold $foreground"), (f" {word}  ", "$text-muted")]
        return Content.assemble(*parts)


class Queue(Static):
    """The queued messages, in order, above the prompt."""

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

    def show(self, texts: list[str]) -> None:
        """Show clean texts, one a line; hidden without texts."""
        if texts == self._texts:
            return
        self._texts = texts
        self.display = bool(texts)
        parts: list[tuple[str, str]] = []
        for text in texts:
            queued = "\n" * bool(parts) + _("queued:") + " "
            parts += [(queued, "bold $text-secondary"), (text, "$foreground")]
        remedy = _("{key} removes it").format(key=key_of("queue.drop"))
        self.update(Content.assemble(*parts, (f"   {remedy}", "$text-muted")))


class Notice(Static):
    """What went wrong and what to do next, above the prompt until Esc."""

    DEFAULT_CSS = """
    Notice {
        display: none; height: auto; max-height: 8; padding: 0 1;
        border-left: outer $error; background: $error 8%; color: $foreground;
    }
    """

    def show(self, text: str) -> None:
        """Show a clean text."""
        self.update(Content(text))
        self.display = True

    def clear(self) -> None:
        self.display = False
