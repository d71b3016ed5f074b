"""Sessions of other agents: listed without an index and with one, read and indexed, and one long session opened.

One in twenty of the full size; `HANDLOOM_BENCH_FULL=1` makes all of it: 5,000 sessions with 2 GB.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

from core.import_export.agents.source import Places
from core.library.all_sessions import AllSessions
from core.library.library import Library, chosen_sources
from core.library.prepared_session import copy_id
from core.library.records import library_home
from core.library.update import UpdateRequest
from core.store.conversations import ConversationFilter
from core.store.event_store import EventStore
from core.store.reader import EventReader
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder
from tests.bench.size import sized

IS_FULL = bool(os.environ.get("HANDLOOM_BENCH_FULL"))
SESSIONS = sized(5_000 if IS_FULL else 250, 5)
SESSION_BYTES = sized(400_000, 4_000)
LONG_RECORDS = sized(100_000, 100)
ROUNDS = sized(10, 2)
FIRST_MS, LISTED_MS, READ_MB_S, OPENED_MS = 1_000, 100, 40, 1_000
LONG = "long"
_WORDS = 5_000


def measure() -> list[Figure]:
    with folder() as place:
        user = place / "user"
        size = _write(user)
        figures = asyncio.run(_listed(place / "home", user))
        seconds = _update(place / "updated", user)
        return [
            *figures,
            Figure(f"{SESSIONS:,} sessions read and indexed", "MB/s", [size / 1e6 / seconds], Limit("JSON parsed",
                   [_parsed(user)]), [Target(READ_MB_S)]),
            *asyncio.run(_again(place / "updated")),
            *asyncio.run(_long(place / "alone", place / "other")),
        ]  # fmt: skip


async def _listed(home: Path, user: Path) -> list[Figure]:
    """Until the newest sessions are in the list of a home that has none, and until all are."""
    first: list[float] = []
    async with Library(home, places=Places(user), sources=chosen_sources(["claude-code"])) as library:
        begun = perf_counter()
        await library.find(lambda progress: first.append(perf_counter() - begun))
        everything = perf_counter() - begun
        begun = perf_counter()
        await library.find()
        again = perf_counter() - begun
    return [
        Figure("newest sessions listed without an index", "ms", [first[0] * 1000], targets=[Target(FIRST_MS)]),
        Figure(f"all {SESSIONS:,} listed without an index", "ms", [everything * 1000]),
        Figure(f"{SESSIONS:,} sessions looked at again", "ms", [again * 1000]),
    ]


def _update(home: Path, user: Path) -> float:
    """Seconds until the process of the workspace has found and read everything."""
    command = [sys.executable, "-m", "core.library.update"]
    environ = {**os.environ, "HOME": str(user), "XDG_CONFIG_HOME": "", "CLAUDE_CONFIG_DIR": ""}
    begun = perf_counter()
    wanted = UpdateRequest(str(home), ["claude-code"], keeps=True).to_json()
    subprocess.run(command, input=wanted, check=True, env=environ, stdout=subprocess.DEVNULL)
    return perf_counter() - begun


async def _again(home: Path) -> list[Figure]:
    """A list and a search once everything is there."""
    listed, searched = [], []
    async with EventStore(home) as ours, EventReader(library_home(home)) as copies:
        sessions = AllSessions([ours, copies])
        for _round in range(ROUNDS):
            begun = perf_counter()
            assert await sessions.listing.count(ConversationFilter()) == SESSIONS
            await sessions.listing.page(ConversationFilter())
            listed.append((perf_counter() - begun) * 1000)
            begun = perf_counter()
            assert await sessions.search("grep")
            searched.append((perf_counter() - begun) * 1000)
    return [
        Figure("list with an index", "ms", listed, targets=[Target(LISTED_MS)]),
        Figure("search of all sessions", "ms", searched),
    ]


async def _long(home: Path, user: Path) -> list[Figure]:
    """Reading a session that was never read, until its replay can begin, and until its last event is there."""
    random.seed(2)
    _write_session(user / ".claude/projects/-long", LONG, records=LONG_RECORDS)
    async with Library(home, places=Places(user), sources=chosen_sources(["claude-code"])) as library:
        await library.find()
        begun = perf_counter()
        assert await library.read_beginning(copy_id("claude-code", LONG))
        opened = perf_counter() - begun
        await library.read_now(copy_id("claude-code", LONG))
        whole = perf_counter() - begun
    name = f"session of {LONG_RECORDS:,} records"
    return [
        Figure(f"{name} opened", "ms", [opened * 1000], targets=[Target(OPENED_MS)]),
        Figure(f"{name} read to its end", "ms", [whole * 1000]),
    ]


def _parsed(user: Path) -> float:
    """Megabytes a second of the same files, parsed and nothing else."""
    paths = sorted((user / ".claude/projects").rglob("*.jsonl"))[: sized(50, 2)]
    begun, size = perf_counter(), 0
    for path in paths:
        for line in path.read_bytes().splitlines():
            size += len(line)
            json.loads(line)
    return size / 1e6 / (perf_counter() - begun)


def _write(user: Path) -> int:
    """Write the sessions. Returns their bytes."""
    random.seed(1)
    return sum(
        _write_session(user / f".claude/projects/-work-{number % 40}", f"session-{number:05}", size=SESSION_BYTES)
        for number in range(SESSIONS)
    )


def _write_session(place: Path, name: str, *, size: int = 0, records: int = 0) -> int:
    place.mkdir(parents=True, exist_ok=True)
    base = {"sessionId": name, "cwd": "/work/pump", "version": "2.1.197", "isSidechain": False, "gitBranch": "main"}
    written, number = 0, 0
    with (place / f"{name}.jsonl").open("w") as file:
        while written < size or number < records:
            line = {**base, "uuid": f"{name}-{number}", "parentUuid": f"{name}-{number - 1}" if number else None,
                    "timestamp": f"2026-03-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
                    **_record(number)}  # fmt: skip
            written += file.write(json.dumps(line) + "\n")
            number += 1
    return written


def _record(number: int) -> dict[str, object]:
    step, turn = number % 3, number // 3
    if step == 0:
        if number == 0:
            return {"type": "user", "message": {"role": "user", "content": _text(30)}}
        return _answer(turn, {"type": "text", "text": _text(30)})
    if step == 1:
        call = {"type": "tool_use", "id": f"call-{turn}", "name": "Bash", "input": {"command": f"grep {_text(3)}"}}
        return _answer(turn, call)
    output = _text(random.choice((20, 100, 400)))
    result = {"type": "tool_result", "tool_use_id": f"call-{turn}", "content": output}
    shown = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    return {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": shown}


def _answer(turn: int, block: Mapping[str, object]) -> dict[str, object]:
    usage = {"input_tokens": 10, "output_tokens": 50, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 9}
    message = {"id": f"m{turn}", "model": "claude-opus-4-5", "role": "assistant", "content": [block], "usage": usage}
    return {"type": "assistant", "requestId": f"r{turn}", "message": message}


def _text(words: int) -> str:
    return " ".join(f"w{random.randrange(_WORDS)}" for _ in range(words))
