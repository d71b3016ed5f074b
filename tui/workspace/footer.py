"""The line under the prompt: the conversation's state and cost, its folder, and whether it is isolated.

`pieces` is pure: facts and a width in, texts and roles out. What cannot be known is a dash, never a guess. The state
and the warning that nothing is isolated are the last to be dropped when the line is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from tui.i18n import _
from tui.workspace.conversation_status import Mark

MODES = ("always", "auto-edit", "plan")
"""The approval modes, in the order in which shift+tab goes through them."""
MODE_WORDS = {
    "always": _("ask before everything"),
    "risky": _("ask before risky actions"),
    "auto-edit": _("auto-approve edits"),
    "plan": _("plan only"),
    "never": _("full auto"),
}
UNKNOWN = "—"
_BETWEEN = " · "
_GAP = len(_BETWEEN)


ABOUT = "~"
"""In front of a number that was not counted."""


def next_mode(mode: str, own: str) -> str:
    """The mode behind this one; that of the settings, `own`, is one of the round, too."""
    modes = MODES if own in MODES else (own, *MODES)
    return modes[(modes.index(mode) + 1) % len(modes)] if mode in modes else modes[0]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the line tells. Texts are clean."""

    mark: Mark = Mark.IDLE
    state: str = _("starting")
    elapsed_s: int | None = None
    """Seconds that the agent has been working; None when it does not."""
    model: str = ""
    context_used: int = 0
    """Tokens of the latest call."""
    context_window: int = 0
    """0 where it is not known."""
    cost: float | None = None
    """US dollars of the whole conversation; None where a price is not known."""
    tokens_in: int = 0
    tokens_out: int = 0
    """Of the whole conversation."""
    estimated: bool = False
    """Whether tokens and cost were made out here, because a provider did not send them."""
    iteration: int = 0
    max_iterations: int | None = 0
    """0 for no limit, None where it is not known."""
    workspace: str = ""
    confirm_mode: str = ""
    isolated: bool = True


class Piece(NamedTuple):
    """A part of the line. The highest `rank` is shortened first, if it has a short text, then dropped."""

    text: str
    style: str
    rank: int
    short: str = ""


def tokens(count: int) -> str:
    """A number of tokens for people: 940, 12k, 1.5M."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def context(used: int, window: int) -> str:
    """How full the context is: `38% of 200k`. Above the window it says so, and is never rounded to what fits."""
    share = _share(used, window)
    if not used or not window:
        return share
    text = _("{share} of {window}, too full") if used > window else _("{share} of {window}")
    return text.format(share=share, window=tokens(window))


def _share(used: int, window: int) -> str:
    """The part of the window that is used, else what is used of one that is not known."""
    if not used:
        return UNKNOWN
    if not window:
        return tokens(used)
    if used > window:
        return f"{max(101, 100 * used // window)}%"
    return f"{100 * used // window or '<1'}%"


def dollars(cost: float | None) -> str:
    """US dollars for people; an unknown cost is shown as unknown."""
    if cost is None:
        return _("cost {cost}").format(cost=UNKNOWN)
    return f"${cost:.4f}" if 0 < cost < 1 else f"${cost:,.2f}"


def duration(seconds: int) -> str:
    """A duration for people: 12s, 3m05s, 2h10m."""
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"


def elide_path(path: str, width: int) -> str:
    """A path in `width` cells: what is missing is missing from its middle."""
    if cell_len(path) <= width:
        return path
    if width < 8:
        return ""
    head, tail = width // 3, width - width // 3 - 1
    return path[:head] + "…" + path[-tail:]


def pieces(facts: Facts, width: int) -> tuple[list[Piece], list[Piece]]:
    """The left and the right half of the line, so that both fit into `width` cells."""
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
        left.append(Piece(f"{about if facts.cost is not None else ''}{dollars(facts.cost)}", "$text-muted", 5))
        if facts.tokens_in or facts.tokens_out:
            spent = _("{prompt} in / {answer} out")
            spent = spent.format(
                prompt=f"{about}{tokens(facts.tokens_in)}", answer=f"{about}{tokens(facts.tokens_out)}"
            )
            left.append(Piece(spent, "$text-muted", 11))
        if facts.max_iterations or (facts.max_iterations is None and facts.iteration):
            left.append(Piece(f"{facts.iteration}/{facts.max_iterations or UNKNOWN}", "$text-muted", 9))
    right = []
    if facts.confirm_mode:
        right.append(Piece(MODE_WORDS.get(facts.confirm_mode, facts.confirm_mode), "$text-secondary", 2))
    if not facts.isolated:
        right.append(Piece(_("NO ISOLATION"), "bold $text-error", 1))
    while _width(left) + _width(right) > width:
        last = max([*left, *right], key=lambda piece: piece.rank)
        if last.rank <= 1:
            break
        instead = [last._replace(text=last.short, short="")] if 0 < cell_len(last.short) < cell_len(last.text) else []
        left, right = (_with_instead(half, last, instead) for half in (left, right))
    if right and _width(left) + _width(right) > width:
        left = [Piece(facts.mark.glyph, f"bold {facts.mark.colour}", 0)]
    room = width - _width(left) - _width(right) - 2 * _GAP
    path = elide_path(facts.workspace, min(room, 40))
    if path:
        right.insert(0, Piece(path, "$text-muted", 10))
    return left, right


def _with_instead(half: Sequence[Piece], piece: Piece, instead: Sequence[Piece]) -> list[Piece]:
    """A half of the line in which one piece is shortened or dropped."""
    return [kept for old in half for kept in (instead if old is piece else [old])]


def _width(half: Sequence[Piece]) -> int:
    return sum(cell_len(piece.text) + _GAP for piece in half)


class Footer(Widget):
    """The line under the prompt."""

    DEFAULT_CSS = """
    Footer { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.facts = Facts()

    def show(self, facts: Facts) -> None:
        """Show these facts; the same ones cost nothing."""
        if facts != self.facts:
            self.facts = facts
            self.refresh()

    def render(self) -> Content:
        """The line for this width."""
        width = self.size.width
        left, right = pieces(self.facts, width)
        parts: list[tuple[str, str]] = []
        for index, piece in enumerate(left):
            parts += [(_BETWEEN if index else "", "$text-muted"), (piece.text, piece.style)]
        used = sum(cell_len(text) for text, style in parts) + sum(cell_len(p.text) for p in right)
        parts.append((" " * max(0, width - used - _GAP * max(0, len(right) - 1)), ""))
        for index, piece in enumerate(right):
            parts += [(_BETWEEN if index else "", "$text-muted"), (piece.text, piece.style)]
        return Content.assemble(*parts)


class Hints(Widget):
    """The keys that answer where the focus is, and for three seconds what has just been done."""

    DEFAULT_CSS = """
    Hints { height: 1; padding: 0 1; background: $background; color: $text-muted; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hints: Sequence[tuple[str, str]] = ()
        self._flash = ""

    def show(self, hints: Sequence[tuple[str, str]]) -> None:
        """Show these (key, word) pairs."""
        if hints != self._hints:
            self._hints = hints
            self.refresh()

    def flash(self, text: str) -> None:
        """Show a clean line in their place; empty ends that."""
        self._flash = text
        self.refresh()

    def render(self) -> Content:
        """The line, as many hints as fit."""
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
