"""How conversations and hits read, in lines of a width: the figures below each other, what is long given up first.

Pure: takes what is stored and gives Content whose every part is clean.

The rows of the session manager as a view draws them: of the list, and of what a search found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from core.store.conversations import TITLE_ENDINGS, ConversationInfo
from core.store.search_index import Hit
from tui.dialogs.search_list import elided
from tui.i18n import _
from tui.sessions.conversation_list import Entry, SessionList
from tui.sessions.filter_chips import ORIGINS
from tui.sessions.number_format import bytes_of, dollars
from tui.sessions.search_hits import HitList
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.conversation_status import Mark, mark_of_stored

LONGEST = 400
"""Cells of a text that is looked at before it is cut to its place."""
_LEFT = 6
"""Cells before a title: chosen, folded, state."""
_SAID_FROM = 14
"""Cells below which the first line is not worth its place."""
_KIND = 14
_FOLDER_CELLS, _MODEL_CELLS = 18, 13


class Standing(NamedTuple):
    """Whether a conversation is open, and how it stands there."""

    here: bool = False
    elsewhere: bool = False
    mark: Mark | None = None
    """Its live state, where it is open here."""


CLOSED = Standing()


def entry_lines(entry: Entry, width: int, now: datetime, standing: Standing, chosen: bool) -> tuple[Content, Content]:
    """A conversation in two lines."""
    info, indent = entry.info, "  " * entry.level
    mark = mark_at(info, standing)
    fold = ("▾" if entry.unfolded else "▸") if entry.delegates else "└" if entry.level else " "
    right = f" {age(info.updated_at, now)}"
    open_at = f" ● {_('open here')}" if standing.here else f" ◌ {_('open elsewhere')}" if standing.elsewhere else ""
    below = f" +{entry.delegates}" if entry.delegates else ""
    room = width - _LEFT - cell_len(indent + right + open_at + below)
    title = elided(_title(info), max(4, room))
    used = _LEFT + cell_len(indent + title + below + open_at + right)
    first = Content.assemble(
        ("✔ " if chosen else "  ", "bold $text-accent"),
        indent,
        (f"{fold} ", "$text-muted"),
        (f"{mark.glyph} ", mark.colour),
        (title, "bold"),
        (below, "$text-muted"),
        (open_at, "$text-accent" if standing.here else "$text-warning"),
        " " * max(0, width - used),
        (right, "$text-secondary"),
    )
    return first, _facts_line(info, width, _LEFT + cell_len(indent), mark)


def _facts_line(info: ConversationInfo, width: int, left: int, mark: Mark) -> Content:
    """The first line or the state, and the facts of a conversation, as many as there is room for."""
    folder_cells, model_cells = (_FOLDER_CELLS, _MODEL_CELLS) if width >= 84 else (14, 12)
    origin = ORIGINS.get(info.origin, info.origin) if info.origin else ""
    facts = [
        (_place(info.workspace, folder_cells), folder_cells),
        (elided(sanitize_line(info.model, LONGEST).rpartition("/")[2], model_cells), model_cells),
        (_right(dollars(info.cost), 8), 8),
        (_right(bytes_of(info.size), 7), 7),
        (_right(_("{count} ev.").format(count=f"{info.event_count:,}"), 10), 10),
    ]
    while facts and left + sum(cells + 1 for fact, cells in facts) > width:
        del facts[-1]
    tail = "".join(" " + set_cell_size(fact, cells) for fact, cells in facts)
    room = width - left - cell_len(tail) - 1
    said = _beyond_title(info) or mark.word
    said = f"[{sanitize_line(origin, 20)}] {said}" if origin else said
    said = elided(said, room) if room >= _SAID_FROM else ""
    gap = " " * max(1, width - left - cell_len(said) - cell_len(tail))
    return Content.assemble(" " * left, (said, "$text-muted"), (gap + tail, "$text-muted"))


def heading_line(info: ConversationInfo, width: int, now: datetime) -> Content:
    """A conversation above its hits."""
    right = f" {_place(info.workspace, _FOLDER_CELLS)}  {age(info.updated_at, now)}"
    title = elided(_title(info), max(8, width - cell_len(right)))
    gap = " " * max(0, width - cell_len(title) - cell_len(right))
    return Content.assemble((title, "bold $text-accent"), gap, (right, "$text-secondary"))


def hit_line(hit: Hit, width: int) -> Content:
    """A hit: which event, what kind, and what was found there, marked."""
    kind = sanitize_line(hit.kind.partition(":")[2] or hit.kind, _KIND)
    head = f"  {'#' + str(hit.event_id):>8} {set_cell_size(kind, _KIND)} "
    left = width - cell_len(head)
    at = _begin(hit, left)
    parts: list[tuple[str, str]] = [(head, "$text-muted"), ("…" if at else "", "")]
    left -= 1 if at else 0
    for start, end in [*hit.spans, (len(hit.text), len(hit.text))]:
        for text, style in ((hit.text[at:start], ""), (hit.text[start:end], "bold $text-warning on $warning-muted")):
            clean = elided(_one_line(text), left)
            parts.append((clean, style))
            left -= cell_len(clean)
        at = end
        if left <= 1:
            break
    return Content.assemble(*parts)


def _begin(hit: Hit, width: int) -> int:
    """Where an excerpt begins, so that the first of what was found is seen in `width` cells."""
    if not hit.spans or cell_len(_one_line(hit.text[: hit.spans[0][1]])) < width:
        return 0
    return max(0, hit.spans[0][0] - max(0, width // 3))


def mark_at(info: ConversationInfo, standing: Standing) -> Mark:
    """How a conversation stands: live where it is open here, else as it was left; one that was cut off rests."""
    if standing.mark is not None:
        return standing.mark
    mark = mark_of_stored(info.state)[0] if info.state else Mark.IDLE
    return Mark.IDLE if mark is Mark.RUNNING and not standing.elsewhere else mark


def preview(
    info: ConversationInfo, said: Sequence[tuple[str, str]], delegates: int, standing: Standing, width: int
) -> Content:
    """What stands beside the list: the facts in full, then the last messages as pairs of who and what."""
    mark = mark_at(info, standing)
    rows = {
        _("state"): f"{mark.glyph} {mark.word}",
        _("folder"): info.workspace,
        _("model"): info.model,
        _("cost"): dollars(info.cost),
        _("size"): _("{size}, {count} events").format(size=bytes_of(info.size), count=f"{info.event_count:,}"),
        _("created"): _moment(info.created_at),
        _("updated"): _moment(info.updated_at),
        _("repository"): info.repository,
        _("delegates"): str(delegates) if delegates else "",
        _("origin"): _came_from(info),
        _("id"): info.id,
    }
    parts: list[tuple[str, str]] = [(_one_line(info.title or _("Untitled")) + "\n\n", "bold")]
    cells = max(cell_len(name) for name in rows) + 2
    for name, value in rows.items():
        if value:
            clean = sanitize_line(value, LONGEST)
            parts += [(set_cell_size(name, cells), "$text-muted"), (elided(clean, width - cells) + "\n", "")]
    for who, text in said:
        parts += [(f"\n{who}\n", "bold $text-accent"), (sanitize(text).strip() + "\n", "")]
    return Content.assemble(*parts)


def _came_from(info: ConversationInfo) -> str:
    if not info.origin:
        return ""
    origin = ORIGINS.get(info.origin, info.origin)
    at = f" #{info.origin_event}" if info.origin_event is not None else ""
    return f"{origin} {info.origin_of}{at}"


def age(at: datetime, now: datetime) -> str:
    """How long ago something was, in few cells."""
    seconds = max(0.0, (now - at).total_seconds())
    if seconds < 60:
        return _("now")
    if seconds < 3600:
        return _("{n} min").format(n=int(seconds // 60))
    if seconds < 86400:
        return _("{n} h").format(n=int(seconds // 3600))
    if seconds < 86400 * 60:
        return _("{n} d").format(n=int(seconds // 86400))
    return at.astimezone().strftime("%Y-%m-%d")


def _title(info: ConversationInfo) -> str:
    return sanitize_line(info.title or info.first_line or _("Untitled"), LONGEST)


def _beyond_title(info: ConversationInfo) -> str:
    """What the first line says that the title does not; a title is often its beginning."""
    if not info.title:
        return ""
    said, title = sanitize_line(info.first_line, LONGEST), _title(info)
    for end in (*TITLE_ENDINGS, "…"):
        title = title.removesuffix(end).rstrip()
    if not said.startswith(title):
        return said
    more = said[len(title) :].strip()
    return f"…{more}" if len(more) > 1 else ""


def _place(path: str, cells: int) -> str:
    """A folder in few cells: the home as ~, and the start given up before the end."""
    home = str(Path.home())
    clean = sanitize_line(path, LONGEST)
    if clean == home or clean.startswith(f"{home}/"):
        clean = "~" + clean[len(home) :]
    if cell_len(clean) <= cells:
        return clean
    while cell_len(clean) > cells - 1:
        clean = clean[1:]
    return "…" + clean


def _right(text: str, cells: int) -> str:
    """A text at the right end of its place."""
    return " " * max(0, cells - cell_len(text)) + text


def _moment(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def _one_line(text: str) -> str:
    return sanitize(text).replace("\n", " ")


Clock = Callable[[], datetime]


class Listed:
    """Implements `tui.sessions.view.Drawn` with the list. What is not read yet is a row of dots."""

    height = 2

    def __init__(
        self, listing: SessionList, clock: Clock, standings: Mapping[str, Standing], chosen: AbstractSet[str]
    ) -> None:
        self._list, self._clock, self._standings, self._chosen = listing, clock, standings, chosen

    def __len__(self) -> int:
        return len(self._list)

    def lines(self, row: int, width: int) -> Sequence[Content]:
        entry = self._list.entry(row)
        if entry is None:
            return Content.styled("      …", "$text-muted"), Content("")
        standing = self._standings.get(entry.info.id, CLOSED)
        return entry_lines(entry, width, self._clock(), standing, entry.info.id in self._chosen)

    def stops(self, row: int) -> bool:
        """Everywhere."""
        return True


class Found:
    """Implements `tui.sessions.view.Drawn` with hits; the cursor passes over headings."""

    height = 1

    def __init__(self, hits: HitList, clock: Clock) -> None:
        self._hits, self._clock = hits, clock

    def __len__(self) -> int:
        return len(self._hits)

    def lines(self, row: int, width: int) -> Sequence[Content]:
        found = self._hits.rows[row]
        if isinstance(found, ConversationInfo):
            return [heading_line(found, width, self._clock())]
        return [hit_line(found, width)]

    def stops(self, row: int) -> bool:
        return not isinstance(self._hits.rows[row], ConversationInfo)
