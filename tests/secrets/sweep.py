"""The canary sweep: Handloom is used in every way with a secret in every place, and then everything is searched.

What is searched: each byte below the home, the user's folder, the workspace and the folder of temporary files, rows of
the database unpacked; what commands printed, terminals, editors and browsers were sent; what models' providers, MCP
servers and hooks were told. What may have a secret: the vault's file, the files that the user put it in, and the header
for the provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from core.store.database import sqlite3
from tests.program import Handloom
from tests.secrets import scenarios, screens
from tests.secrets.canaries import Search
from tests.secrets.user import User

Scenario = Callable[[User], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    "commands": scenarios.commands,
    "tools": scenarios.tools,
    "exports": scenarios.exports,
    "lists": scenarios.lists,
    "pages": scenarios.pages,
    "editor": scenarios.editor,
    "screen": screens.workspace,
    "replay": screens.replay,
    "crash": screens.crash,
    "served": screens.served,
}
"""In this order, because later scenarios need what earlier ones made: a conversation, then its export."""
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
"""Tables with text; the others are indexes, which are searched with the bytes of the file."""


def nothing(handloom: Handloom) -> None:
    """The secrets planted by default."""


async def sweep(
    folder: Path,
    names: Sequence[str] = tuple(SCENARIOS),
    *,
    is_full: bool = False,
    seed: int = 0,
    plant: Callable[[Handloom], None] = nothing,
) -> Search:
    """Use Handloom with all canaries, and search. `plant` may leave one where it does not belong, before the search.

    A `seed` but 0 has the commands in another order; `is_full` has every format of export, redacted, too.
    """
    async with User(folder, is_full=is_full, seed=seed) as user:
        for name in names:
            await SCENARIOS[name](user)
        user.look_at_requests()
        plant(user.handloom)
        await asyncio.to_thread(_search, user)
    return user.search


def _search(user: User) -> None:
    user.search.look_in(user.folder, user.slots())
    for path in user.handloom.home.glob("*.db"):
        for where, data in _rows(path):
            user.search.look(f"{path.name}: {where}", data)
    shared = Path("/dev/shm")
    for path in shared.glob("handloom-lent-*") if shared.exists() else ():
        user.search.hits.add((str(path), "a pipe that is left", ""))


def _rows(path: Path) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute(TABLES)]
        for name in names:
            for row in connection.execute(f'SELECT * FROM "{name}"'):  # names in Handloom's database
                for value in row:
                    if isinstance(value, str | bytes):
                        yield name, value.encode() if isinstance(value, str) else value
