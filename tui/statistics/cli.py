"""`handloom show`: the statistics of one conversation or all, as aligned text or one JSON object.

`core.statistics` counts; this module formats. A log is read page by page, so that the
longest one fits into memory. A figure that is not known is a dash or the word unknown, never 0. Text from outside is
made one clean line before it is laid out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size

from core.environment import home_folder
from core.errors import ExitStatus, UsageError
from core.import_export.agents.names import AGENTS
from core.library.all_sessions import AllSessions
from core.library.costs import day_of, totals
from core.library.records import Record, library_home, records_of
from core.statistics import Durations, Statistics, Tally
from core.store.conversations import ConversationInfo
from core.store.event_store import EventStore
from core.store.reader import EventReader
from core.store.writer import Spent
from tui.cli.output import say
from tui.i18n import _
from tui.library.cli import all_sessions, home_of
from tui.sessions.cli import info_line, info_to_dict
from tui.terminal_io.sanitizer import sanitize_line

PAGE = 500
"""Events read at once."""
NAME_WIDTH, LINE_WIDTH = 48, 400
"""Cells of a name in a table, and of a line of its own: a title or a path."""
BAR_CELLS, EIGHTHS = 16, ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
MOST_ROWS = 30
"""Rows of a table about all sessions."""
UNKNOWN = "—"
Rows = Sequence[Sequence[str]]


async def report(store: EventStore, conversation_id: str) -> str:
    """The statistics of one conversation as text. Raises UsageError for an unknown conversation."""
    return await _show_one(store, conversation_id, as_json=False)


async def show(options: argparse.Namespace) -> int:
    """Run `handloom show [ID]`. Raises UsageError for an unknown conversation."""
    home = home_folder(os.environ)
    if options.id is not None:
        where, id = await home_of(home, options, options.id)
        async with EventStore(where) as store:
            say(await _show_one(store, id, options.json))
        return ExitStatus.FINISHED
    async with all_sessions(home, options, reads=True) as sessions:
        if sessions is not None:
            say(await _show_all_agents(sessions, await asyncio.to_thread(records_of, home), options.json))
            return ExitStatus.FINISHED
    async with EventStore(home) as store:
        say(await _show_all(store, options.json))
    return ExitStatus.FINISHED


# -- one conversation ------------------------------------------------------------------------------------------------


async def _show_one(store: EventStore, conversation_id: str, as_json: bool) -> str:
    found = await store.conversations(conversation_id=conversation_id)
    if not found:
        raise UsageError(f"There is no conversation {conversation_id}. `handloom list` shows all conversations.")
    (info,), tally, after = found, Tally(), -1
    while page := await store.read(conversation_id, after=after, limit=PAGE):
        for envelope in page:
            tally.add(envelope)
        after = page[-1].id
    statistics, descendants = tally.statistics(), await store.descendants(conversation_id)
    if as_json:
        return _to_json(_one_to_dict(info, statistics, descendants))
    return "\n".join([*_heading(info), *_figures(statistics), *_delegates(info, descendants)])


def _one_to_dict(
    info: ConversationInfo, statistics: Statistics, descendants: Sequence[ConversationInfo]
) -> dict[str, Any]:
    delegates = [{**_info_to_dict(below), "depth": depth} for depth, below in _tree(info.id, descendants)]
    return {**_info_to_dict(info), "statistics": asdict(statistics), "delegates": delegates}


def _info_to_dict(info: ConversationInfo) -> dict[str, Any]:
    return {
        **info_to_dict(info),
        "parent": info.parent or None,
        "parent_action": info.parent_action,
        "repository": info.repository or None,
    }


def _heading(info: ConversationInfo) -> Iterator[str]:
    facts = {
        _("title"): info.title or _("Untitled"),
        _("folder"): info.workspace,
        _("repository"): info.repository,
        _("model"): info.model,
        _("parent"): info.parent,
        _("created"): _moment(info.created_at),
        _("updated"): _moment(info.updated_at),
    }
    if info.parent_action is not None:
        facts[_("parent")] = _("{parent}, action {number}").format(parent=info.parent, number=info.parent_action)
    yield _("Conversation {id}").format(id=sanitize_line(info.id, LINE_WIDTH))
    for name, value in facts.items():
        if value:
            yield f"  {set_cell_size(name, 11)}{sanitize_line(value, LINE_WIDTH)}"


def _figures(of: Statistics) -> Iterator[str]:
    yield ""
    yield from _table(
        [
            [_("events"), f"{of.events:,}"],
            [_("user messages"), f"{of.user_messages:,}"],
            [_("model calls"), f"{of.answers:,}"],
            [_("time worked"), _duration(of.worked_s)],
            [_("first to last event"), _duration(_span_s(of.first_at, of.last_at))],
        ]
    )
    if of.calls.count:
        yield from ["", _("Model calls")]
        yield from _table(_call_rows(of))
    timed = {_("model"): of.latency, **{kind: actions.durations for kind, actions in of.actions.items()}}
    if any(durations.count for durations in timed.values()):
        yield from ["", _("Time")]
        yield from _table(_time_rows(timed))
    if of.actions:
        yield from ["", _("Actions")]
        rows = [[kind, f"{a.count:,}", f"{a.failed:,}", f"{a.refused:,}"] for kind, a in of.actions.items()]
        yield from _table([["", _("count"), _("failed"), _("refused")], *rows])


def _call_rows(of: Statistics) -> Iterator[Sequence[str]]:
    yield ["", _("calls"), _("prompt"), _("completion"), _("cache read"), _("cache write"), _("cost")]
    named = {name or _("(unknown model)"): calls for name, calls in of.calls_by_model.items()}
    for name, calls in {**(named if len(named) > 1 else {}), _("all"): of.calls}.items():
        counts = (
            calls.count,
            calls.prompt_tokens,
            calls.completion_tokens,
            calls.cache_read_tokens,
            calls.cache_write_tokens,
        )
        yield [name, *(f"{count:,}" for count in counts), _cost(calls.cost, calls.unpriced)]


def _time_rows(timed: Mapping[str, Durations]) -> Iterator[Sequence[str]]:
    yield ["", _("count"), _("median"), "95 %", _("longest"), _("total")]
    for name, of in timed.items():
        yield [name, f"{of.count:,}", *map(_duration, (of.median_s, of.p95_s, of.max_s, of.total_s))]


def _delegates(info: ConversationInfo, descendants: Sequence[ConversationInfo]) -> Iterator[str]:
    if descendants:
        yield from ["", _("Delegated to")]
    for depth, below in _tree(info.id, descendants):
        yield "  " * depth + info_line(below)


def _tree(root: str, descendants: Sequence[ConversationInfo]) -> Iterator[tuple[int, ConversationInfo]]:
    """The delegates below `root` with their depth (from 1), parents first, each once."""
    children: dict[str, list[ConversationInfo]] = {}
    for info in descendants:
        children.setdefault(info.parent, []).append(info)
    waiting = [(1, info) for info in reversed(children.pop(root, []))]
    while waiting:
        depth, info = waiting.pop()
        yield depth, info
        waiting += [(depth + 1, child) for child in reversed(children.pop(info.id, []))]


# -- all conversations -----------------------------------------------------------------------------------------------


async def _show_all(store: EventStore, as_json: bool) -> str:
    kinds, spent, days = await store.events_by_kind(), await store.spent(), await store.spent_by_day()
    conversations = await store.count_conversations()
    if as_json:
        return _to_json(
            {
                "conversations": conversations,
                "events": sum(kinds.values()),
                "events_by_kind": kinds,
                "spent": _spent_to_dict(spent),
                "spent_by_day": {day.isoformat(): _spent_to_dict(of) for day, of in days.items()},
            }
        )
    lines = ["All conversations", ""]
    lines += _table([["conversations", f"{conversations:,}"], ["events", f"{sum(kinds.values()):,}"]])
    lines += ["", "Spent (days are UTC)", *_table(_spent_rows(spent, days))]
    if kinds:
        lines += ["", "Events by kind", *_table([[kind, f"{count:,}"] for kind, count in kinds.items()])]
    return "\n".join(lines)


def _spent_rows(spent: Spent, days: Mapping[date, Spent]) -> Iterator[Sequence[str]]:
    yield ["", "calls", "tokens", "worked", "cost"]
    for name, of in {**{day.isoformat(): of for day, of in days.items()}, "ever": spent}.items():
        yield [name, f"{of.calls:,}", f"{of.tokens:,}", _duration(of.seconds), _cost(_known_cost(of), of.unpriced)]


def _spent_to_dict(spent: Spent) -> dict[str, Any]:
    return {**asdict(spent), "cost": _known_cost(spent)}


def _known_cost(spent: Spent) -> float | None:
    return None if spent.calls and spent.calls == spent.unpriced else spent.cost


async def report_all_agents(home: Path) -> str:
    """What the sessions of other agents cost, as text with bars; empty if none was found. Raises StoreError."""
    records = await asyncio.to_thread(records_of, home)
    if not records:
        return ""
    async with EventReader(library_home(home)) as copies:
        return await _show_all_agents(AllSessions([copies]), records, as_json=False)


async def _show_all_agents(sessions: AllSessions, records: Mapping[str, Record], as_json: bool) -> str:
    """What the sessions of other agents used, by agent, model, folder, day and kind of action."""
    wanted = [record for record in records.values() if sessions.has_origin(record.session.agent)]
    by = {
        _("By agent"): totals(wanted, lambda record: AGENTS[record.session.agent].title),
        _("By model"): totals(wanted, lambda record: record.session.model),
        _("By folder"): totals(wanted, lambda record: record.session.folder),
        _("By day (UTC)"): dict(sorted(totals(wanted, day_of).items(), reverse=True)),
    }
    kinds = await sessions.events_by_kind()
    if as_json:
        names = ("agents", "models", "folders", "days")
        found = {
            name: {key: asdict(total) for key, total in group.items()}
            for name, group in zip(names, by.values(), strict=True)
        }
        return _to_json({"sessions": len(wanted), **found, "events_by_kind": kinds})
    lines = [_("Sessions of other agents: {n}").format(n=f"{len(wanted):,}")]
    for heading, group in by.items():
        most = max((of.cost for of in group.values()), default=0.0)
        rows = [
            [name, f"{of.sessions:,}", f"{of.tokens:,}", _cost(of.cost, of.unpriced), _bar(of.cost, most)]
            for name, of in list(group.items())[:MOST_ROWS]
        ]
        left = len(group) - len(rows)
        lines += ["", heading, *_table([["", _("sessions"), _("tokens"), _("cost"), ""], *rows])]
        lines += [_("  and {n} more (--json has all)").format(n=left)] if left else []
    actions = [[kind.partition(":")[2], f"{n:,}"] for kind, n in kinds.items() if kind.startswith("action:")]
    return "\n".join([*lines, "", _("Actions"), *_table(actions[:MOST_ROWS])])


def _bar(part: float, most: float) -> str:
    """A bar beside the others of its table, in eighths of a cell."""
    eighths = round(8 * BAR_CELLS * part / most) if most > 0 else 0
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).ljust(BAR_CELLS)


# -- formatting --------------------------------------------------------------------------------------------------------


def _table(rows: Rows | Iterator[Sequence[str]]) -> Iterator[str]:
    """Indented lines with aligned columns: names to the left, figures to the right."""
    clean = [[sanitize_line(row[0], NAME_WIDTH), *row[1:]] for row in rows]
    widths = [max(cell_len(cell) for cell in column) for column in zip(*clean, strict=True)]
    for first, *figures in clean:
        cells = [
            set_cell_size(first, widths[0]),
            *(" " * (width - cell_len(cell)) + cell for cell, width in zip(figures, widths[1:], strict=True)),
        ]
        yield "  " + "  ".join(cells).rstrip()


def _cost(cost: float | None, unpriced: int) -> str:
    """US dollars as text, with the number of calls of unknown price."""
    known = "" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"
    if not unpriced:
        return known
    return " + ".join(filter(None, [known, _("{count} unknown").format(count=f"{unpriced:,}")]))


def _duration(seconds: float | None) -> str:
    """A duration for people: 0.35 s, 3m05s, 2h10m."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    return f"{whole // 60}m{whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02}m"


def _span_s(first: datetime | None, last: datetime | None) -> float | None:
    return None if first is None or last is None else max(0.0, (last - first).total_seconds())


def _moment(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _to_json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, default=datetime.isoformat)
