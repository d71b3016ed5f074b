"""The survey: all that a project brings which would direct an agent here, or run something, as texts.

What is found is foreign: it is bounded in number, size and time, and nothing of it is parsed here or does anything. A
piece is known by its path and the hash of its text. Blocks; the reader never waits for a file.

Follows the sources of OpenHands V0 (`openhands/microagent`, `openhands/runtime/base.py`), the common `AGENTS.md`, and
folders of skills as other agents have them.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from core.trust.folder_reader import FolderReader, Name, UnreadableError

AGENTS_FILES = ("AGENTS.md", "agents.md", "AGENT.md", "agent.md")
"""The first that is there counts."""
RULES_FILES = (".openhands_instructions", ".cursorrules", ".handloom/instructions.md")
MICROAGENTS = (".openhands/microagents", ".handloom/microagents")
SKILLS = (".handloom/skills", ".agents/skills", ".openhands/skills")
SKILL_FILE = "SKILL.md"
COMMANDS = ".handloom/commands"
AGENTS = ".handloom/agents"
HOOKS = ".handloom/hooks.toml"
MCP = ".mcp.json"

MAX_BYTES = 64 * 1024
"""Of one file: what nobody can read through is not said yes to."""
MAX_MCP_BYTES = 256 * 1024
MAX_FILES = 200
"""Of one kind."""
MAX_TOTAL_BYTES = 2 * 1024 * 1024
MAX_S = 2.0
"""A folder on a slow disk or network must not hold up a message for longer."""
MAX_DEPTH = 3
"""Folders below that of the microagents."""
MAX_ALONG = 32
"""Folders between the top and where the work is."""


Clock = Callable[[], float]


class Kind(StrEnum):
    """What a piece is for."""

    INSTRUCTIONS = "instructions"
    MICROAGENT = "microagent"
    SKILL = "skill"
    COMMAND = "command"
    AGENT = "agent"
    HOOKS = "hooks"
    MCP = "MCP servers"


@dataclass(frozen=True, slots=True)
class Piece:
    """One file. Foreign where it is a project's."""

    kind: Kind
    path: str
    """From the top of its folder, with slashes."""
    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        """Of the whole text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Survey:
    """What a folder holds, in the order in which it counts, and what is wrong with the rest, a line each."""

    folder: str
    """Resolved: what trust goes by."""
    pieces: tuple[Piece, ...] = ()
    problems: tuple[str, ...] = ()

    def of(self, *kinds: Kind) -> list[Piece]:
        """The pieces of these kinds."""
        return [piece for piece in self.pieces if piece.kind in kinds]


def survey_project(folder: str | Path, along: Iterable[str] = (), clock: Clock = time.monotonic) -> Survey:
    """What a project brings. `along` are folders in it, from its top, whose AGENTS.md counts as well. Never raises."""
    resolved = os.path.realpath(folder)
    try:
        with FolderReader(resolved) as reader:
            look = Look(reader, clock)
            for name in RULES_FILES:
                look.take(Kind.INSTRUCTIONS, name)
            for place in ("", *list(along)[:MAX_ALONG]):
                look.first(Kind.INSTRUCTIONS, [f"{place}/{name}" if place else name for name in AGENTS_FILES])
            for place in MICROAGENTS:
                look.microagents(place)
            for place in SKILLS:
                look.skills(place)
            look.folder(Kind.COMMAND, COMMANDS)
            look.folder(Kind.AGENT, AGENTS)
            look.take(Kind.HOOKS, HOOKS)
            look.take(Kind.MCP, MCP, MAX_MCP_BYTES)
    except OSError as error:
        return Survey(resolved, (), (f"{folder}: {(error.strerror or str(error)).lower()}",))
    return Survey(resolved, tuple(look.pieces), tuple(look.problems))


def survey_home(home: Path, clock: Clock = time.monotonic) -> Survey:
    """What the user keeps in Handloom's own home, as a project would in `.handloom`. Never raises."""
    return _survey_own(home, clock, agents_file=True)


def survey_openhands(folder: Path, clock: Clock = time.monotonic) -> Survey:
    """What the user keeps in `~/.openhands`. Never raises."""
    return _survey_own(folder, clock, agents_file=False)


def _survey_own(folder: Path, clock: Clock, *, agents_file: bool) -> Survey:
    try:
        with FolderReader(folder, links=True) as reader:
            look = Look(reader, clock)
            if agents_file:
                look.first(Kind.INSTRUCTIONS, AGENTS_FILES)
                look.take(Kind.HOOKS, "hooks.toml")
            look.microagents("microagents")
            look.skills("skills")
    except FileNotFoundError:
        return Survey(str(folder))
    except OSError as error:
        return Survey(str(folder), (), (f"{folder}: {(error.strerror or str(error)).lower()}",))
    return Survey(str(folder), tuple(look.pieces), tuple(look.problems))


class Look:
    """One look through a folder, with what it may still take. Lives for one survey."""

    def __init__(self, reader: FolderReader, clock: Clock) -> None:
        self.pieces: list[Piece] = []
        self.problems: list[str] = []
        self._reader = reader
        self._clock = clock
        self._until = clock() + MAX_S
        self._left_bytes = MAX_TOTAL_BYTES
        self._is_told = False

    def take(self, kind: Kind, path: str, max_bytes: int = MAX_BYTES) -> bool:
        """Take a file where it is there; what is wrong with it is a problem. Says whether there is one."""
        if self._is_over():
            return False
        try:
            data = self._reader.read(path, max_bytes)
            if data is None:
                return False
            self._left_bytes -= len(data)
            text = data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnreadableError as error:
            self.problems.append(f"{path}: {error}")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            self.problems.append(f"{path}:{line}: not UTF-8. Save it as UTF-8.")
        else:
            if text.strip():
                self.pieces.append(Piece(kind, path, text))
        return True

    def first(self, kind: Kind, paths: Iterable[str]) -> None:
        """Take the first of these files that is there."""
        for path in paths:
            if self.take(kind, path):
                return

    def microagents(self, place: str) -> None:
        """Take the Markdown files of a folder and of those below it; a README is for people."""
        self._many(Kind.MICROAGENT, place, list(self._markdown(place, MAX_DEPTH)))

    def folder(self, kind: Kind, place: str) -> None:
        """Take the Markdown files of a folder."""
        self._many(kind, place, list(self._markdown(place, 0)))

    def skills(self, place: str) -> None:
        """Take what describes each skill: a file in a folder of its own."""
        names = [name.name for name in self._names(place) if name.is_folder and not name.name.startswith(".")]
        self._many(Kind.SKILL, place, [f"{place}/{name}/{SKILL_FILE}" for name in names])

    def _many(self, kind: Kind, place: str, paths: list[str]) -> None:
        if len(paths) > MAX_FILES:
            self.problems.append(f"{place}: only the first {MAX_FILES} of {len(paths)} files are read")
        for path in paths[:MAX_FILES]:
            self.take(kind, path)

    def _markdown(self, place: str, depth: int) -> Iterable[str]:
        for name, is_folder in self._names(place):
            path = f"{place}/{name}"
            if name.startswith("."):
                continue
            if is_folder and depth:
                yield from self._markdown(path, depth - 1)
            elif not is_folder and name.endswith(".md") and name.lower() != "readme.md":
                yield path

    def _names(self, place: str) -> list[Name]:
        if self._is_over():
            return []
        try:
            return self._reader.names(place)
        except UnreadableError as error:
            self.problems.append(f"{place}: {error}")
            return []

    def _is_over(self) -> bool:
        over = self._left_bytes <= 0 or self._clock() > self._until
        if over and not self._is_told:
            self._is_told = True
            self.problems.append("there is more here than is read, so the rest is left out. Have fewer files.")
        return over
