"""A process that owns a conversation and writes to it on request: `python -m tests.writing HOME`.

It reads requests, one JSON object a line, and answers each with a line when it is durable. `writer` starts one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from core.events import EventSource, MessageAction
from core.store.database import sqlite3
from core.store.event_store import EventStore
from core.store.writer import Draft
from tests.program import ROOT

ID = "c"
"""The conversation's."""


async def _write(home: Path) -> None:
    async with EventStore(home) as store:
        lease = await store.create_conversation(ID, title="As it was", workspace="/w", model="m")
        number = 0
        while line := await asyncio.to_thread(sys.stdin.readline):
            wish = json.loads(line)
            for _commit in range(wish.get("commits", 0)):
                texts = [f"event {number + n}" for n in range(wish.get("each", 1))]
                number += len(texts)
                await store.append(lease, [Draft(MessageAction(content=text), EventSource.USER) for text in texts])
            if "title" in wish:
                await store.update_conversation(lease, title=wish["title"])
            if wish.get("truncate"):
                with closing(sqlite3.connect(store.path)) as connection:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if wish.get("release"):
                await store.release(lease)
            if wish.get("delete"):
                await store.release(lease)
                await store.delete_conversation(ID)
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


class Writer:
    """The process, from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.written = 0
        """Events that it has said are durable."""

    async def do(self, **wish: Any) -> None:
        """Have it done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(wish).encode() + b"\n")
        self.written = int(await self.process.stdout.readline())


@asynccontextmanager
async def writer(home: Path) -> AsyncIterator[Writer]:
    """The process, which has made the conversation `ID`; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.writing", str(home), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        made = Writer(process)
        await made.do()
        yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1])))
