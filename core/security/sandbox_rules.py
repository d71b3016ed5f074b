"""Which rules that deny the sandbox enforces, and what it needs to know for that.

Reading a command cannot see what a program does inside. A denied path that exists when a sandbox starts becomes a
mount, and a denied host an entry of the proxy's list, so that no program gets around the rule. Everything else is only
read: rules about words of commands, names that do not exist yet, and what the sandbox itself needs. `status` says which
it is, for one rule; `denials` gives the runtime all of it. Both look at the disk and block.
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
"""Files that stars and hard links add to what is mounted. bubblewrap takes a second for them, and longer for more."""
MAX_ENTRIES = 50_000
"""A walk over so many takes about a second."""
SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/proc", "/sbin", "/sys",
          "/usr")  # fmt: skip
"""What programs in a sandbox see of the system."""
TOO_MANY = f"Rules with `*` deny more than {MAX_PATHS} existing files. For the others they are only read."
CUT = f"The workspace has more than {MAX_ENTRIES} files. For the others, rules with `*` that deny are only read."


class Enforcement(StrEnum):
    """Who holds a rule that denies."""

    SANDBOX = "sandbox"
    PARTLY = "partly"
    """The sandbox for what exists when it starts; the rest is only read."""
    READ = "read"


@dataclass(frozen=True, slots=True)
class Status:
    """How a rule is enforced, and why so, as a sentence."""

    enforcement: Enforcement
    why: str

    @property
    def label(self) -> str:
        """In a few words."""
        return _LABELS[self.enforcement]

    def __str__(self) -> str:
        return f"{self.label}: {self.why}"


_LABELS = {
    Enforcement.SANDBOX: "enforced by the sandbox",
    Enforcement.PARTLY: "partly enforced by the sandbox",
    Enforcement.READ: "read",
}


def status(rule: Rule | Permission, folders: WorkFolders) -> Status | None:
    """How a sandbox of this folder enforces a rule; None for one that does not deny, because that is never enforced."""
    if rule.verdict is not Verdict.DENY:
        return None
    match rule.pattern.tool:
        case "read" | "write" if "\0" not in rule.pattern.glob:
            return _status_of_path(rule.pattern, folders)
        case "net" if not has_star(rule.pattern.glob) and is_local(unescaped(rule.pattern.glob)):
            return Status(Enforcement.READ, "calls inside the sandbox do not go through its proxy.")
        case "net":
            return Status(Enforcement.SANDBOX, "its proxy, the only way to the network, refuses the host.")
        case "":
            return Status(Enforcement.READ, "every action is denied before it runs.")
    return Status(Enforcement.READ, "what is about to run is compared with it.")


def _status_of_path(pattern: Pattern, folders: WorkFolders) -> Status:
    reads, workspace = pattern.tool == "read", folders.workspace
    effect = "hidden" if reads else "read-only"
    fixed = _fixed(pattern, folders)
    if fixed is None:
        top = _before_stars(pattern, folders)
        if not (_is_within(top, workspace) or _is_within(workspace, top)):
            return _status_outside(top, reads=reads)
        why = f"files of the workspace that match when it starts are {effect}. For new names the rule is only read."
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
    """What a sandbox of this folder has to enforce of these rules, as the disk is now. Never raises."""
    denying = [rule for rule in rules if rule.verdict is Verdict.DENY and "\0" not in rule.pattern.glob]
    found = _Found(WorkFolders(os.path.realpath(folders.workspace), folders.home))
    for rule in denying:
        if rule.pattern.tool in ("read", "write"):
            found.add(rule)
    found.look_around()
    hosts = dict.fromkeys(DeniedHosts(rule.pattern.glob, str(rule)) for rule in denying if rule.pattern.tool == "net")
    return Denials(tuple(found.paths["read"]), tuple(found.paths["write"]), tuple(hosts), tuple(found.notes))


@dataclass(frozen=True, slots=True)
class _Starred:
    """A pattern with stars, made ready to be compared with many files."""

    tool: str
    glob: str
    """Absolute, without `**` at its end."""
    name: str
    """Its last part."""
    with_folders: bool
    """Whether it means folders, with all in them: `*` means the names in a folder, and not what is below them."""

    @classmethod
    def of(cls, pattern: Pattern, folders: WorkFolders) -> _Starred:
        wanted = absolute(pattern.glob, folders)
        glob = wanted.removesuffix("/**")
        return cls(pattern.tool, glob, glob.rpartition("/")[2], glob != wanted)


@dataclass
class _Found:
    """What the rules of paths mean on the disk."""

    folders: WorkFolders
    paths: dict[str, dict[str, None]] = field(default_factory=lambda: {"read": {}, "write": {}})
    """Existing ones without links, by the tool of their rules, in order."""
    starred: list[_Starred] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extra: int = 0

    def add(self, rule: Rule | Permission) -> None:
        """Take in a rule that names one path; those with further stars wait for `look_around`."""
        fixed = _fixed(rule.pattern, self.folders)
        if fixed is None:
            self.starred.append(_Starred.of(rule.pattern, self.folders))
        elif rule.pattern.tool == "write" and _is_within(self.folders.workspace, fixed):
            self.paths["write"][self.folders.workspace] = None
        else:
            self._take(rule.pattern.tool, fixed)

    def _take(self, tool: str, path: str) -> bool:
        """Add what a path leads to, if it is there and the sandbox can do without it. Says whether it was new."""
        real = os.path.realpath(path)
        if not os.path.exists(real) or _is_within(self.folders.workspace, real) or real in self.paths[tool]:
            return False
        self.paths[tool][real] = None
        return True

    def look_around(self) -> None:
        """Walk over the workspace for what rules with stars mean, and for other names of denied files."""
        if not self.starred and not any(self.paths.values()):
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
        """Take in what rules mean; yields every file, with its identity where it has more than one name."""
        waiting, seen = [top], 0
        while waiting:
            for entry in _entries(waiting.pop()):
                seen += 1
                if seen > MAX_ENTRIES:
                    self.notes.append(CUT)
                    return
                is_folder = entry.is_dir(follow_symlinks=False)
                for starred in self.starred:
                    if (starred.with_folders or not is_folder) and matches(starred.name, entry.name):
                        self._compare(starred, entry.path)
                if is_folder:
                    waiting.append(entry.path)
                    continue
                yield entry.path, _shared_identity(entry)

    def _compare(self, starred: _Starred, path: str) -> None:
        known = self.paths[starred.tool]
        if path_matches(starred.glob, path, self.folders) and not _is_below(path, known):
            self._take_extra(starred.tool, path)

    def _take_extra(self, tool: str, path: str) -> None:
        if self.extra >= MAX_PATHS:
            if TOO_MANY not in self.notes:
                self.notes.append(TOO_MANY)
        elif self._take(tool, path):
            self.extra += 1


def _fixed(pattern: Pattern, folders: WorkFolders) -> str | None:
    """The one file or folder that a pattern names; None where there may be several."""
    wanted = absolute(pattern.glob, folders)
    base = wanted.removesuffix("/**")
    return None if has_star(base) else unescaped(base) or "/"


def _before_stars(pattern: Pattern, folders: WorkFolders) -> str:
    """The folder in which everything lies that a pattern with stars means."""
    wanted = absolute(pattern.glob, folders)
    parts = wanted.split("/")
    first = next(at for at, part in enumerate(parts) if has_star(part))
    return unescaped("/".join(parts[:first])) or "/"


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_below(path: str, known: Iterable[str]) -> bool:
    return any(_is_within(path, one) for one in known)


def _entries(folder: str) -> Sequence[os.DirEntry[str]]:
    """What is in a folder, sorted; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return ()


def _shared_identity(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    """Device and number of a regular file that has several names."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 else None
