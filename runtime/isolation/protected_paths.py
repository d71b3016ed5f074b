"""Read-only mounts for the paths of a workspace that programs of the user run later, outside of the sandbox.

A hook, an editor's task, a shell's start file: what a sandbox could write there would run with the user's rights. What
exists when a sandbox starts is read-only in it. A mount needs something to be mounted on, and the user's folder stays
as it is, so a name that does not exist is only watched: `runtime.isolation.workspace_guard` moves it away when it
appears. Inside `.git`, where nobody looks and git itself would obey a file at once, missing names get a placeholder to
mount on instead.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from core.denials import Denials
from core.regular_files import read_text
from runtime.isolation.git_config import Targets, targets

MAX_PATH_BYTES = 4096
_GIT_FOLDERS = ("hooks", "modules")
COMMON_DIR = "commondir"
"""In a repository's folder: where else git finds its settings and hooks; see gitrepository-layout(5)."""
ITSELF = ".\n"
"""A common folder that is no other one: what a placeholder says, since git reads the file wherever it is."""
WORKTREE_CONFIG = "config.worktree"
CONTENTS = {
    COMMON_DIR: ITSELF,
    WORKTREE_CONFIG: "# Handloom keeps this file here while a sandbox runs. It changes no setting.\n",
}
"""What placeholders hold that are files, by name. A folder in their place would make git refuse to work."""
MAX_WORKTREES = 50


Access = Literal["open", "read-only", "empty", "hidden file", "hidden folder"]


class ProtectionError(Exception):
    """A path that cannot be protected; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A path that is mounted on itself. The order of mounts counts: one may lie in another."""

    path: Path
    access: Access
    """`open` keeps it from being renamed, `empty` shows a folder in which nothing can be made, and what is hidden
    cannot be opened at all."""
    is_placeholder: bool = False
    """Whether what it is mounted on is there for it alone."""


@dataclass
class Mounts:
    """What protects a workspace."""

    mounts: list[Mount] = field(default_factory=list)
    """In order."""
    placeholders: list[Path] = field(default_factory=list)
    """What has to be there first: files for the names in CONTENTS, else empty folders."""
    guarded: list[Path] = field(default_factory=list)
    """Every mount point."""
    watched: list[str] = field(default_factory=list)
    """Protected paths that do not exist, relative to the workspace: there is nothing to mount on."""
    left_out: int = 0
    """Files that git's settings and hooks point at, and that are too many to be read-only."""
    opened: list[Path] = field(default_factory=list)
    """Folders beside the workspace that its git needs, writable but for what is protected in them."""


def mounts(workspace: Path, names: Iterable[str], nested: Iterable[str] = ()) -> Mounts:
    """What makes these paths read-only, and those of git; in `nested`, what is protected that `survey` found deeper.

    Reads the workspace, changes nothing. Raises ProtectionError for a symbolic link, on which nothing can be mounted;
    one that is nested is passed over.
    """
    found = Mounts()
    for name in names:
        if is_missing(workspace / name):
            found.watched.append(name)
        else:
            _protect(workspace / name, found)
    git = workspace / ".git"
    if _kind(git) == stat.S_IFDIR:
        _protect_repository(git, found)
    elif _kind(git):
        _protect(git, found)
        if (worktree := _worktree_of(git)) is not None:
            common = worktree.parent.parent
            found.opened.append(common)
            _protect_repository(common, found)
            if worktree / COMMON_DIR not in found.guarded:
                _protect_worktree(worktree, found)
    inner = [workspace / name for name in nested]
    for path in inner:
        with suppress(ProtectionError, OSError):
            (_protect_repository if path.name == ".git" else _protect)(path, found)
    repositories = [path for path in found.guarded if _kind(path / "HEAD")]
    home = Path(os.path.expanduser("~"))
    users = [home / ".gitconfig", home / ".config/git/config"]
    _protect_targets(workspace, targets(workspace, repositories, [workspace / name for name in names], users), found)
    return found


def _protect_targets(workspace: Path, pointed: Targets, found: Mounts) -> None:
    """Make read-only what settings and hooks point at. The folders above it are mounted, so nobody renames them."""
    closed = [mount.path for mount in found.mounts if mount.access != "open"]
    above: set[Path] = set()
    for path in pointed.existing:
        if not any(path.is_relative_to(other) for other in closed):
            above |= {folder for folder in path.parents if folder.is_relative_to(workspace) and folder != workspace}
            found.mounts.append(Mount(path, "read-only"))
            found.guarded.append(path)
    opened = sorted(above - set(found.guarded))
    found.mounts[:0] = [Mount(folder, "open") for folder in opened]  # a later mount would hide what is mounted below
    found.guarded += opened
    found.watched += [name for name in pointed.missing if not any((workspace / name).is_relative_to(p) for p in closed)]
    found.left_out = pointed.left_out


def _protect_repository(git: Path, found: Mounts) -> None:
    """Leave a repository's folder writable, but for what git carries out."""
    found.guarded.append(git)
    found.mounts.append(Mount(git, "open"))  # a mount cannot be renamed, and what is in it goes with it
    if _kind(git / "config"):
        _protect(git / "config", found)
    for name in _GIT_FOLDERS:
        _protect(git / name, found)
    for name in CONTENTS:
        _protect_file(git / name, found)
    for worktree in sorted(_folders(git / "worktrees"))[:MAX_WORKTREES]:
        _protect_worktree(worktree, found)


def _protect_worktree(worktree: Path, found: Mounts) -> None:
    """Leave what a repository knows of a worktree writable, but for where git finds settings and hooks."""
    _protect(worktree / COMMON_DIR, found)
    _protect_file(worktree / WORKTREE_CONFIG, found)


def _protect_file(file: Path, found: Mounts) -> None:
    if _kind(file) is None or is_placeholder(file):
        found.placeholders.append(file)
        found.guarded.append(file)
        found.mounts.append(Mount(file, "read-only", is_placeholder=True))
    else:
        _protect(file, found)


def is_placeholder(file: Path) -> bool:
    """Whether a file says no more than a placeholder does."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        whole = CONTENTS[file.name].encode()
        return stat.S_ISREG(os.fstat(fd).st_mode) and os.read(fd, len(whole) + 1) == whole
    finally:
        os.close(fd)


def _folders(path: Path) -> list[Path]:
    try:
        return [entry for entry in path.iterdir() if _kind(entry) == stat.S_IFDIR]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _worktree_of(file: Path) -> Path | None:
    """The folder in which a repository keeps what it knows of the worktree whose `.git` is this file.

    None where that folder does not name the file in its turn: whoever wrote the file may have wanted any folder open.
    """
    try:
        worktree = Path(read_text(file, MAX_PATH_BYTES).removeprefix("gitdir:").strip())
        named = Path(read_text(worktree / "gitdir", MAX_PATH_BYTES).strip())
        is_its_own = worktree.is_absolute() and named.resolve() == file.resolve() and worktree == worktree.resolve()
    except (OSError, UnicodeDecodeError, ValueError):
        return None
    return worktree if is_its_own and worktree.parent.name == "worktrees" else None


class Held:
    """The mount points of one sandbox while it lives: placeholders are there, and stay as long as anybody needs them.

    A folder or file that is renamed or removed on the host takes its mount along, in every sandbox. So a placeholder is
    removed only by the last of all processes that hold it, and `replaced` tells of everything else. Raises OSError.
    """

    def __init__(self, found: Mounts, owner: tuple[int, int] | None) -> None:
        self._locks: dict[Path, int] = {}
        try:
            for path in found.placeholders:
                self._locks[path] = _locked(path, owner)
            self._identities = {path: _identity(path) for path in found.guarded}
        except BaseException:
            self.close()
            raise

    def replaced(self) -> Path | None:
        """One that is not what it was when the sandbox was started, and so is not protected in it any more."""
        return next((path for path, identity in self._identities.items() if _identity(path) != identity), None)

    @property
    def placeholders(self) -> list[Path]:
        """What was made to be mounted on, or was there for that already."""
        return list(self._locks)

    def identities(self) -> tuple[tuple[int, int], ...]:
        """Device and number of every mount point, in order."""
        return tuple(identity for identity in self._identities.values() if identity is not None)

    def close(self, *, leave: bool = False) -> None:
        """Let go of the placeholders; `leave` has them stay, for a sandbox that outlasts us.

        One that is not empty, or gone, is not ours any more.
        """
        for path, lock in self._locks.items():
            with suppress(OSError):
                if not leave:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove_placeholder(path)
            os.close(lock)
        self._locks.clear()


def _locked(path: Path, owner: tuple[int, int] | None) -> int:
    """A placeholder that nobody removes as long as the answer, a descriptor, is open."""
    while True:
        _make_placeholder(path)
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_SH)  # whoever holds it alone is about to remove it
        status = os.fstat(lock)
        if _identity(path) == (status.st_dev, status.st_ino):
            if owner is not None:
                os.fchown(lock, *owner)
            return lock
        os.close(lock)


def _make_placeholder(path: Path) -> None:
    """Raises FileExistsError where something of another kind is there."""
    if (content := CONTENTS.get(path.name)) is None:
        path.mkdir(mode=0o755, exist_ok=True)
        return
    whole = path.with_name(f"{path.name}.{secrets.token_hex(8)}")  # git on the host never reads half of it
    made = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.write(made, content.encode())
        _give_name(whole, path)
    finally:
        os.close(made)
        whole.unlink(missing_ok=True)


def _give_name(file: Path, name: Path) -> None:
    """Nothing that is there already is replaced."""
    try:
        name.hardlink_to(file)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if _kind(name) is None:
            file.rename(name)


def _remove_placeholder(path: Path) -> None:
    if path.name not in CONTENTS or path.is_dir():
        path.rmdir()
    elif is_placeholder(path):
        path.unlink()


def remove_left(placeholders: Iterable[Path]) -> None:
    """Remove placeholders whose process was killed, unless another one holds them. Does not raise."""
    for path in placeholders:
        with suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_placeholder(path)
            finally:
                os.close(lock)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _protect(path: Path, found: Mounts) -> None:
    kind = _kind(path)
    if kind == stat.S_IFLNK:
        raise ProtectionError(
            f"{path} is a symbolic link, which cannot be protected. Put the file itself there, or take the name out of "
            "sandbox.protected_paths"
        )
    found.guarded.append(path)
    if kind is None or (kind == stat.S_IFDIR and not any(path.iterdir())):
        found.placeholders.append(path)  # also one that a process that was killed left behind
        found.mounts.append(Mount(path, "empty", is_placeholder=True))
    else:
        found.mounts.append(Mount(path, "read-only"))


def is_missing(path: Path) -> bool:
    """Whether nothing is there, or an empty folder, which means nothing to any program."""
    kind = _kind(path)
    return kind is None or (kind == stat.S_IFDIR and not any(path.iterdir()))


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


_STRICTNESS: dict[Access, int] = {"open": 0, "read-only": 1, "empty": 2, "hidden file": 3, "hidden folder": 3}


@dataclass(frozen=True, slots=True)
class Sight:
    """What a sandbox sees beside the workspace."""

    readable: tuple[Path, ...] = ()
    """In sight, and read-only."""
    hidden: tuple[Path, ...] = ()
    """Out of sight, also where it lies in the workspace."""
    needed: tuple[Path, ...] = ()
    """What it cannot be started without: a rule does not hide it."""


def deny(found: Mounts, denials: Denials, workspace: Path, sight: Sight) -> None:
    """Add what enforces the denials to the mounts of a sandbox. Blocks for a moment."""
    writable = [workspace, *found.opened]
    hidden = [*_shown(denials.unreadable, [*writable, *sight.readable], sight, (workspace, *sight.needed))]
    closed = [*_shown(denials.unwritable, writable, sight, ())]
    if not hidden and not closed:
        return
    merged = {mount.path: mount for mount in found.mounts}
    for path in closed:
        _merge(merged, Mount(path, "read-only"))
    for path in hidden:
        _merge(merged, Mount(path, "hidden folder" if path.is_dir() else "hidden file"))
    for path in (*closed, *hidden):  # a folder above could be renamed, and another one be put in its place
        for top in writable:
            for above in path.parents:
                if above.is_relative_to(top) and above != top:
                    _merge(merged, Mount(above, "open"))
    found.mounts = [mount for path, mount in sorted(merged.items()) if not _is_covered(mount, merged)]
    kept = {mount.path for mount in found.mounts}
    found.placeholders = [path for path in found.placeholders if path in kept]
    found.guarded = [*dict.fromkeys([*(path for path in found.guarded if path in kept), *sorted(kept)])]


def _shown(denied: Iterable[str], tops: Sequence[Path], sight: Sight, needed: Sequence[Path]) -> Iterable[Path]:
    """What is to be mounted of denied paths: what a sandbox shows of them, and can do without."""
    for path in map(Path, denied):
        shown = [path] if any(path.is_relative_to(top) for top in tops) else []
        shown += [top for top in tops if top.is_relative_to(path) and top != path]
        for one in shown:
            is_seen = not any(one.is_relative_to(folder) for folder in sight.hidden)
            if is_seen and not any(need.is_relative_to(one) for need in needed):
                yield one


def _merge(merged: dict[Path, Mount], mount: Mount) -> None:
    known = merged.get(mount.path)
    if known is None or _STRICTNESS[known.access] < _STRICTNESS[mount.access]:
        merged[mount.path] = mount


def _is_covered(mount: Mount, merged: dict[Path, Mount]) -> bool:
    """Whether a folder above hides it, or is read-only so that this one must not be open."""
    above = [merged[path].access for path in mount.path.parents if path in merged]
    return "hidden folder" in above or (mount.access == "open" and any(access != "open" for access in above))
