"""A small writer, to be killed or refused at each of its system calls.

    python -m tests.campaign.writer HOME [--early]

Opens the store, appends numbered messages alone, together and in bulk, and says of each, after the fact, `ack ID
NUMBER` or `refused NUMBER MESSAGE`; of a store that it cannot have, `failed MESSAGE`. The database is made to
checkpoint often, so that checkpoints are among its calls. `--early` acknowledges before it appends: the control.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from core.errors import HandloomError
from core.events import EventSource, MessageAction
from core.store.event_store import EventStore
from core.store.writer import Draft, Lease

BATCHES: Sequence[Sequence[int]] = ((1,), (1,), (3,), (1, 2, 1), (1,), (20,), (1,), (2, 2), (1,), (1,))
"""Appends in order: those of one row concurrently, each with a number of events."""
BIG = 30_000
"""Characters of every seventh message, so that one commit has many pages."""
CHECKPOINT_PAGES = 8


def text(number: int) -> str:
    return f"{number} " + "x" * (BIG if number % 7 == 0 else 10)


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def write(store: EventStore, lease: Lease, early: bool) -> None:
    number = 0
    for row in BATCHES:
        appends = []
        for size in row:
            appends.append(append(store, lease, range(number, number + size), early))
            number += size
        await asyncio.gather(*appends)


async def append(store: EventStore, lease: Lease, numbers: range, early: bool) -> None:
    if early:
        for place, number in enumerate(numbers):
            say(f"ack {lease.next_id + place} {number}")
    drafts = [Draft(MessageAction(content=text(number)), EventSource.USER) for number in numbers]
    try:
        envelopes = await store.append(lease, drafts)
    except HandloomError as error:
        for number in numbers:
            say(f"refused {number} {error}")
        return
    for number, envelope in zip(numbers, envelopes, strict=True):
        say(f"ack {envelope.id} {number}")


async def main(home: Path, early: bool) -> None:
    try:
        async with EventStore(home) as store:
            await store._writer.connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            lease = await store.create_conversation("c", title="t", workspace="/", model="m")
            await write(store, lease, early)
    except HandloomError as error:
        say(f"failed {error}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), "--early" in sys.argv))
