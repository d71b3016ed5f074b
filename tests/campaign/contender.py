"""One of several processes that contend for the same conversation.

    python -m tests.campaign.contender HOME SEED

Prints `ready`, tries to own the conversation, prints `own TOKEN`, appends, and prints `ack TOKEN ID` for each stored
event. Sometimes it releases the conversation, prints `free TOKEN` and tries again; otherwise it continues until it is
killed. It prints `broken MESSAGE` if an invariant does not hold.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from core.errors import HandloomError, StoreBusyError
from core.events import EventSource, MessageAction
from core.store.event_store import EventStore
from core.store.writer import Draft, Lease

CONVERSATION = "c"
PAUSE_S = 0.02
"""At most, between two tries and between two appends."""


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def contend(store: EventStore, chance: random.Random) -> None:
    while True:
        try:
            lease = await store.acquire(CONVERSATION)
        except StoreBusyError:
            await asyncio.sleep(chance.uniform(0.001, PAUSE_S))  # no process is notified when a lease becomes free
            continue
        say(f"own {lease.token}")
        while chance.random() > 0.02:
            await append(store, lease, chance)
        await store.release(lease)
        say(f"free {lease.token}")


async def append(store: EventStore, lease: Lease, chance: random.Random) -> None:
    """One to three events, and sometimes two appends at once."""
    drafts = [Draft(MessageAction(content=str(os.getpid())), EventSource.USER)] * chance.randint(1, 3)
    for envelopes in await asyncio.gather(*[store.append(lease, drafts) for _ in range(chance.randint(1, 2))]):
        for envelope in envelopes:
            say(f"ack {lease.token} {envelope.id}")
    if chance.random() < 0.5:
        await asyncio.sleep(chance.uniform(0, PAUSE_S))


async def main(home: Path, seed: int) -> None:
    try:
        async with EventStore(home) as store:
            say("ready")
            await contend(store, random.Random(seed))
    except HandloomError as error:
        say(f"broken {type(error).__name__}: {error}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
