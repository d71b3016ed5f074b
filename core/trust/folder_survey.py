"""The survey of a folder: the texts of all files that would instruct an agent or run something.

The files are untrusted: their number, size and reading time are limited, and they are neither parsed nor executed here.
A piece is identified by its path and the hash of its text. Calls block, but never wait for a file.

Follows the sources of OpenHands V0 (`openhands/microagent`, `openhands/runtime/base.py`), the common `AGENTS.md`, and
the files and folders of other agents that have the same form.
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

AGENTS_FILES = ("AGENTS.md", "agents.md", "AGENT.md", "agent.md", "CLAUDE.md", "GEMINI.md")
"""Only the first that exists is used: the others usually repeat it."""
RULES_FILES = (
    ".openhands_instructions",
    ".cursorrules",
    ".github/copilot-instructions.md",
    ".handloom/instructions.md",
)
MICROAGENTS = (".openhands/microagents", ".handloom/microagents")
SKILLS = (".handloom/skills", ".agents/skills", ".claude/skills", ".openhands/skills")
SKILL_FILE = "SKILL.md"
COMMANDS = (".handloom/commands", ".claude/commands")
AGENTS = ".handloom/agents"
HOOKS = ".handloom/hooks.toml"
MCP = ".mcp.json"

MAX_BYTES = 64 * 1024
"""Limit for one file: users cannot review a longer one."""
MAX_MCP_BYTES = 256 * 1024
MAX_FILES = 200
"""Limit for one kind."""
MAX_TOTAL_BYTES = 2 * 1024 * 1024
MAX_S = 2.0
"""A folder on a slow disk or network must not delay a message any longer."""
MAX_DEPTH = 3
"""Levels of subfolders that are searched for microagents."""
MAX_ALONG = 32
"""Limit for the folders between the project's root and the working folder."""


Clock = Callable[[], float]


class Kind(StrEnum):
    """The purpose of a piece."""

    INSTRUCTIONS = "instructions"
    MICROAGENT = "microagent"
    SKILL = "skill"
    COMMAND = "command"
    AGENT = "agent"
    HOOKS = "hooks"
    MCP = "MCP servers"


@dataclass(frozen=True, slots=True)
class Piece:
    """One file with its text, which is untrusted if it comes from a project."""

    kind: Kind
    path: str
    """Relative to the folder, with slashes."""
    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Survey:
    """The pieces of a folder in order of precedence, and a line for each problem."""

    folder: str
    """The resolved path, which identifies the folder."""
    pieces: tuple[Piece, ...] = ()
    problems: tuple[str, ...] = ()

    def of(self, *kinds: Kind) -> list[Piece]:
        """The pieces of these kinds."""
        return [piece for piece in self.pieces if piece.kind in kinds]


def survey_project(folder: str | Path, along: Iterable[str] = (), clock: Clock = time.monotonic) -> Survey:
    """Survey a project. `along` are subfolders, from the top, whose AGENTS.md is included. Never raises."""
    resolved = os.path.realpath(folder)
    try:
        with FolderReader(resolved) as reader:
            collector = _Collector(reader, clock)
            for name in RULES_FILES:
                collector.take(Kind.INSTRUCTIONS, name)
            for place in ("", *list(along)[:MAX_ALONG]):
                collector.first(Kind.INSTRUCTIONS, [f"{place}/{name}" if place else name for name in AGENTS_FILES])
            for place in MICROAGENTS:
                collector.microagents(place)
            for place in SKILLS:
                collector.skills(place)
            for place in COMMANDS:
                collector.folder(Kind.COMMAND, place)
            collector.folder(Kind.AGENT, AGENTS)
            collector.take(Kind.HOOKS, HOOKS)
            collector.take(Kind.MCP, MCP, MAX_MCP_BYTES)
    except OSError as error:
        return Survey(resolved, (), (f"{folder}: {(error.strerror or str(error)).lower()}",))
    return Survey(resolved, tuple(collector.pieces), tuple(collector.problems))


def survey_home(home: Path, clock: Clock = time.monotonic) -> Survey:
    """Survey Handloom's home folder, which has the layout of a project's `.handloom`. Never raises."""
    return _survey_own(home, clock, agents_file=True)


def survey_openhands(folder: Path, clock: Clock = time.monotonic) -> Survey:
    """Survey `~/.openhands`. Never raises."""
    return _survey_own(folder, clock, agents_file=False)


def _survey_own(folder: Path, clock: Clock, *, agents_file: bool) -> Survey:
    try:
        with FolderReader(folder, links=True) as reader:
            collector = _Collector(reader, clock)
            if agents_file:
                collector.first(Kind.INSTRUCTIONS, AGENTS_FILES)
                collector.take(Kind.HOOKS, "hooks.toml")
            collector.microagents("microagents")
            collector.skills("skills")
    except FileNotFoundError:
        return Survey(str(folder))
    except OSError as error:
        return Survey(str(folder), (), (f"{folder}: {(error.strerror or str(error)).lower()}",))
    return Survey(str(folder), tuple(collector.pieces), tuple(collector.problems))


class _Collector:
    """Collects the pieces of one survey within the limits."""

    def __init__(self, reader: FolderReader, clock: Clock) -> None:
        self.pieces: list[Piece] = []
        self.problems: list[str] = []
        self._reader = reader
        self._clock = clock
        self._until = clock() + MAX_S
        self._left_bytes = MAX_TOTAL_BYTES
        self._is_told = False

    def take(self, kind: Kind, path: str, max_bytes: int = MAX_BYTES) -> bool:
        """Add a file, or a problem if it cannot be read. Returns whether the file exists."""
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
        """Add the first of these files that exists."""
        for path in paths:
            if self.take(kind, path):
                return

    def microagents(self, place: str) -> None:
        """Add the Markdown files of a folder and its subfolders, except READMEs."""
        self._many(Kind.MICROAGENT, place, list(self._markdown(place, MAX_DEPTH)))

    def folder(self, kind: Kind, place: str) -> None:
        """Add the Markdown files of a folder."""
        self._many(kind, place, list(self._markdown(place, 0)))

    def skills(self, place: str) -> None:
        """Add the SKILL.md of each subfolder."""
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
