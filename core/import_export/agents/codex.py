"""Sessions of the OpenAI Codex CLI: one file with a JSON object on each line, in order.

    <root>/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl      a session; `.jsonl.zst` when it was compressed
    <root>/archived_sessions/                                 the same, put away by the user
    <root>/session_index.jsonl                                names that the user gave

The root is ~/.codex. Nearly everything is there twice: as an item of the Responses API, and as an event or a turn item
for the screen. Prompts, exit codes and diffs come from the second, everything else from the first (`codex_records`).
A sub-agent is a session of its own. A fork begins with a copy of its parent's records, or names the record of the
parent's file before which it begins. Seen in files of 0.98.0 and 0.125.0 (legacy mode) and 0.171.0 (paginated mode).
"""

from __future__ import annotations

import io
import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from core.import_export.agents import files
from core.import_export.agents.codex_records import (
    Facts,
    JsonObject,
    Record,
    Writer,
    is_uuid7,
    record_of,
    without_context,
)
from core.import_export.agents.source import AgentSession, Places
from core.import_export.agents.transcript import Branch, Transcript, as_time, first_line
from core.import_export.agents.zips import zstd
from core.import_export.bounded_json import Fault

NAME = "codex"
MAX_BRANCHES = 50
MAX_BRANCH_RECORDS = 300_000
"""In all branches together: each has the whole way from the beginning."""
MAX_FORKS = 20
"""Forks of forks whose parents are read."""
MAX_UNPACKED_BYTES = 2 * 1024**3
_EDGE_BYTES = 2 * files.EDGE_BYTES
"""Instructions come before the first prompt."""
_INDEX_BYTES = 1 << 20
_FORKED_AT = "forked_from_ordinal_exclusive"
_COPY_TIME = timedelta(seconds=1)
"""A copy is written at once."""
_FILE = re.compile(
    r"rollout-.*([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(\.jsonl\.zst|\.jsonl|\.json)"
)
_SUFFIXES = (".json", ".jsonl.zst", ".jsonl")
"""Of two files of one session, the later one counts."""
_FOLDERS = ("archived_sessions", "sessions")
_MODES = ("", "legacy", "paginated")


def discover(places: Places) -> Iterator[AgentSession]:
    """Every session and sub-agent; the active file before the archived one, and the plain before the compressed."""
    root = places.variable("CODEX_HOME", places.home / ".codex")
    found: dict[str, tuple[int, int, files.FoundFile]] = {}
    for number, folder in enumerate(_FOLDERS):
        for file in files.walk(root / folder, _SUFFIXES):
            if name := _FILE.fullmatch(file.path.name):
                rank = (number, _SUFFIXES.index(name[2]), file)
                if name[1] not in found or found[name[1]][:2] < rank[:2]:
                    found[name[1]] = rank
    titles = _titles(root)
    for id, (_, _, file) in sorted(found.items(), key=lambda each: each[1][2].changed_ns, reverse=True):
        with suppress(OSError):
            known = places.unchanged(file.path, file.size, file.changed_ns)
            title = titles.get(id, "")
            yield _session(root, id, file, title) if known is None else replace(known, title=title or known.title)


def read(session: AgentSession) -> Transcript:
    """The session without the turns that the user took back; each state before that is a branch."""
    warnings: list[str] = []
    records = _records(session.root, session.path, warnings, first_bytes=session.first_bytes)
    meta = next((record.payload for record in records if record.kind == "session_meta"), {})
    if (mode := files.text(meta, "history_mode")) not in _MODES:
        warnings.append(f"The history mode {mode[:40]!r} is not known to this version; some events may be missing.")
    if session.first_bytes and _FORKED_AT in meta:
        raise Fault("a fork is read as a whole, after the session that it goes on from")
    copied = _copied(records, meta)
    history = _history(session.root, meta, warnings, {session.id})
    records, copied = [*history, *records], len(history) + copied
    facts = Facts.of(records, copied)
    live, others = _live(records, facts)

    def rendered(places: list[int], title: str) -> Transcript:
        transcript = Transcript(NAME, title, files.text(meta, "cwd") or session.folder)
        transcript.commit = files.text(files.inner(meta, "git"), "commit_hash")
        writer = Writer(transcript, facts)
        for number, place in enumerate(places):
            if copied and place >= copied and (not number or places[number - 1] < copied):
                transcript.at(records[place].timestamp, records[place].place)
                transcript.unknown("fork", {"session": session.parent_id})
            writer.add(place, records[place])
        return transcript

    found = rendered(live, session.title)
    for title, places in others[-MAX_BRANCHES:]:
        if places and not session.first_bytes:
            found.branches.append(Branch(title, rendered(places, title)))
    if len(found.branches) < len(others):
        warnings.append(f"Only {len(found.branches)} of {len(others)} other branches are shown.")
    if facts.unknown:
        names = ", ".join(sorted(facts.unknown)[:5])
        warnings.append(f"Records of kinds that this version does not know are in the event log: {names}.")
    found.warnings = warnings
    return found


# -- the list ----------------------------------------------------------------------------------------------------------


def _titles(root: Path) -> dict[str, str]:
    """The names that sessions got; the last one of each counts."""
    try:
        with files.open_below(root, root / "session_index.jsonl") as file:
            head, tail = files.edges(file, _INDEX_BYTES)
    except OSError:
        return {}
    return {files.text(entry, "id"): first_line(files.text(entry, "thread_name")) for entry in (*head, *tail)}


def _session(root: Path, id: str, file: files.FoundFile, title: str) -> AgentSession:
    head: list[Record] = []
    tail: list[Record] = []
    with suppress(Fault), _opened(root, file.path) as opened:
        if file.path.suffix == ".json":
            head = [record_of(0, value) for value in _values(files.beginning(opened, _EDGE_BYTES))]
        else:
            is_packed = file.path.suffix == ".zst"
            source = io.BytesIO(opened.read(_EDGE_BYTES)) if is_packed else opened  # only its beginning is unpacked
            head, tail = ([record_of(0, value) for value in edge] for edge in files.edges(source, _EDGE_BYTES))
    meta = next((record.payload for record in head if record.kind == "session_meta"), {})
    parent, is_fork = _parent_id(meta, id), "forked_from_id" in meta
    both = [*head, *tail]
    times = [time for record in both if (time := as_time(record.timestamp))]
    models = [
        model for record in both if record.kind == "turn_context" and (model := files.text(record.payload, "model"))
    ]
    own = both[_copied(both, meta) :]
    return AgentSession(
        agent=NAME,
        id=id,
        root=root,
        path=file.path,
        title=title or _first_prompt(own),
        folder=files.text(meta, "cwd"),
        model=models[-1] if models else "",
        started_at=as_time(meta.get("timestamp")) or _time_of(id) or min(times, default=None),
        updated_at=max(times, default=as_time(file.changed_ns // 1_000_000)),
        size=file.size,
        changed_ns=file.changed_ns,
        parent_id=parent,
        tokens=0 if is_fork else _tokens(both),  # the total of a fork includes its parent's
        commit=files.text(files.inner(meta, "git"), "commit_hash"),
    )


def _first_prompt(records: list[Record]) -> str:
    facts = Facts.of(records)
    prompts = (facts.prompt(place, record)[0] for place, record in enumerate(records))
    titles = (first_line(without_context(prompt)[0]) for prompt in prompts)
    return next(filter(None, titles), "")


def _parent_id(meta: JsonObject, id: str) -> str:
    spawn = files.inner(meta, "source", "subagent", "thread_spawn")
    named = [files.text(meta, "forked_from_id"), files.text(meta, "parent_thread_id")]
    named += [files.text(spawn, "parent_thread_id"), files.text(meta, "session_id")]
    return next((parent for parent in named if parent not in ("", id)), "")


def _tokens(records: list[Record]) -> int:
    totals = (files.inner(record.payload, "info", "total_token_usage") for record in reversed(records))
    return next((count for total in totals if (count := files.number(total, "total_tokens"))), 0)


def _time_of(id: str) -> datetime | None:
    """When an id was made: the newer ones begin with the milliseconds since 1970."""
    return as_time(int(id.replace("-", "")[:12], 16)) if is_uuid7(id) else None


# -- the file ----------------------------------------------------------------------------------------------------------


def _records(root: Path, path: Path, warnings: list[str], prefix: str = "", *, first_bytes: int = 0) -> list[Record]:
    """The records of a file in the order of their ordinals, or as they are if not all have one."""
    found, bad = [], 0
    if path.suffix == ".json":  # versions of the first half of 2025
        with files.open_below(root, path) as file:
            return [record_of(number, value) for number, value in enumerate(_values(files.read_json(file)), 1)]
    with _opened(root, path) as file:
        for line in files.lines(file, first_bytes):
            place = f"{prefix}{line.number}" if prefix else line.number
            if isinstance(line.value, dict):
                found.append(record_of(place, line.value))
            else:
                bad += line.wrong != "cut off"  # the last line of a session that runs
                found.append(record_of(place, {"wrong": line.wrong or "not an object", "value": line.value}))
    if bad:
        warnings.append(f"Lines that cannot be read: {bad}.")
    ordinals = [record.ordinal for record in found]
    if None not in ordinals:
        found.sort(key=lambda record: record.ordinal or 0)
    return found


def _values(whole: Any) -> list[Any]:
    """The records in a file that is one JSON object."""
    return [files.inner(whole, "session"), *files.items(whole, "items")]


@contextmanager
def _opened(root: Path, path: Path) -> Iterator[BinaryIO]:
    """The lines of a file, unpacked if it is compressed. Raises OSError and Fault."""
    with files.open_below(root, path) as file:
        if path.suffix != ".zst":
            yield file
            return
        try:
            with zstd.open(file) as unpacked:
                yield io.BufferedReader(_Bounded(unpacked))
        except (zstd.ZstdError, EOFError) as error:
            raise Fault(f"it cannot be unpacked ({error})") from error


class _Bounded(io.RawIOBase):
    """A file that is refused when it becomes too long while it is unpacked."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise Fault(f"it has more than {MAX_UNPACKED_BYTES // 1_000_000} MB when unpacked, which is the limit")
        buffer[: len(data)] = data
        return len(data)


def _copied(records: list[Record], meta: JsonObject) -> int:
    """How many records at the beginning of a fork are copies of its parent's records."""
    metas = [place for place, record in enumerate(records) if record.kind == "session_meta"]
    if _FORKED_AT in meta or (len(metas) < 2 and "forked_from_id" not in meta):
        return 0
    own = files.text(meta, "id")
    for place, record in enumerate(records):
        turn = record.turn_id
        if place and (record.payload.get("thread_id") == own or (is_uuid7(turn) and is_uuid7(own) and turn > own)):
            return place
    begun = as_time(records[0].timestamp)
    for place, record in enumerate(records):  # of versions whose turns have no ids
        time = as_time(record.timestamp)
        if begun and time and time - begun > _COPY_TIME:
            return place
    return next((place for place in range(len(records) - 1, 0, -1) if records[place].is_prompt_event), 0)


def _history(root: Path, meta: JsonObject, warnings: list[str], seen: set[str]) -> list[Record]:
    """The records of the parent's file that come before a fork."""
    end, parent = meta.get(_FORKED_AT), files.text(meta, "forked_from_id")
    if not isinstance(end, int) or not parent:
        return []
    paths = (file.path for folder in _FOLDERS[::-1] for file in files.walk(root / folder, _SUFFIXES))
    names = ((path, _FILE.fullmatch(path.name)) for path in paths)
    path = next((path for path, name in names if name and name[1] == parent), None)
    try:
        if path is None or parent in seen or len(seen) > MAX_FORKS:
            raise FileNotFoundError(parent)
        records = _records(root, path, [], f"{path.name}:")
    except (OSError, Fault):
        warnings.append(f"The session of which this is a fork cannot be read: {parent[:40]}.")
        return []
    above = next((record.payload for record in records if record.kind == "session_meta"), {})
    before = [
        record for place, record in enumerate(records) if (place if record.ordinal is None else record.ordinal) < end
    ]
    return [*_history(root, above, warnings, seen | {parent}), *before]


def _live(records: list[Record], facts: Facts) -> tuple[list[int], list[tuple[str, list[int]]]]:
    """The records that are left after the user took turns back, and the states before that with their titles."""
    live: list[int] = []
    others: list[tuple[str, list[int]]] = []
    turns: list[tuple[int, str]] = []
    begun, left = -1, MAX_BRANCH_RECORDS
    for place, record in enumerate(records):
        live.append(place)
        if record.is_event("task_started", "turn_started"):
            begun = place
        elif prompt := facts.prompt(place, record)[0]:
            turns.append((place if begun < 0 else begun, prompt))
            begun = -1
        elif record.is_event("thread_rolled_back") and turns:
            count = min(files.number(record.payload, "num_turns"), len(turns))
            if not count:
                continue
            begin, prompt = turns[-count]
            left -= len(live)
            others.append((first_line(without_context(prompt)[0]), live[:-1] if left >= 0 else []))
            del live[bisect_left(live, begin) :], turns[-count:]
            live.append(place)
    return live, others
