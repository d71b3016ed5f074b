"""The transport bar: where a replay is, how it goes, and a line of the whole conversation that can be clicked.

Stands where a living conversation has its prompt. `lines` is pure: a reel and a width in, texts and roles out. The
line is a scale of events, because times of a log may be wrong. Knows no player: it shows what it is given and reports
what was wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.commands import BY_ID, keyed
from tui.i18n import _
from tui.workspace.footer import Piece

if TYPE_CHECKING:
    from core.replay.player import Position

PLAYING, PAUSED = "▶", "‖"
HEAD = "●"
_BETWEEN = " · "

Part = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Reel:
    """What the bar shows of a replay. Texts are clean."""

    position: Position
    playing: bool = False
    speed: float = 1.0
    skips_waiting: bool = False
    turns: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    questions: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()
    hits: tuple[int, ...] = ()
    words: str = ""
    hit: int = 0
    """Which of the hits it stands at, from 1 on; 0 for none."""
    follows: tuple[str, str] = ("", "")
    """A glyph and words: how it is with a conversation that goes on; empty for one that is over."""


def clock_time(at: float) -> str:
    """A time of the log as the user's clock showed it; dashes where no calendar has it."""
    try:
        return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def length(seconds: float) -> str:
    """A time since the beginning: 0:07, 12:45, 1:02:03."""
    whole = int(seconds)
    minutes = f"{whole // 60 % 60}:{whole % 60:02}"
    return minutes if whole < 3600 else f"{whole // 3600}:{minutes.rjust(5, '0')}"


def pieces(reel: Reel, width: int) -> list[Piece]:
    """The line of words, as much of it as fits; what matters least gives way first."""
    at = reel.position
    glyph, word = (PLAYING, _("plays")) if reel.playing else (PAUSED, _("ended") if at.is_end else _("paused"))
    number = _("event {here} of {count}").format(here=f"{at.event + 1:,}", count=f"{at.events:,}")
    if reel.follows[0] and not reel.playing:
        glyph, word = reel.follows
    shown = [Piece(f"{glyph} {word}", "bold $text-accent", 0, glyph), Piece(number, "$foreground", 1)]
    if at.turns:
        turn = _("turn {here} of {count}").format(here=at.turn, count=at.turns)
        shown.append(Piece(turn, "$text-muted", 5))
    shown.append(Piece(clock_time(at.at), "$foreground", 4))
    shown.append(Piece(f"{length(at.offset_s)} / {length(at.length_s)}", "$text-muted", 3, length(at.offset_s)))
    shown.append(Piece(f"{reel.speed:g}x", "$text-secondary", 2))
    if reel.skips_waiting:
        shown.append(Piece(_("skips waiting"), "$text-secondary", 6))
    if reel.words:
        message = f"{reel.hit or '—'}/{len(reel.hits)}" if reel.hits else _("no hit")
        shown.append(Piece(f"/{reel.words} {message}", "$text-accent", 7, message))
    while sum(cell_len(piece.text) + len(_BETWEEN) for piece in shown) > width + len(_BETWEEN):
        last = max(shown, key=lambda piece: piece.rank)
        if last.rank == 0:
            break
        short = last._replace(text=last.short, short="") if last.short else None
        shown = [kept for old in shown for kept in ([old] if old is not last else [short] if short else [])]
    return shown


def cell_of(event: int, count: int, width: int) -> int:
    """The cell of an event on a line of `width` cells."""
    return round(max(0, event) * (width - 1) / (count - 1)) if count > 1 else 0


def scale(reel: Reel, width: int) -> list[Part]:
    """The line of the whole conversation, one part for each cell. What the user set stands over what the log says."""
    at = reel.position
    head = cell_of(at.event, at.events, width)
    cells: list[Part] = [("━", "$accent") if cell <= head else ("─", "$text-muted") for cell in range(width)]
    for signs, glyph, style in (
        (reel.turns, "┃", "$text-secondary"),
        (reel.questions, "?", "$text-warning"),
        (reel.errors, "✕", "$text-error"),
        (reel.hits, "▼", "$text-accent"),
        (reel.marks, "◆", "bold $text-primary"),
    ):
        for event in signs:
            if event < at.events:
                cells[cell_of(event, at.events, width)] = (glyph, style)
    if cells:
        cells[head] = (HEAD, "bold $foreground")
    return cells


class Transport(Widget, can_focus=True):
    """Two lines: words, and the scale."""

    HELP = keyed(
        _(
            "{replay.play} plays and pauses, {replay.prev} and {replay.next} go by events, with "
            "shift by turns; a click on the line goes there."
        )
    )
    DEFAULT_CSS = """
    Transport {
        display: none; height: 4; padding: 0 1;
        border: tall $panel; background: $surface; color: $foreground;
        &:focus { border: tall $accent; }
    }
    """
    BINDINGS: ClassVar = [
        *(Binding(key, f"part({key})", show=False, id=f"replay.part.{key}") for key in BY_ID["replay.part"].keys),
    ]

    class Sought(Message):
        """The user wants to be at this part of the conversation, from 0 to 1."""

        def __init__(self, fraction: float) -> None:
            super().__init__()
            self.fraction = fraction

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.reel: Reel | None = None
        self._dragged = False

    def show(self, reel: Reel) -> None:
        """Show this; the same again costs nothing."""
        if reel != self.reel:
            self.reel = reel
            self.refresh()

    def render(self) -> Content:
        """Both lines for this width."""
        width = self.content_size.width
        if self.reel is None or width < 1:
            return Content("")
        words: list[Part] = []
        for index, piece in enumerate(pieces(self.reel, width)):
            words += [(_BETWEEN if index else "", "$text-muted"), (piece.text, piece.style)]
        return Content("\n").join([Content.assemble(*words), Content.assemble(*joined(scale(self.reel, width)))])

    def action_part(self, digit: int) -> None:
        """To so many tenths."""
        self.post_message(self.Sought(digit / 10))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """A press on the scale goes there; the mouse is followed until it is let go."""
        place = event.get_content_offset(self)
        if place is not None and place.y == 1:
            self._dragged = True
            self.capture_mouse()
            self._seek(place.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the mouse."""
        if self._dragged:
            self._seek(event.x - self.gutter.left)

    def on_mouse_up(self) -> None:
        """Let it go."""
        self._dragged = False
        self.release_mouse()

    def _seek(self, x: int) -> None:
        width = max(2, self.content_size.width)
        self.post_message(self.Sought(min(max(0.0, x / (width - 1)), 1.0)))


def joined(cells: Sequence[Part]) -> list[Part]:
    """Neighbours of one style as one part."""
    parts: list[Part] = []
    for text, style in cells:
        if parts and parts[-1][1] == style:
            parts[-1] = (parts[-1][0] + text, style)
        else:
            parts.append((text, style))
    return parts
