"""Repair of damaged databases: in events, in the index, in the header, truncated, emptied, or without database or log.

Each is repaired like `handloom doctor --repair --yes`; in some trials the repairing process is killed (-9) at a step of
the repair, and another one continues. Afterwards the damaged files are unchanged, the database is intact, every event
exists or is reported as lost, no more events are lost than the damage explains, and the conversations can continue.

    python -m tests.campaign.mending HOME [STEP]     (repairs, and is killed at that step)
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, reduce
from pathlib import Path

from core.controller.decide import evolve
from core.controller.state import State
from core.errors import StoreVersionError
from core.events import CmdRunAction, Envelope, EventSource, MessageAction, NullObservation, TerminalOutput
from core.memory.conversation_memory import build_messages
from core.store.database import DATABASE
from core.store.event_store import EventStore
from core.store.page_recovery import LOST, Pages, RecoveryResult
from core.store.recordings import RecordedFrame, pack_frames
from core.store.repair import FOLDER, find_damage, repair
from core.store.writer import Draft
from tests.campaign.trial import Facts, Result, check, run_trials
from tests.program import ROOT

PROMISE = "what can be read is saved, what is lost is told, what was damaged is kept, and the work goes on"
FULL, SHORT = 1000, 12
PAGE_BYTES = 4096
CONVERSATIONS, EVENTS = 3, 45
KILLED = 0.08
"""How often the repair is killed; each trial starts two or three processes."""
STEPS = 40
"""More than a mending has."""
Log = dict[str, list[Envelope]]


def run(trials: int, seed: int) -> Result:
    """So many damaged homes."""
    with tempfile.TemporaryDirectory(prefix="handloom-mending-") as folder:
        make(Path(folder))
        cases = [(number, folder) for number in range(seed, seed + trials)]
        return run_trials("mending", PROMISE, trial, cases, seed=seed)


# -- a home --------------------------------------------------------------------------------------------------------


def make(folder: Path) -> None:
    """A home that was closed, and one whose process was killed, with all of the newest in its log."""
    asyncio.run(_write(folder / "closed", folder / "crashed"))


@lru_cache(1)
def log_of(folder: Path) -> Log:
    """Damage in both files."""
    with tempfile.TemporaryDirectory(prefix="handloom-campaign-") as name:
        shutil.copytree(folder / "closed", Path(name) / "home")
        return read(Path(name) / "home")


async def _write(home: Path, crashed: Path) -> None:
    chance = random.Random(5)
    async with EventStore(home) as store:
        for number in range(CONVERSATIONS):
            id = f"{number + 1:032x}"
            lease = await store.create_conversation(id, title=f"title {number}", workspace="/w", model="m")
            for place in range(EVENTS):
                await store.append(lease, [_draft(place, chance)])
                if place == EVENTS * 3 // 4:  # the rest stays in the log alone
                    await store.index()
                    await store._writer.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    await store._writer.connection.execute("PRAGMA wal_autocheckpoint = 0")
            frame = RecordedFrame(3, datetime(2026, 1, 1, tzinfo=UTC), _printed(chance))
            await store.record(lease, pack_frames([frame]))
        crashed.mkdir()
        for name in (DATABASE, f"{DATABASE}-wal"):
            shutil.copyfile(home / name, crashed / name)


def _draft(place: int, chance: random.Random) -> Draft:
    words = " ".join(chance.choices(("red", "build", "echo", "queue", "late"), k=chance.choice((3, 60, 900))))
    if place % 3 == 1:
        return Draft(CmdRunAction(command=f"echo {place} {words}"), EventSource.AGENT)
    text = words if place % 5 else chance.randbytes(9000).hex()
    return Draft(MessageAction(content=f"word{place} {text}"), EventSource.USER if place else EventSource.AGENT)


def _printed(chance: random.Random) -> TerminalOutput:
    return TerminalOutput(3, chance.randbytes(6000))


# -- damage --------------------------------------------------------------------------------------------------------

Damage = Callable[[Path, random.Random], int]
"""Damages a home; how many pages it has damaged at most, or -1 where it may be any number."""


def _flip(file: Path, chance: random.Random, begin: int, end: int) -> int:
    data, count = bytearray(file.read_bytes()), chance.choice((1, 3, 20))
    for _ in range(count):
        data[chance.randrange(begin, min(end, len(data)))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)
    return count


def flip_bits(home: Path, chance: random.Random) -> int:
    """Anywhere in the database."""
    return _flip(home / DATABASE, chance, 0, 2**40)


def flip_bits_of_head(home: Path, chance: random.Random) -> int:
    """Damage in the header and the list of tables."""
    _flip(home / DATABASE, chance, 0, 2000)
    return 1


def flip_bits_of_log(home: Path, chance: random.Random) -> int:
    """Damage in the write-ahead log: its frame is either missing or as in the database file."""
    wal = home / f"{DATABASE}-wal"
    if not wal.exists():
        return flip_bits(home, chance)
    _flip(wal, chance, 0, 2**40)
    return -1


def overwrite_pages(home: Path, chance: random.Random) -> int:
    """Whole pages with noise, zeros, or another page."""
    data = bytearray((home / DATABASE).read_bytes())
    count, pages = chance.choice((1, 4)), len(data) // PAGE_BYTES
    for _ in range(count):
        place = chance.randrange(pages) * PAGE_BYTES
        other = chance.randrange(pages) * PAGE_BYTES
        by = (chance.randbytes(PAGE_BYTES), bytes(PAGE_BYTES), bytes(data[other : other + PAGE_BYTES]))
        data[place : place + PAGE_BYTES] = chance.choice(by)
    (home / DATABASE).write_bytes(data)
    return count


def cut_off(home: Path, chance: random.Random) -> int:
    """At a page, or within one."""
    file = home / DATABASE
    pages = file.stat().st_size // PAGE_BYTES
    os.truncate(file, chance.randrange(pages) * PAGE_BYTES + chance.choice((0, 0, 0, 1, 1000)))
    return -1


def empty(home: Path, chance: random.Random) -> int:
    """Of no length, gone, or something else altogether; the log may still be there."""
    file = home / DATABASE
    match chance.randrange(4):
        case 0:
            os.truncate(file, 0)
        case 1:
            file.unlink()
        case 2:
            file.write_bytes(b"this is something else " * 1000)
        case _:
            file.unlink()
            file.mkdir()
    return -1


DAMAGES: tuple[Damage, ...] = (
    flip_bits, flip_bits, flip_bits_of_head, flip_bits_of_log, overwrite_pages, cut_off, cut_off, empty,
)  # fmt: skip


# -- a trial -------------------------------------------------------------------------------------------------------


def trial(case: tuple[int, str]) -> Facts:
    """One damage and its repair."""
    seed, folder = case
    chance, facts, log = random.Random(seed), Facts(), log_of(Path(folder))
    damage = chance.choice(DAMAGES)
    with tempfile.TemporaryDirectory(prefix="handloom-campaign-") as name:
        home = Path(name) / "home"
        shutil.copytree(Path(folder) / chance.choice(("closed", "crashed")), home)
        on_a_page = most_on_a_page(home)
        pages = damage(home, chance)
        facts.counts[damage.__name__.replace("_", " ")] += 1
        before = files_of(home)
        try:
            damages = find_damage(home / DATABASE)
        except StoreVersionError:
            facts.counts["taken for one of a newer Handloom, and left"] += 1
            check(files_of(home) == before, "looking has changed a file")
            return facts
        check(files_of(home) == before, "looking has changed a file")
        if not damages:
            facts.counts["damage that nobody can tell"] += 1
            check_log(read(home), log, RecoveryResult(), CONVERSATIONS * EVENTS if pages < 0 else pages, facts)
            return facts
        if chance.random() < KILLED:
            facts.counts["kills of the mending"] += 1
            saved = killed(home, chance)
        else:
            saved = repair(home, damages, datetime.now(UTC)).recovered
        check(not (home / FOLDER).exists(), "the folder of the mending is left")
        check(find_damage(home / DATABASE) == [], f"it is not whole: {find_damage(home / DATABASE)}")
        if saved is not None:
            check_kept(home, before)
            facts.counts["events saved"] += saved.events
            facts.counts["events lost"] += sum(each.last - each.first + 1 for each in saved.lost)
        found = read(home)
        most = CONVERSATIONS * EVENTS if pages < 0 else pages * on_a_page
        check_log(found, log, saved or RecoveryResult(), most, facts)
        asyncio.run(check_goes_on(home, found))
    return facts


def killed(home: Path, chance: random.Random) -> RecoveryResult | None:
    """Repair in processes that are killed, then to the end. Returns the result of the last repair, if it was needed."""
    for _ in range(chance.choice((1, 2))):
        command = [sys.executable, "-m", "tests.campaign.mending", str(home), str(chance.randrange(1, STEPS))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        check(done.returncode in (0, -signal.SIGKILL), done.stderr.decode())
    damages = find_damage(home / DATABASE)
    return repair(home, damages, datetime.now(UTC)).recovered if damages else None


def files_of(home: Path) -> dict[str, bytes]:
    """The database and its log, without SQLite's shared-memory index."""
    return {name: (home / name).read_bytes() for name in (DATABASE, f"{DATABASE}-wal") if (home / name).is_file()}


def check_kept(home: Path, before: dict[str, bytes]) -> None:
    """The damaged files were saved unchanged."""
    kept = {file.read_bytes() for file in home.glob(f"{DATABASE}.damaged-*") if file.is_file()}
    for name, data in before.items():
        check(data in kept, f"{name} is not kept as it was")


def most_on_a_page(home: Path) -> int:
    """How many rows of events lie in one page, at most."""
    with Pages(home / DATABASE) as pages:
        return max(sum(len(cell.record) == 8 for cell in pages.cells_of(n)) for n in range(1, pages.count + 1))


def read(home: Path) -> Log:
    """All that a reader finds, with the index brought up to date and asked."""
    return asyncio.run(_read(home))


async def _read(home: Path) -> Log:
    async with EventStore(home) as store:
        await store.index()
        found = {info.id: list(await store.read(info.id)) for info in await store.conversations()}
        for id, events in found.items():
            check([envelope.id for envelope in events] == list(range(len(events))), f"ids of {id} have gaps")
            for envelope in events[1:40:13]:
                if isinstance(envelope.event, MessageAction):
                    hits = await store.search(envelope.event.content.split()[0], conversation_id=id)
                    check(envelope.id in {hit.event_id for hit in hits}, f"event {envelope.id} of {id} is not found")
    return found


def check_log(found: Log, log: Log, saved: RecoveryResult, most: int, facts: Facts) -> None:
    """Every event is unchanged or reported as lost. A changed letter in a short text cannot be detected."""
    lost = {(each.conversation_id, id) for each in saved.lost for id in range(each.first, each.last + 1)}
    gone = changed = 0
    for id, events in log.items():
        there = found.get(id, [])
        for envelope in events:
            now = there[envelope.id] if envelope.id < len(there) else None
            if now == envelope:
                check((id, envelope.id) not in lost, f"event {envelope.id} of {id} is there, and said to be lost")
            elif now is None or (id, envelope.id) in lost or is_mark(now):
                gone += 1
            else:
                changed += 1
    facts.counts["letters changed, which nobody can tell"] += changed
    check(gone + changed <= most, f"{gone} events are gone and {changed} changed; the damage explains {most}")


def is_mark(envelope: Envelope) -> bool:
    """Whether the event replaces a lost one."""
    return isinstance(envelope.event, NullObservation) or getattr(envelope.event, "error_id", "") == LOST


async def check_goes_on(home: Path, found: Log) -> None:
    """Each conversation is folded, shown to a model, and goes on."""
    async with EventStore(home) as store:
        for id, events in found.items():
            reduce(evolve, events, State())
            build_messages(events)
            lease = await store.acquire(id)
            check(lease.next_id == len(events), f"{id} goes on with {lease.next_id} and has {len(events)}")
            (new,) = await store.append(lease, [Draft(MessageAction(content="go on"), EventSource.USER)])
            check((await store.read(id, limit=1, newest=True))[0] == new, f"{id} does not go on")


# -- the process that is killed ------------------------------------------------------------------------------------

_STEPS = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "open", "sqlite3.connect"})


def _die_at(step: int, home: Path) -> None:
    """kill -9 of this process at its so manieth step that touches the home."""
    left = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in _STEPS and str(home) in str(arguments[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    wrong = find_damage(place / DATABASE)
    _die_at(int(sys.argv[2]), place)
    if wrong:
        repair(place, wrong, datetime.now(UTC))
