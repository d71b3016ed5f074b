"""A local copy of the instructions of a project whose folder is on another machine.

The copy is in Handloom's home, under the other machine's name and folder, so the same code with the same limits decides
what of it is used and trusted. Invariant: it contains only instructions, microagents, skills and slash commands. Hooks,
MCP servers and agents of a project are for the user of its own machine, and are never copied from a sandbox.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from core.errors import UsageError
from core.trust.folder_survey import (
    AGENTS_FILES,
    COMMANDS,
    MAX_ALONG,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    MICROAGENTS,
    RULES_FILES,
    SKILL_FILE,
    SKILLS,
)

ELSEWHERE = "elsewhere"
"""The folder in the home."""
MAX_S = 10.0
"""Time limit for the whole update over a network; after it the previous copy is used."""
AT_ONCE = 8
MAX_PARTS = 40


class Files(Protocol):
    """Files of another machine; a runtime has them. See core.protocols.Runtime."""

    async def list_folder(self, path: str) -> list[str]:
        """Raises RuntimeUnavailableError."""
        ...

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """Raises UsageError, RuntimeUnavailableError."""
        ...


def mirror_folder(home: Path, machine: str, top: str) -> Path:
    """Return the mirror's folder in the home for a folder of another machine, whatever its name is."""
    parts = [part for part in re.split(r"[/\0]+", top) if part not in ("", ".", "..")][:MAX_PARTS]
    names = [re.sub(r"^\.+|[^\w.\-+ ]", "_", part)[:80] for part in (machine, *parts)]
    return home.absolute().joinpath(ELSEWHERE, *names)


async def refresh(files: Files, top: str, along: Sequence[str], folder: Path) -> list[str]:
    """Update the mirror from the project, and return errors, one line each.

    Raises RuntimeUnavailableError or TimeoutError, which leave the mirror unchanged, and OSError.
    """
    async with asyncio.timeout(MAX_S):
        fetch = _Fetch(files, top)
        await fetch.all(along)
    await asyncio.to_thread(_write, folder, fetch.found)
    return fetch.problems


class _Fetch:
    """One pass through a remote project. Only folders that appear in listings are listed."""

    def __init__(self, files: Files, top: str) -> None:
        self.found: dict[str, bytes] = {}
        self.problems: list[str] = []
        self._files = files
        self._top = top
        self._places = asyncio.Semaphore(AT_ONCE)
        self._left_bytes = MAX_TOTAL_BYTES
        self._listed: dict[str, list[str]] = {}

    async def all(self, along: Sequence[str]) -> None:
        """Fetch the files that are used, in the order of the survey."""
        wanted: list[str] = []
        for path in RULES_FILES:
            if posixpath.basename(path) in await self._names(posixpath.dirname(path)):
                wanted.append(path)
        for place in ("", *along[:MAX_ALONG]):
            names = await self._names(place)
            wanted += [posixpath.join(place, name) for name in AGENTS_FILES if name in names][:1]
        for place in MICROAGENTS:
            wanted += (await self._markdown(place, MAX_DEPTH))[: MAX_FILES + 1]
        for place in SKILLS:
            folders = [name.removesuffix("/") for name in await self._names(place) if name.endswith("/")]
            wanted += [f"{place}/{name}/{SKILL_FILE}" for name in folders if not name.startswith(".")][: MAX_FILES + 1]
        for place in COMMANDS:
            wanted += (await self._markdown(place, 0))[: MAX_FILES + 1]
        await asyncio.gather(*(self._take(path) for path in dict.fromkeys(wanted)))

    async def _names(self, place: str) -> list[str]:
        """Return the names in a folder of the project if its parents list it."""
        if place not in self._listed:
            above, name = posixpath.split(place)
            is_there = not place or f"{name}/" in await self._names(above)
            path = posixpath.join(self._top, place)
            self._listed[place] = sorted(await self._files.list_folder(path)) if is_there else []
        return self._listed[place]

    async def _markdown(self, place: str, depth: int) -> list[str]:
        found: list[str] = []
        for name in await self._names(place):
            if len(found) > MAX_FILES or name.startswith("."):
                continue
            if name.endswith("/") and depth:
                found += await self._markdown(f"{place}/{name[:-1]}", depth - 1)
            elif name.endswith(".md") and name.lower() != "readme.md":
                found.append(f"{place}/{name}")
        return found

    async def _take(self, path: str) -> None:
        async with self._places:
            if self._left_bytes <= 0:
                return
            try:
                data = await self._files.read_file(posixpath.join(self._top, path), MAX_BYTES)
            except UsageError as error:
                self.problems.append(f"{path}: {error}")
                return
        if data is not None:
            self._left_bytes -= len(data)
            self.found[path] = data


def _write(folder: Path, found: dict[str, bytes]) -> None:
    """Replace each file atomically, so that concurrent readers see the old or the new content. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in _below(folder):
        if path not in found:
            (folder / path).unlink(missing_ok=True)
    for path, data in found.items():
        file = folder / path
        if file.is_file() and file.read_bytes() == data:
            continue
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder.parent, delete=False) as new:
            new.write(data)
        os.replace(new.name, file)


def _below(folder: Path) -> Iterable[str]:
    for above, _folders, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(above, name), folder)
