"""Which deny rules the sandbox enforces.

Analysis of a command cannot see what a program does. A denied path that exists when the sandbox starts is hidden or
mounted read-only, and a denied host is refused by the proxy, so that no program can bypass the rule. Other deny rules
are checked before the action only: rules about commands, paths that do not exist yet, and what the sandbox needs.
`status` says how one rule is enforced; `denials` has all that the runtime needs. Both read the disk and block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from core.globs import has_star, matches, unescaped
from core.sandbox_types import Denials, DeniedHosts
from core.security.confirmation import Verdict
from core.security.hosts import is_local
from core.security.patterns import Pattern, WorkFolders, absolute, path_matches
from core.security.permissions import Permission
from core.security.policy import Rule

MAX_PATHS = 100
"""Limit for mounts from wildcards and hard links. bubblewrap needs a second for so many."""
MAX_ENTRIES = 50_000
"""Limit for the walk over the workspace, which takes about a second."""
SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/proc", "/sbin", "/sys",
          "/usr")  # fmt: skip
"""System folders that are visible in the sandbox."""
TOO_MANY = f"Rules with `*` deny more than {MAX_PATHS} existing files. The others are only checked."
CUT = f"The workspace has more than {MAX_ENTRIES} files. For the others, deny rules with `*` are only checked."


class Enforcement(StrEnum):
    """How a deny rule is enforced."""

    SANDBOX = "sandbox"
    PARTLY = "partly"
    """By the sandbox for what exists when it starts."""
    READ = "read"
    """Only by the check before the action."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a rule is enforced, and why."""

    enforcement: Enforcement
    why: str

    @property
    def label(self) -> str:
        """A short text for the user."""
        return _LABELS[self.enforcement]

    def __str__(self) -> str:
        return f"{self.label}: {self.why}"


_LABELS = {
    Enforcement.SANDBOX: "enforced by the sandbox",
    Enforcement.PARTLY: "partly enforced by the sandbox",
    Enforcement.READ: "not enforced by the sandbox",
}


def status(rule: Rule | Permission, folders: WorkFolders) -> Status | None:
    """How a sandbox of this folder enforces a rule; None if it is not a deny rule."""
    if rule.verdict is not Verdict.DENY:
        return None
    match rule.pattern.tool:
        case "read" | "write" if "\0" not in rule.pattern.glob:
            return _status_of_path(rule.pattern, folders)
        case "net" if not has_star(rule.pattern.glob) and is_local(unescaped(rule.pattern.glob)):
            return Status(Enforcement.READ, "calls within the sandbox do not use the proxy.")
        case "net":
            return Status(Enforcement.SANDBOX, "its proxy, the only connection to the network, refuses the host.")
        case "":
            return Status(Enforcement.READ, "every action is denied before it runs.")
    return Status(Enforcement.READ, "each action is checked before it runs.")


def _status_of_path(pattern: Pattern, folders: WorkFolders) -> Status:
    reads, workspace = pattern.tool == "read", folders.workspace
    effect = "hidden" if reads else "read-only"
    fixed = _literal_path(pattern, folders)
    if fixed is None:
        top = _folder_of_matches(pattern, folders)
        if not (_is_within(top, workspace) or _is_within(workspace, top)):
            return _status_outside(top, reads=reads)
        why = f"files of the workspace that match when it starts are {effect}. New files are only checked."
        return Status(Enforcement.PARTLY, why)
    real = os.path.realpath(fixed)
    if _is_within(workspace, fixed) or _is_within(workspace, real):
        if reads:
            return Status(Enforcement.READ, "commands need the workspace.")
        return Status(Enforcement.SANDBOX, "the workspace is read-only.")
    if not _is_within(real, workspace):
        return _status_outside(real, reads=reads)
    if not os.path.exists(real):
        return Status(Enforcement.READ, "it does not exist. Once it does, the sandbox enforces it from its next start.")
    return Status(Enforcement.SANDBOX, f"{fixed} is {effect}.")


def _status_outside(path: str, *, reads: bool) -> Status:
    if not reads:
        return Status(Enforcement.SANDBOX, "nothing outside the workspace can be written.")
    if any(_is_within(path, folder) or _is_within(folder, path) for folder in SYSTEM):
        return Status(Enforcement.READ, "programs in the sandbox need files of the system.")
    return Status(Enforcement.SANDBOX, "it is outside the workspace, and hidden.")


def denials(rules: Iterable[Rule | Permission], folders: WorkFolders) -> Denials:
    """What a sandbox of this folder has to enforce, given the files that exist now. Never raises."""
    denying = [rule for rule in rules if rule.verdict is Verdict.DENY and "\0" not in rule.pattern.glob]
    found = _PathCollector(WorkFolders(os.path.realpath(folders.workspace), folders.home))
    for rule in denying:
        if rule.pattern.tool in ("read", "write"):
            found.add(rule)
    found.walk_workspace()
    hosts = dict.fromkeys(DeniedHosts(rule.pattern.glob, str(rule)) for rule in denying if rule.pattern.tool == "net")
    return Denials(tuple(found.paths["read"]), tuple(found.paths["write"]), tuple(hosts), tuple(found.notes))


@dataclass(frozen=True, slots=True)
class _Wildcard:
    """A pattern with wildcards, prepared for a comparison with many files."""

    tool: str
    glob: str
    """Absolute, without `**` at its end."""
    name: str
    """Its last part."""
    with_folders: bool
    """Whether it matches folders with everything in them."""

    @classmethod
    def of(cls, pattern: Pattern, folders: WorkFolders) -> _Wildcard:
        wanted = absolute(pattern.glob, folders)
        glob = wanted.removesuffix("/**")
        return cls(pattern.tool, glob, glob.rpartition("/")[2], glob != wanted)


@dataclass
class _PathCollector:
    """Collects the existing paths that rules match."""

    folders: WorkFolders
    paths: dict[str, dict[str, None]] = field(default_factory=lambda: {"read": {}, "write": {}})
    """Resolved paths by tool."""
    wildcards: list[_Wildcard] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extra: int = 0

    def add(self, rule: Rule | Permission) -> None:
        """Add a rule. Wildcards are matched by `walk_workspace`."""
        fixed = _literal_path(rule.pattern, self.folders)
        if fixed is None:
            self.wildcards.append(_Wildcard.of(rule.pattern, self.folders))
        elif rule.pattern.tool == "write" and _is_within(self.folders.workspace, fixed):
            self.paths["write"][self.folders.workspace] = None
        else:
            self._take(rule.pattern.tool, fixed)

    def _take(self, tool: str, path: str) -> bool:
        """Add a path if it exists and the sandbox does not need it. Returns whether it was new."""
        real = os.path.realpath(path)
        if not os.path.exists(real) or _is_within(self.folders.workspace, real) or real in self.paths[tool]:
            return False
        self.paths[tool][real] = None
        return True

    def walk_workspace(self) -> None:
        """Search the workspace for matches of wildcards and for hard links to denied files."""
        if not self.wildcards and not any(self.paths.values()):
            return
        linked: dict[tuple[int, int], list[str]] = {}
        for path, identity in self._walk(self.folders.workspace):
            if identity is not None:
                linked.setdefault(identity, []).append(path)
        for names in linked.values():
            for tool, known in self.paths.items():
                if len(names) > 1 and any(_is_below(name, known) for name in names):
                    for name in names:
                        if not _is_below(name, known):
                            self._take_extra(tool, name)

    def _walk(self, top: str) -> Iterator[tuple[str, tuple[int, int] | None]]:
        """Add what wildcards match; yields each file, with its identity if it has several hard links."""
        waiting, seen = [top], 0
        while waiting:
            for entry in _entries(waiting.pop()):
                seen += 1
                if seen > MAX_ENTRIES:
                    self.notes.append(CUT)
                    return
                is_folder = entry.is_dir(follow_symlinks=False)
                for wildcard in self.wildcards:
                    if (wildcard.with_folders or not is_folder) and matches(wildcard.name, entry.name):
                        self._compare(wildcard, entry.path)
                if is_folder:
                    waiting.append(entry.path)
                    continue
                yield entry.path, _shared_identity(entry)

    def _compare(self, wildcard: _Wildcard, path: str) -> None:
        known = self.paths[wildcard.tool]
        if path_matches(wildcard.glob, path, self.folders) and not _is_below(path, known):
            self._take_extra(wildcard.tool, path)

    def _take_extra(self, tool: str, path: str) -> None:
        if self.extra >= MAX_PATHS:
            if TOO_MANY not in self.notes:
                self.notes.append(TOO_MANY)
        elif self._take(tool, path):
            self.extra += 1


def _literal_path(pattern: Pattern, folders: WorkFolders) -> str | None:
    """The only path that a pattern can match; None if there may be several."""
    wanted = absolute(pattern.glob, folders)
    base = wanted.removesuffix("/**")
    return None if has_star(base) else unescaped(base) or "/"


def _folder_of_matches(pattern: Pattern, folders: WorkFolders) -> str:
    """The folder that contains all matches of a pattern with wildcards."""
    wanted = absolute(pattern.glob, folders)
    parts = wanted.split("/")
    first = next(at for at, part in enumerate(parts) if has_star(part))
    return unescaped("/".join(parts[:first])) or "/"


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_below(path: str, known: Iterable[str]) -> bool:
    return any(_is_within(path, one) for one in known)


def _entries(folder: str) -> Sequence[os.DirEntry[str]]:
    """The sorted entries of a folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return ()


def _shared_identity(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    """Device and inode of a regular file with several hard links."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 else None
