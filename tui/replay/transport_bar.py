"""The transport bar of a replay, shown in place of the prompt: position, speed, and a clickable timeline.

The timeline has a scale of events, because times of a log may be wrong. `status_pieces` and `timeline_cells` are pure.
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
class TransportState:
    """What the bar shows of a replay. Texts are sanitised."""

    position: Position
    playing: bool = False
    speed: float = 1.0
    skips_waiting: bool = False
    turns: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    questions: tuple[int, ...] = ()
    bookmarks: tuple[int, ...] = ()
    hits: tuple[int, ...] = ()
    query: str = ""
    hit_number: int = 0
    """The number of the hit at the position, from 1 on; 0 for none."""
    follow_status: tuple[str, str] = ("", "")
    """A glyph and text about a conversation that another process writes; empty for other replays."""
    has_more: bool = False
    """Whether later events are still being read."""


def clock_time(at: float) -> str:
    """A time of the log in local time; dashes if no calendar has it."""
    try:
        return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def format_duration(seconds: float) -> str:
    """A time since the beginning: 0:07, 12:45, 1:02:03."""
    whole = int(seconds)
    minutes = f"{whole // 60 % 60}:{whole % 60:02}"
    return minutes if whole < 3600 else f"{whole // 3600}:{minutes.rjust(5, '0')}"


def status_pieces(state: TransportState, width: int) -> list[Piece]:
    """The status line; the least important parts are left out first if it does not fit."""
    at = state.position
    glyph, word = (PLAYING, _("playing")) if state.playing else (PAUSED, _("ended") if at.is_end else _("paused"))
    count = f"{at.events:,}+" if state.has_more else f"{at.events:,}"
    number = _("event {here} of {count}").format(here=f"{at.event + 1:,}", count=count)
    if state.follow_status[0] and not state.playing:
        glyph, word = state.follow_status
    shown = [Piece(f"{glyph} {word}", "bold $text-accent", 0, glyph), Piece(number, "$foreground", 1)]
    if at.turns:
        turn = _("turn {here} of {count}").format(here=at.turn, count=at.turns)
        shown.append(Piece(turn, "$text-muted", 5))
    shown.append(Piece(clock_time(at.at), "$foreground", 4))
    shown.append(
        Piece(
            f"{format_duration(at.offset_s)} / {format_duration(at.length_s)}",
            "$text-muted",
            3,
            format_duration(at.offset_s),
        )
    )
    shown.append(Piece(f"{state.speed:g}x", "$text-secondary", 2))
    if state.skips_waiting:
        shown.append(Piece(_("skipping waits"), "$text-secondary", 6))
    if state.query:
        message = f"{state.hit_number or '—'}/{len(state.hits)}" if state.hits else _("no match")
        shown.append(Piece(f"/{state.query} {message}", "$text-accent", 7, message))
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


def timeline_cells(state: TransportState, width: int) -> list[Part]:
    """The line of the whole conversation, one part for each cell. Bookmarks and hits cover what the log marks."""
    at = state.position
    head = cell_of(at.event, at.events, width)
    cells: list[Part] = [("━", "$accent") if cell <= head else ("─", "$text-muted") for cell in range(width)]
    for highlights, glyph, style in (
        (state.turns, "┃", "$text-secondary"),
        (state.questions, "?", "$text-warning"),
        (state.errors, "✕", "$text-error"),
        (state.hits, "▼", "$text-accent"),
        (state.bookmarks, "◆", "bold $text-primary"),
    ):
        for event in highlights:
            if event < at.events:
                cells[cell_of(event, at.events, width)] = (glyph, style)
    if cells:
        cells[head] = (HEAD, "bold $foreground")
    return cells


class TransportBar(Widget, can_focus=True):
    """A line of status texts, and the timeline."""

    HELP = keyed(
        _(
            "{replay.play} plays and pauses, {replay.prev} and {replay.next} go by events, with "
            "shift by turns; a click on the line goes there."
        )
    )
    DEFAULT_CSS = """
    TransportBar {
        display: none; height: 4; padding: 0 1;
        border: tall $panel; background: $surface; color: $foreground;
        &:focus { border: tall $accent; }
    }
    """
    BINDINGS: ClassVar = [
        *(Binding(key, f"part({key})", show=False, id=f"replay.part.{key}") for key in BY_ID["replay.part"].keys),
    ]

    class SeekRequested(Message):
        """The user wants to go to this part of the conversation, from 0 to 1."""

        def __init__(self, fraction: float) -> None:
            super().__init__()
            self.fraction = fraction

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.state: TransportState | None = None
        self._dragged = False

    def show(self, state: TransportState) -> None:
        """Show this state."""
        if state != self.state:
            self.state = state
            self.refresh()

    def render(self) -> Content:
        width = self.content_size.width
        if self.state is None or width < 1:
            return Content("")
        status: list[Part] = []
        for index, piece in enumerate(status_pieces(self.state, width)):
            status += [(_BETWEEN if index else "", "$text-muted"), (piece.text, piece.style)]
        return Content("\n").join(
            [Content.assemble(*status), Content.assemble(*merge_styles(timeline_cells(self.state, width)))]
        )

    def action_part(self, digit: int) -> None:
        self.post_message(self.SeekRequested(digit / 10))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Seek while the mouse is held down on the timeline."""
        place = event.get_content_offset(self)
        if place is not None and place.y == 1:
            self._dragged = True
            self.capture_mouse()
            self._seek(place.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged:
            self._seek(event.x - self.gutter.left)

    def on_mouse_up(self) -> None:
        self._dragged = False
        self.release_mouse()

    def _seek(self, x: int) -> None:
        width = max(2, self.content_size.width)
        self.post_message(self.SeekRequested(min(max(0.0, x / (width - 1)), 1.0)))


def merge_styles(cells: Sequence[Part]) -> list[Part]:
    """Neighbours with the same style as one part."""
    parts: list[Part] = []
    for text, style in cells:
        if parts and parts[-1][1] == style:
            parts[-1] = (parts[-1][0] + text, style)
        else:
            parts.append((text, style))
    return parts
