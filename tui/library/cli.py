"""The sessions of other agents in `handloom list`, `search`, `show`, `replay` and `export`.

Naming them with `--all-agents` or `--from` is the consent to read them. Without either, they are included once the user
has agreed to that in the workspace.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from difflib import get_close_matches
from pathlib import Path

from core.errors import StoreBusyError, UsageError
from core.import_export.agents.names import AGENTS
from core.library.all_sessions import AllSessions
from core.library.library import Library, chosen_sources
from core.library.reader_process import ReaderProcess
from core.library.records import library_home, record_of
from core.secrets import Redactor, from_environment
from core.settings.config import load
from core.store.reader import EventReader
from tui.cli.output import notice
from tui.i18n import _

OURS = "handloom"
"""Means our own conversations, in `--from`."""
_TOLD_EVERY = 200
"""Sessions between two lines about the progress."""


def wanted_sources(options: argparse.Namespace, home: Path) -> list[str] | None:
    """The names of the agents whose sessions are wanted, perhaps with OURS; None for our own conversations alone.

    Raises UsageError for an unknown name.
    """
    settings = load(home, os.environ).library
    allowed = [name for name in AGENTS if name not in settings.off]
    if options.agents_named is not None:
        names = [name.strip() for name in options.agents_named.split(",") if name.strip()]
        if unknown := [name for name in names if name not in AGENTS and name != OURS]:
            near = get_close_matches(unknown[0].lower(), AGENTS, n=1, cutoff=0.5)
            meant = f" Did you mean {near[0]}?" if near else ""
            names_of_all = ", ".join((OURS, *AGENTS))
            raise UsageError(f"There is no agent {unknown[0]!a} here.{meant} Choose from: {names_of_all}.")
        return None if names == [OURS] else names
    if options.all_agents:
        return [OURS, *AGENTS]
    return [OURS, *allowed] if settings.other_agents == "show" and allowed else None


@asynccontextmanager
async def all_sessions(
    home: Path, options: argparse.Namespace, *, reads: bool = False
) -> AsyncIterator[AllSessions | None]:
    """Our conversations and the sessions that the options want, as they are now; None if they want ours alone.

    `reads` says that every session is read before, which a search needs.
    """
    names = wanted_sources(options, home)
    if names is None:
        yield None
        return
    await _update(home, [name for name in names if name != OURS], reads=reads)
    async with AsyncExitStack() as stack:
        homes = [*([home] if OURS in names else []), library_home(home)]
        readers = [await stack.enter_async_context(EventReader(each)) for each in homes]
        origins = [None, frozenset(names)] if OURS in names else [frozenset(names)]
        yield AllSessions(readers, origins=origins)


async def home_of(home: Path, options: argparse.Namespace, text: str) -> tuple[Path, str]:
    """The home and the id of the conversation or session that `text` means; a session is read as it is now.

    Raises UsageError for an unknown one, and for a session that cannot be read.
    """
    async with all_sessions(home, options) as found:
        if found is None:
            async with EventReader(home) as reader:
                return home, await reader.listing.resolve(text)
        id = await found.listing.resolve(text)
        where = await found.home_of(id)
    if where != home:
        await _read(home, id)
    return where, id


async def _read(home: Path, id: str) -> None:
    record = await asyncio.to_thread(record_of, home, id)
    if record is None:
        return  # a branch, which was read with its session
    if wrong := await ReaderProcess(home, list(AGENTS), _keeps(home)).read(id):
        title = AGENTS[record.session.agent].title
        raise UsageError(f"This session of {title} cannot be read: {wrong}.")


async def _update(home: Path, names: Sequence[str], *, reads: bool) -> None:
    redactor = Redactor(from_environment(os.environ))
    try:
        async with Library(home, redactor=redactor, sources=chosen_sources(names), keeps=_keeps(home)) as library:
            pending = (await library.find()).pending
        if reads and pending:
            notice(_("Reading {n} sessions of other agents…").format(n=f"{pending:,}"))
            async with aclosing(ReaderProcess(home, names, _keeps(home)).update()) as steps:
                async for progress in steps:
                    if progress.pending <= pending - _TOLD_EVERY:
                        pending = progress.pending
                        notice(_("{n} left").format(n=f"{pending:,}"))
    except StoreBusyError:
        notice(_("Another Handloom is reading sessions of other agents; some may be missing."))


def _keeps(home: Path) -> bool:
    return load(home, os.environ).library.keep
