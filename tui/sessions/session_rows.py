"""Conversations and search hits as lines of a given width, for the session manager. Pure; every part is sanitised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from core.import_export.agents.names import AGENTS
from core.store.conversations import TITLE_ENDINGS, ConversationInfo
from core.store.search_index import Hit
from tui.dialogs.search_list import elided
from tui.i18n import _
from tui.sessions.conversation_list import Entry, HitList, SessionList, bytes_of, dollars
from tui.sessions.filter_chips import ORIGINS
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.conversation_status import Mark, mark_of_stored

LONGEST = 400
_TITLE_INDENT = 6
"""Cells before a title: selection, delegates, state."""
_FIRST_LINE_MIN_CELLS = 14
"""The first line is shown from this width on."""
_KIND = 14
_FOLDER_CELLS, _MODEL_CELLS = 18, 13


class OpenState(NamedTuple):
    """Whether a conversation is open, and its state there."""

    here: bool = False
    elsewhere: bool = False
    mark: Mark | None = None
    """Its live state if it is open here."""
    note: str = ""
    """What becomes of a session of another agent: a word in the row."""


CLOSED = OpenState()


def entry_lines(
    entry: Entry, width: int, now: datetime, open_state: OpenState, is_selected: bool
) -> tuple[Content, Content]:
    """A conversation in two lines."""
    info, indent = entry.info, "  " * entry.level
    mark = status_mark(info, open_state)
    toggle = ("▾" if entry.expanded else "▸") if entry.delegates else "└" if entry.level else " "
    right = f" {age(info.updated_at, now)}"
    open_at = f" ● {_('open here')}" if open_state.here else f" ◌ {_('open elsewhere')}" if open_state.elsewhere else ""
    open_at = f" {open_state.note}" if open_state.note else open_at
    whose = f"{AGENTS[info.origin].title}: " if info.origin in AGENTS else ""
    below = f" +{entry.delegates}" if entry.delegates else ""
    room = width - _TITLE_INDENT - cell_len(indent + right + open_at + below + whose)
    title = elided(_title(info), max(4, room))
    used = _TITLE_INDENT + cell_len(indent + whose + title + below + open_at + right)
    first = Content.assemble(
        ("✔ " if is_selected else "  ", "bold $text-accent"),
        indent,
        (f"{toggle} ", "$text-muted"),
        (f"{mark.glyph} ", mark.colour),
        (whose, "$text-muted"),
        (title, "bold"),
        (below, "$text-muted"),
        (open_at, "$text-accent" if open_state.here else "$text-secondary"),
        " " * max(0, width - used),
        (right, "$text-secondary"),
    )
    return first, _facts_line(info, width, _TITLE_INDENT + cell_len(indent), mark)


def _facts_line(info: ConversationInfo, width: int, left: int, mark: Mark) -> Content:
    """The first line or the state, and as many facts of a conversation as fit."""
    folder_cells, model_cells = (_FOLDER_CELLS, _MODEL_CELLS) if width >= 84 else (14, 12)
    origin = ORIGINS.get(info.origin, info.origin) if info.origin not in ("", *AGENTS) else ""
    size = bytes_of(info.size) if info.size or info.origin not in AGENTS else ""  # a session in a database has none
    facts = [
        (_short_path(info.workspace, folder_cells), folder_cells),
        (elided(sanitize_line(info.model, LONGEST).rpartition("/")[2], model_cells), model_cells),
        (_right(dollars(info.cost), 8), 8),
        (_right(size, 7), 7),
        (_right(_("{count} ev.").format(count=f"{info.event_count:,}") if info.event_count else "", 10), 10),
    ]
    while facts and left + sum(cells + 1 for fact, cells in facts) > width:
        del facts[-1]
    tail = "".join(" " + set_cell_size(fact, cells) for fact, cells in facts)
    room = width - left - cell_len(tail) - 1
    text = _rest_of_first_line(info) or mark.word
    text = f"[{sanitize_line(origin, 20)}] {text}" if origin else text
    text = elided(text, room) if room >= _FIRST_LINE_MIN_CELLS else ""
    gap = " " * max(1, width - left - cell_len(text) - cell_len(tail))
    return Content.assemble(" " * left, (text, "$text-muted"), (gap + tail, "$text-muted"))


def heading_line(info: ConversationInfo, width: int, now: datetime) -> Content:
    """A conversation above its hits."""
    right = f" {_short_path(info.workspace, _FOLDER_CELLS)}  {age(info.updated_at, now)}"
    whose = f"{AGENTS[info.origin].title}: " if info.origin in AGENTS else ""
    title = elided(whose + _title(info), max(8, width - cell_len(right)))
    gap = " " * max(0, width - cell_len(title) - cell_len(right))
    return Content.assemble((title, "bold $text-accent"), gap, (right, "$text-secondary"))


def hit_line(hit: Hit, width: int) -> Content:
    """A hit: its event, its kind, and the text with the terms marked."""
    kind = sanitize_line(hit.kind.partition(":")[2] or hit.kind, _KIND)
    head = f"  {'#' + str(hit.event_id):>8} {set_cell_size(kind, _KIND)} "
    left = width - cell_len(head)
    at = _excerpt_start(hit, left)
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


def _excerpt_start(hit: Hit, width: int) -> int:
    """Where to cut an excerpt, so that the first term is visible in `width` cells."""
    if not hit.spans or cell_len(_one_line(hit.text[: hit.spans[0][1]])) < width:
        return 0
    return max(0, hit.spans[0][0] - max(0, width // 3))


def status_mark(info: ConversationInfo, open_state: OpenState) -> Mark:
    """The live state if it is open here, else the stored one; an interrupted run counts as idle."""
    if open_state.mark is not None:
        return open_state.mark
    mark = mark_of_stored(info.state)[0] if info.state else Mark.IDLE
    return Mark.IDLE if mark is Mark.RUNNING and not open_state.elsewhere else mark


def preview(
    info: ConversationInfo, messages: Sequence[tuple[str, str]], delegates: int, open_state: OpenState, width: int
) -> Content:
    """The facts in full, then the last messages as pairs of author and text."""
    mark = status_mark(info, open_state)
    rows = {
        _("state"): f"{mark.glyph} {mark.word}",
        _("folder"): info.workspace,
        _("model"): info.model,
        _("cost"): dollars(info.cost),
        _("size"): _("{size}, {count} events").format(size=bytes_of(info.size), count=f"{info.event_count:,}"),
        _("created"): _date_time(info.created_at),
        _("updated"): _date_time(info.updated_at),
        _("repository"): info.repository,
        _("branches and sub-agents") if info.origin in AGENTS else _("delegates"): str(delegates) if delegates else "",
        _("origin"): _origin_text(info),
        _("note"): open_state.note,
        _("id"): info.id,
    }
    parts: list[tuple[str, str]] = [(_one_line(info.title or _("Untitled")) + "\n\n", "bold")]
    cells = max(cell_len(name) for name, value in rows.items() if value) + 2
    for name, value in rows.items():
        if value:
            clean = sanitize_line(value, LONGEST)
            parts += [(set_cell_size(name, cells), "$text-muted"), (elided(clean, width - cells) + "\n", "")]
    for author, text in messages:
        parts += [(f"\n{author}\n", "bold $text-accent"), (sanitize(text).strip() + "\n", "")]
    return Content.assemble(*parts)


def _origin_text(info: ConversationInfo) -> str:
    if not info.origin:
        return ""
    origin = ORIGINS.get(info.origin, info.origin)
    at = f" #{info.origin_event}" if info.origin_event is not None else ""
    return f"{origin} {info.origin_of}{at}"


def age(at: datetime, now: datetime) -> str:
    """How long ago something was, as a short text."""
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


def _rest_of_first_line(info: ConversationInfo) -> str:
    """The part of the first line that the title does not repeat; a title is often its beginning."""
    if not info.title:
        return ""
    text, title = sanitize_line(info.first_line, LONGEST), _title(info)
    for end in (*TITLE_ENDINGS, "…"):
        title = title.removesuffix(end).rstrip()
    if not text.startswith(title):
        return text
    more = text[len(title) :].strip()
    return f"…{more}" if len(more) > 1 else ""


def _short_path(path: str, cells: int) -> str:
    """A folder in few cells: the home as ~, with the start cut off rather than the end."""
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
    return " " * max(0, cells - cell_len(text)) + text


def _date_time(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def _one_line(text: str) -> str:
    return sanitize(text).replace("\n", " ")


Clock = Callable[[], datetime]


class ConversationRows:
    """Implements `tui.sessions.view.RowSource` with the list. A row that is not loaded is shown as dots."""

    height = 2

    def __init__(
        self, listing: SessionList, clock: Clock, open_states: Mapping[str, OpenState], is_selected: AbstractSet[str]
    ) -> None:
        self._list, self._clock, self._open_states, self._chosen = listing, clock, open_states, is_selected

    def __len__(self) -> int:
        return len(self._list)

    def lines(self, row: int, width: int) -> Sequence[Content]:
        entry = self._list.entry(row)
        if entry is None:
            return Content.styled("      …", "$text-muted"), Content("")
        open_state = self._open_states.get(entry.info.id, CLOSED)
        return entry_lines(entry, width, self._clock(), open_state, entry.info.id in self._chosen)

    def is_selectable(self, row: int) -> bool:
        return True


class HitRows:
    """Implements `tui.sessions.view.RowSource` with hits; the cursor skips headings."""

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

    def is_selectable(self, row: int) -> bool:
        return not isinstance(self._hits.rows[row], ConversationInfo)
