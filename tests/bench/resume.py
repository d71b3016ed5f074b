"""A conversation of 100,000 events is opened again: how long that takes, and how it holds up the screen meanwhile.

At first without a snapshot, as after a crash; then as it was closed; then on the screen, from the list of conversations
to its last command, beside one of 100 events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from core.conversations.conversation_manager import ConversationManager
from core.events import CmdOutputObservation, CmdRunAction
from core.store.database import aiosqlite
from core.store.event_rows import unpack
from core.store.event_store import EventStore
from core.store.writer import Draft
from runtime.local.local_runtime import LocalRuntime
from tests.bench.conversation import FREE
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import AGENT, folder, milliseconds_since
from tests.bench.program import WORKSPACE, Program
from tests.bench.size import sized
from tests.bench.stalls import Beat, idle_beats
from tests.doubles import FINISH, write_script

EVENTS, FEW, EVENTS_AT_ONCE, ROUNDS = sized(100_000, 2_000), 100, 1_000, sized(3, 1)
OPEN_WITHIN_MS, MEMORY_MB = 600, 120
QUIET_S = 0.5
CTRL_S = "\x13"
MODEL_DRAWN = b"demo"
"""In the footer, once there is a conversation."""


def measure() -> list[Figure]:
    with folder() as place:
        return [*asyncio.run(_measure(place)), *_on_the_screen(place)]


async def _measure(place: Path) -> list[Figure]:
    folded, opened, bare = list[float](), list[float](), list[float]()
    beat, home = Beat(), place / "home"
    for name, events in (("few", FEW), ("many", EVENTS)):
        await _write(home, name, str(place), write_script(place, [FINISH]), events)
    for round in range(ROUNDS + 1):
        bare.append(await _bare(home))
        async with ConversationManager(home, FREE, make_runtime=LocalRuntime, environ={}) as manager:
            beat.start()
            started_at = perf_counter()
            session = await manager.open("many")
            (opened if round else folded).append(milliseconds_since(started_at))
            beat.stop()
            assert session.stream.latest_id == EVENTS - 1
    least = Limit("bare select, unpacked, json.loads", bare)
    idle = Limit("the same on an idle loop", await idle_beats())
    return [
        Figure(f"{EVENTS:,} events opened, as after a crash", "ms", folded, least),
        Figure(f"{EVENTS:,} events opened, as they were closed", "ms", opened, least, [Target(OPEN_WITHIN_MS)]),
        Figure("loop kept waiting meanwhile", "ms", beat.late, idle, [Target(50, "max")]),
    ]


def _on_the_screen(place: Path) -> list[Figure]:
    taken: dict[str, list[float]] = {"few": [], "many": []}
    memory = []
    environ, elsewhere = {"HANDLOOM_HOME": str(place / "home")}, place / "elsewhere"
    elsewhere.mkdir()  # in the folder of a conversation, the workspace would begin with that
    for _ in range(ROUNDS):
        for name, events in (("few", FEW), ("many", EVENTS)):
            with Program([*WORKSPACE, "--workspace", str(elsewhere), "--model", "demo"], environ) as workspace:
                workspace.drawn(MODEL_DRAWN)
                workspace.quiet(QUIET_S)
                workspace.write(CTRL_S)
                workspace.drawn(name.encode())
                workspace.write(name)
                workspace.quiet(QUIET_S)
                workspace.write("\r")
                workspace.started_at = perf_counter()
                taken[name].append(workspace.drawn(f"step-{events - 2}".encode()))
                workspace.quiet(QUIET_S)
                if events == EVENTS:
                    memory.append(workspace.memory_mb)
    few = Limit(f"one of {FEW} events", taken["few"])
    return [
        Figure(f"Enter to the last of {EVENTS:,} events drawn", "ms", taken["many"], few, [Target(OPEN_WITHIN_MS)]),
        Figure("the workspace with it, resident", "MiB", memory, None, [Target(MEMORY_MB, "max")]),
    ]


async def _write(home: Path, name: str, workspace: str, model: str, events: int) -> None:
    """Commands and their output, one after the other."""
    async with EventStore(home) as store:
        lease = await store.create_conversation(name, title=name, workspace=workspace, model=model)
        for first in range(0, events, EVENTS_AT_ONCE):
            await store.append(lease, list(_steps(first, min(events, first + EVENTS_AT_ONCE))))


def _steps(first: int, end: int) -> Iterator[Draft]:
    """Actions, each caused by the previous observation, and their observations."""
    for event_id in range(first, end, 2):
        command = f"make step-{event_id}"
        cause = event_id - 1 if event_id else None
        yield Draft(CmdRunAction(command=command, thought="Now the next one. " * 10), AGENT, cause)
        yield Draft(CmdOutputObservation(command=command, content="a line of output\n" * 30), AGENT, event_id)


async def _bare(home: Path) -> float:
    started_at = perf_counter()
    async with aiosqlite.connect(home / "handloom.db") as database:
        for row in await database.execute_fetchall("SELECT body FROM events"):
            json.loads(unpack(row[0]))
    return milliseconds_since(started_at)
