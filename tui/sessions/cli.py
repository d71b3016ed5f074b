"""`handloom list`, `search`, `rename` and `delete`: conversations on the command line.

For people, aligned lines as wide as the terminal; for scripts (`--json`), one object a line with stable fields.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from rich.cells import cell_len, set_cell_size

from core.environment import home_folder
from core.errors import ExitStatus, HandloomError, UsageError
from core.import_export.agents.names import AGENTS, present
from core.library.conversation_ids import own_id
from core.secrets import Redactor, from_environment
from core.secrets.redactor import without_secrets
from core.settings.config import load
from core.store.conversations import ConversationFilter, ConversationInfo
from core.store.event_store import EventStore
from core.store.reader import EventReader
from core.store.search_index import Hit
from tui.cli.output import can_ask, is_confirmed, notice, say
from tui.i18n import _, counted, listed
from tui.library.cli import all_sessions
from tui.sessions.conversation_list import bytes_of, dollars
from tui.sessions.filter_chips import STATES
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_status import mark_of_stored

LONGEST = 400
ALL = 2**31
TITLE_CHARS = 120
MARK_STYLE = ("\x1b[1m", "\x1b[0m")
"""Escape codes around a match, on a terminal."""


async def list_conversations(options: argparse.Namespace) -> int:
    """`handloom list`: one line a conversation, the newest first."""
    where = ConversationFilter(
        workspace=_folder(options.workspace),
        model=options.model or "",
        states=STATES.get(options.state or "", frozenset()),
        since=datetime.now(UTC) - timedelta(days=options.since) if options.since is not None else None,
        parents=not options.all,
    )
    home = home_folder(os.environ)
    async with all_sessions(home, options) as sessions:
        if sessions is not None:
            found = await sessions.listing.page(where, limit=ALL)
        else:
            async with EventReader(home) as reader:
                found = await reader.conversations(limit=ALL, where=where)
            if sys.stdout.isatty() and not options.json:
                await _tell_about_agents(home)
    for info in found:
        say(json.dumps(info_to_dict(info)) if options.json else info_line(info, _width()))
    return ExitStatus.FINISHED


async def _tell_about_agents(home: Path) -> None:
    """Name the agents whose sessions could be listed too, while the user has not said whether they shall be."""
    if load(home, os.environ).library.other_agents == "ask":
        titles = await asyncio.to_thread(present, Path.home())
        text = _("{agents} saved sessions on this machine. `handloom list --all-agents` shows them too.")
        if titles:
            notice(text.format(agents=listed(titles)))


def info_to_dict(info: ConversationInfo) -> dict[str, Any]:
    """The `--json` form of a conversation. Fields may be added, never changed."""
    return {
        "conversation_id": info.id,
        "title": info.title,
        "workspace": info.workspace,
        "model": info.model,
        "created_at": info.created_at.isoformat(),
        "updated_at": info.updated_at.isoformat(),
        "event_count": None if info.origin in AGENTS and not info.event_count else info.event_count,
        "first_line": info.first_line,
        "state": info.state or None,
        "cost": info.cost,
        "size_bytes": info.size,
        "origin": info.origin or None,
        "origin_of": info.origin_of or None,
        "parent": info.parent or None,
        "agent": info.origin if info.origin in AGENTS else None,
    }


def info_line(info: ConversationInfo, width: int = 0) -> str:
    """A conversation in one line of at most `width` cells; 0 for no limit.

    The folder is cut first, then the title; id, time and figures stay.
    """
    mark = mark_of_stored(info.state)[0].glyph if info.state else "•"
    when = info.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
    agent = AGENTS.get(info.origin)
    was_read = agent is None or info.event_count > 0
    events = _("{count} events").format(count=f"{info.event_count:5d}") if was_read else " " * 12
    head = f"{sanitize_line(info.id, 64)}  {when}  {events}  "
    figures = f"{dollars(info.cost) if was_read else '':>8} {bytes_of(info.size):>7} {mark} "
    if not width or width >= cell_len(head) + cell_len(figures) + 24:
        head += figures
    whose = f"{agent.title}: " if agent is not None else ""
    title = sanitize_line(info.title or info.first_line or _("Untitled"), LONGEST)
    title = f"{'└ ' if info.parent else ''}{whose}{title}"
    folder = f"  ({sanitize_line(info.workspace, LONGEST)})" if info.workspace else ""
    line = head + title + folder
    if not width or cell_len(line) <= width:
        return line
    if cell_len(head) + 8 > width:
        return sanitize_line(line, max(width, 1))
    room = width - cell_len(head)
    cut = sanitize_line(title, max(8, room - 14)) if room >= 30 else sanitize_line(title, room)
    return head + cut + (sanitize_line(folder, room - cell_len(cut)) if room - cell_len(cut) >= 8 else "")


async def search(options: argparse.Namespace) -> int:
    """`handloom search Q`: matching events, the newest conversation first."""
    if not options.query.strip():
        raise UsageError("The search is empty. Give at least one word.")
    home, infos = home_folder(os.environ), dict[str, ConversationInfo]()
    async with EventStore(home) as store, all_sessions(home, options, reads=True) as sessions:
        await store.index()
        found = store if sessions is None else sessions
        hits = await found.search(options.query, limit=options.limit)
        for hit in hits:
            if hit.conversation_id not in infos:
                infos[hit.conversation_id] = await found.conversation(hit.conversation_id)
    if options.json:
        for hit in hits:
            say(json.dumps(hit_to_dict(hit, infos[hit.conversation_id])))
        return ExitStatus.FINISHED
    before = ""
    for hit in hits:
        if hit.conversation_id != before:
            before = hit.conversation_id
            say(_fit(info_line(infos[before], _width())))
        say(hit_text(hit, _width(), is_marked=sys.stdout.isatty()))
    if not hits:
        notice(_("No matches found."))
    return ExitStatus.FINISHED


def hit_to_dict(hit: Hit, info: ConversationInfo) -> dict[str, Any]:
    return {
        "conversation_id": hit.conversation_id,
        "title": info.title,
        "event_id": hit.event_id,
        "timestamp": hit.timestamp.isoformat(),
        "kind": hit.kind,
        "text": hit.text,
        "spans": [list(span) for span in hit.spans],
    }


def hit_text(hit: Hit, width: int, *, is_marked: bool) -> str:
    """A hit in one line, below its conversation."""
    head = f"  #{hit.event_id:<7} {set_cell_size(sanitize_line(hit.kind.partition(':')[2] or hit.kind, 14), 14)} "
    left, at, line = (width or LONGEST) - cell_len(head), 0, head
    for start, end in [*hit.spans, (len(hit.text), len(hit.text))]:
        for text, marked in ((hit.text[at:start], False), (hit.text[start:end], is_marked)):
            clean = sanitize_line(text, left) if left > 0 and text else ""
            left -= cell_len(clean)
            line += f"{MARK_STYLE[0]}{clean}{MARK_STYLE[1]}" if marked and clean else clean
        at = end
    return line


async def rename(options: argparse.Namespace) -> int:
    title = " ".join(options.title.split())[:TITLE_CHARS]
    if not title:
        raise UsageError("The name cannot be empty. Give a name.")
    title = without_secrets(title, Redactor(from_environment(os.environ)))
    async with EventStore(home_folder(os.environ)) as store:
        await store.rename(await own_id(store, options.id), title)
    return ExitStatus.FINISHED


async def delete(options: argparse.Namespace) -> int:
    """`handloom delete ID...`: asks on a terminal; elsewhere it needs `--yes`. Reports on standard error."""
    from tui.cli.run import command_manager  # loads everything

    home = home_folder(os.environ)
    settings = load(home, os.environ)
    async with command_manager(home, settings) as manager:
        ids = [await own_id(manager.store, text) for text in dict.fromkeys(options.ids)]
        if not options.yes:
            for id in ids:
                await _list_deletion(manager.store, id)
            if not _confirm_deletion(len(ids)):
                notice(_("Nothing was deleted."))
                return ExitStatus.ERROR
        status = ExitStatus.FINISHED
        for id in dict.fromkeys(ids):
            try:
                await manager.delete(id, later=options.without_engine)
            except HandloomError as error:
                notice(f"handloom: {error}")
                status = ExitStatus.ERROR
            else:
                notice(_("Deleted: {id}").format(id=id))
    return status


async def _list_deletion(store: EventReader, conversation_id: str) -> None:
    info = await store.conversation(conversation_id)
    notice(_fit(info_line(info, _width())))
    below = len(await store.descendants(conversation_id))
    if below:
        notice("  " + counted(below, "{n} delegate", "{n} delegates"))


def _confirm_deletion(count: int) -> bool:
    """Ask on the terminal. Raises UsageError without a terminal."""
    if not can_ask():
        raise UsageError("This needs a terminal for confirmation. Pass --yes to delete without asking.")
    return is_confirmed(
        counted(count, "Permanently delete this conversation?", "Permanently delete these {n} conversations?")
    )


def _folder(text: str | None) -> str:
    """A folder as conversations store it; empty for none."""
    return str(Path(text).expanduser().absolute()) if text else ""


def _width() -> int:
    """The columns of the terminal; 0 if the output goes elsewhere and is not cut."""
    return get_terminal_size().columns if sys.stdout.isatty() else 0


def _fit(line: str) -> str:
    return line if not (width := _width()) else sanitize_line(line, width)
