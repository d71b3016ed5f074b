"""Files of a workspace that git's settings and hooks point at, found on the host without running git.

A hook that is a link into the workspace, `include.path`, `core.hooksPath`, a filter, an alias: git on the host runs or
obeys what they name, so it is protected like the settings themselves. What is not found: programs that such a program
starts in its turn, and names that a command puts together (see docs/sandbox.md). Everything that is read may be hostile
and is bounded. All calls block.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from runtime.git_settings import Setting, UnreadableError, settings

MAX_TARGETS = 100
"""Each takes a mount or more, which are looked at before every action."""
MAX_INCLUDES = 20
MAX_CONFIG_BYTES = 256 * 1024
MAX_ENTRIES = 1000
"""Of a folder of hooks."""
CONFIGS = ("config", "config.worktree")
_PATHS = frozenset({("include", "path"), ("includeif", "path"), ("core", "hookspath")})
"""Settings whose value is a path and no command."""
_BETWEEN = re.compile(r"[\s\"'`;|&=()<>$!{},]+")
_SCRIPTS = (".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua")


@dataclass
class Targets:
    """What settings and hooks point at in one workspace."""

    existing: list[Path] = field(default_factory=list)
    """Resolved, each once."""
    missing: list[str] = field(default_factory=list)
    """Relative to the workspace; somebody may make them."""
    left_out: int = 0
    """How many there are beyond MAX_TARGETS."""


def targets(
    workspace: Path, repositories: Iterable[Path], folders: Iterable[Path] = (), configs: Iterable[Path] = ()
) -> Targets:
    """What `repositories` (folders like `.git`) point at in the workspace, and what links in `folders` do.

    `configs` are further settings files that git reads there, such as the user's own. Does not raise.
    """
    search = _Search(workspace)
    for git in repositories:
        top = git.parent if git.name == ".git" else workspace
        for name in CONFIGS:
            search.config(git / name, top)
        search.links(git / "hooks")
    for config in configs:
        search.config(config, workspace)
    for folder in folders:
        search.links(folder)
    return search.found


class _Search:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._real = os.path.realpath(workspace)
        self._includes = 0
        self._seen: set[str] = set()
        self.found = Targets()

    def config(self, file: Path, top: Path) -> None:
        """Follow the settings of a file, and those that it includes."""
        for setting in _settings(file):
            is_path, is_include = (setting.section, setting.key) in _PATHS, "include" in setting.section
            if not is_path and setting.is_harmless:
                continue
            for word in [setting.value.strip()] if is_path else _words(setting.value):
                for base in (file.parent,) if is_include else (top, self._workspace):
                    self._take(base / os.path.expanduser(word), is_path=is_path, is_include=is_include)

    def links(self, folder: Path) -> None:
        """Follow the links in a folder, and in those below it."""
        with suppress(OSError), os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_ENTRIES:
                    break
                if entry.is_symlink():
                    self._take(Path(entry.path), is_path=True)
                elif entry.is_dir(follow_symlinks=False) and len(Path(entry.path).relative_to(folder.parent).parts) < 4:
                    self.links(Path(entry.path))

    def _take(self, path: Path, *, is_path: bool, is_include: bool = False) -> None:
        real = os.path.realpath(path)
        if real in self._seen or not real.startswith(self._real + "/"):
            return
        self._seen.add(real)
        kind = _kind(real)
        if ".git" in Path(real).parts and not (is_path or (kind == stat.S_IFREG and _is_program(real))):
            return  # a reference, say: git itself writes there
        if kind == stat.S_IFREG or (is_path and kind == stat.S_IFDIR):
            folder = os.path.dirname(real)
            if real.endswith(".py") and folder != self._real:  # Python takes modules from beside a script first
                real = folder
            self._add(Path(real))
            if is_include and self._includes < MAX_INCLUDES:
                self._includes += 1
                self.config(Path(real), self._workspace)
            elif kind == stat.S_IFDIR:
                self.links(Path(real))
        elif kind is None and len(self.found.missing) < MAX_TARGETS:
            self.found.missing.append(os.path.relpath(real, self._real))

    def _add(self, path: Path) -> None:
        if path in self.found.existing:
            return
        if len(self.found.existing) >= MAX_TARGETS:
            self.found.left_out += 1
        else:
            self.found.existing.append(path)


def _settings(file: Path) -> Iterator[Setting]:
    """The settings of a file as far as they can be read."""
    with suppress(OSError, UnreadableError):
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(fd, "rb") as opened:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                yield from settings(opened.read(MAX_CONFIG_BYTES).decode("utf-8", "surrogateescape"))


def _words(command: str) -> Iterator[str]:
    """The parts of a command that may name a file of the workspace."""
    for word in _BETWEEN.split(command):
        if "\0" not in word and ("/" in word.strip("/") or word.startswith("./") or word.endswith(_SCRIPTS)):
            yield word


def _is_program(path: str) -> bool:
    return path.endswith(_SCRIPTS) or os.access(path, os.X_OK)


def _kind(path: str) -> int | None:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return None
