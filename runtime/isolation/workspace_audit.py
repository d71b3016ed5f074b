"""Finds what the user's own programs would run automatically in a workspace, without running anything.

That is git's settings and hooks in every repository at any depth, and the files of editors and tools that
`protected_paths` names. What exists before a sandbox starts can be made read-only in it; later files cannot be
prevented without breaking `git init`, so they are found and reported. Everything may be hostile: the walk goes from
descriptor to descriptor, follows no link, reads only small regular files, and ends after MAX_FOLDERS. All calls block.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.autorun_paths import NESTED, is_nested
from runtime.isolation.git_config import UnreadableError, dangerous
from runtime.isolation.protected_paths import COMMON_DIR, ITSELF

MAX_FOLDERS = 10_000
"""Takes a fifth of a second."""
MAX_NESTED = 40
"""Nested paths that are made read-only; each takes some mounts, which are checked before every action."""
MAX_DEPTH = 60
MAX_ENTRIES = 20_000
"""Limit for one folder."""
MAX_CONFIG_BYTES = 256 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CUT = f"There are more than {MAX_FOLDERS} folders, or one is too deep or too large: the rest was not checked."
NOT_PROTECTED = "{n} repositories and files deeper in the workspace are not read-only in the sandbox: only {most} are."
_CONFIGS = ("config", "config.worktree")
READ_TRIES = 20
"""How often a file is read anew that was replaced while it was read; one that always is counts as unreadable."""
_WORKTREE_COMMON_DIR = "../.."
"""What git itself writes into a worktree's common folder."""
_NESTED_NAMES = frozenset(os.path.basename(name) for name in NESTED)
_BARE_REPOSITORY = frozenset({"HEAD", "objects", "refs"})
"""With these, git takes a folder of any name for a repository."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a program of the user would run."""

    path: str
    """Relative to the workspace."""
    what: str
    mark: str
    """Distinguishes different contents."""

    @property
    def key(self) -> str:
        """Identifies the finding together with its content."""
        return f"{self.mark} {self.path}: {self.what}"

    def __str__(self) -> str:
        path = self.path if self.path.isprintable() else ascii(self.path)
        return f"{path}: {self.what}"


@dataclass
class AuditResult:
    """The result of an audit."""

    findings: list[Finding] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """Nested repositories (the `.git` folder) and protected names, relative to the workspace."""
    is_cut: bool = False
    """Whether a limit was reached."""
    folders: int = 0


class Baseline:
    """What existed when a conversation began, and what is new since. Making one runs an audit, and blocks.

    `file` is a file, hidden from the sandbox, in which the baseline is stored; `before` is an earlier baseline of this
    conversation. Raises OSError.
    """

    def __init__(
        self,
        workspace: Path,
        names: Collection[str],
        file: Path | None = None,
        before: set[str] | None = None,
        max_folders: int = MAX_FOLDERS,
    ) -> None:
        self._max_folders = max_folders
        self._workspace = workspace
        self._names = names
        self.first = audit(workspace, names, max_folders)
        self.before = {finding.key for finding in self.first.findings} if before is None else before
        """The keys of the findings at the start."""
        if file is not None:
            self.before = _load_or_store(file, self.before)

    def new(self) -> list[str]:
        """Return new or changed findings, a line each, followed by what was not checked or is not protected."""
        try:
            now = audit(self._workspace, self._names, self._max_folders)
        except OSError:
            return []  # the workspace is gone
        lines = [str(finding) for finding in now.findings if finding.key not in self.before]
        if more := max(len(nested(self.first.paths)) - MAX_NESTED, 0):
            lines.append(NOT_PROTECTED.format(n=more, most=MAX_NESTED))
        return [*lines, CUT] if now.is_cut else lines


def _load_or_store(file: Path, before: set[str]) -> set[str]:
    """Return the stored baseline, or store this one if there is none."""
    with suppress(OSError, ValueError, TypeError):
        return set(json.loads(file.read_bytes()))
    file.parent.mkdir(0o700, parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps(sorted(before)), "ascii")
    new.replace(file)
    return before


def protected_nested_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the nested paths that are made read-only, at most MAX_NESTED."""
    return nested(paths)[:MAX_NESTED]


def nested(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the places in subfolders of the workspace."""
    return tuple(path for path in paths if "/" in path)


def audit(workspace: str | os.PathLike[str], names: Collection[str], max_folders: int = MAX_FOLDERS) -> AuditResult:
    """Audit a workspace. Unreadable files are skipped; the walk never raises for what it finds.

    `names` are searched in every folder. Raises OSError if the workspace cannot be opened.
    """
    found = AuditResult()
    top = os.open(workspace, _FOLDER & ~os.O_NOFOLLOW)
    try:
        _Walk(found, frozenset(names), max_folders).folder(top, "", 0)
    finally:
        os.close(top)
    return found


def audit_repository(workspace: str | os.PathLike[str], path: str) -> list[Finding]:
    """Audit the `.git` of one folder, relative to the workspace; nothing if it cannot be reached without a link."""
    found = AuditResult()
    with ExitStack() as opened:
        folder = os.open(workspace, _FOLDER & ~os.O_NOFOLLOW)
        opened.callback(os.close, folder)
        for part in path.split("/"):
            below = opened.enter_context(_opened(part, _FOLDER, folder))
            if below is None:
                return []
            folder = below
        kind = _kind(".git", folder)
        if kind is not None:
            _Walk(found, frozenset(), MAX_FOLDERS)._git(folder, kind, os.path.join(path, ".git"))
    return found.findings


class _Walk:
    """A folder stays open while its subfolders are checked, so at most MAX_DEPTH are open."""

    def __init__(self, found: AuditResult, names: frozenset[str], max_folders: int) -> None:
        self._found = found
        self._names = names
        self._max_folders = max_folders

    def folder(self, fd: int, path: str, depth: int) -> None:
        if self._found.folders >= self._max_folders or depth > MAX_DEPTH:
            self._found.is_cut = True
            return
        self._found.folders += 1
        entries = self._entries(fd, only=self._names | _NESTED_NAMES | _BARE_REPOSITORY | {".git", COMMON_DIR})
        if entries.get(COMMON_DIR, stat.S_IFDIR) != stat.S_IFDIR:
            self._common_dir(fd, path, ITSELF)
        if entries.keys() >= _BARE_REPOSITORY:  # or a folder that only looks like one, so what is in it counts too
            self._repository(fd, path)
        for name, kind in entries.items():
            below = os.path.join(path, name)
            if name == COMMON_DIR:
                continue
            if name == ".git":
                self._git(fd, kind, below)
            elif name in self._names or is_nested(below):
                self._named(fd, name, kind, below)
            elif kind == stat.S_IFDIR:
                with _opened(name, _FOLDER, fd) as inner:
                    if inner is not None:
                        self.folder(inner, below, depth + 1)

    def _git(self, fd: int, kind: int, path: str) -> None:
        if kind == stat.S_IFDIR:
            self._found.paths.append(path)
            with _opened(".git", _FOLDER, fd) as inner:
                if inner is not None:
                    self._repository(inner, path)
        elif kind == stat.S_IFREG:
            if (data := _read(".git", fd)) is None:  # git itself reads larger ones
                self._add(path, "a file that cannot be read here, by which git takes its settings and hooks", "")
                return
            target = data.partition(b"\0")[0].removeprefix(b"gitdir:").removeprefix(b" ").rstrip(b"\r\n")  # as git does
            if target and not _is_folder_below(fd, target):
                shown = target.decode("utf-8", "replace")
                self._add(path, f"git takes its settings and hooks from {shown[:200]}", shown)
        else:
            self._add(path, "a link or no file, by which git takes its settings and hooks from elsewhere", "")

    def _common_dir(self, fd: int, path: str, harmless: str) -> None:
        """Check for another folder with settings and hooks."""
        before, data, after = _kind(COMMON_DIR, fd), _read(COMMON_DIR, fd), _kind(COMMON_DIR, fd)
        if before in (None, stat.S_IFDIR) or after is None:  # a placeholder that was just removed
            return
        where = (data or b"").decode("utf-8", "replace").rstrip("\r\n")[:200]
        if data is not None and where in ("", harmless.strip()):  # git fails on an empty one, and keeps blanks
            return
        self._add(os.path.join(path, COMMON_DIR), f"git takes its settings and hooks from {where}", where)

    def _repository(self, fd: int, path: str, common: str = ITSELF) -> None:
        """Check settings and hooks, also of modules and worktrees; `common` is the harmless common folder."""
        self._common_dir(fd, path, common)
        for name in _CONFIGS:
            self._config(fd, name, os.path.join(path, name))
        self._hooks(fd, os.path.join(path, "hooks"))
        for group in ("modules", "worktrees"):
            with _opened(group, _FOLDER, fd) as folder:
                for name, kind in self._entries(folder).items() if folder is not None else ():
                    if kind == stat.S_IFDIR:
                        self._part(folder, name, os.path.join(path, group, name), group == "modules")

    def _part(self, group: int | None, name: str, path: str, is_module: bool) -> None:
        if self._found.folders >= self._max_folders or path.count("/") > MAX_DEPTH:
            self._found.is_cut = True
            return
        self._found.folders += 1
        with _opened(name, _FOLDER, group) as inner:
            if inner is None:
                return
            if self._entries(inner).keys() & {"HEAD", "config"} or not is_module:
                self._repository(inner, path, ITSELF if is_module else _WORKTREE_COMMON_DIR)
            else:  # a module's name may contain slashes
                for below, kind in self._entries(inner).items():
                    if kind == stat.S_IFDIR:
                        self._part(inner, below, os.path.join(path, below), is_module)

    def _config(self, fd: int, name: str, path: str) -> None:
        data = None
        for _ in range(READ_TRIES):
            status = _status(name, fd)
            if status is None or stat.S_ISDIR(status.st_mode):  # a folder is a placeholder, and git cannot read it
                return
            if (data := _read(name, fd)) is not None or _is_same(status, _status(name, fd)):
                break
            # A placeholder of another sandbox was removed meanwhile, and perhaps made again.
        if data is None:
            self._add(path, "settings of git that cannot be read here", "")
            return
        try:
            settings = dangerous(data.decode("utf-8", "surrogateescape"))
        except UnreadableError as error:
            self._add(path, f"settings of git that cannot be understood ({error})", _mark(data))
            return
        for setting in settings:
            self._add(
                path, f"git follows the setting {_clean(setting.name)}", _mark(setting.value.encode(errors="replace"))
            )

    def _hooks(self, fd: int, path: str) -> None:
        kind = _kind("hooks", fd)
        if kind not in (None, stat.S_IFDIR):
            self._add(path, "a link or no folder, by which git takes its hooks from elsewhere", "")
        with _opened("hooks", _FOLDER, fd) as hooks:
            for name in self._entries(hooks) if hooks is not None else ():
                if not name.endswith(".sample"):
                    self._add(os.path.join(path, name), "git runs it as a hook", _status_of(name, hooks))

    def _named(self, fd: int, name: str, kind: int, path: str) -> None:
        """Check a file or folder of an editor or a tool. An empty folder is a placeholder and is ignored."""
        mark = _status_of(name, fd)
        if kind == stat.S_IFDIR:
            with _opened(name, _FOLDER, fd) as inner:
                entries = self._entries(inner) if inner is not None else {}
                mark = " ".join(f"{entry} {_status_of(entry, inner)}" for entry in sorted(entries))
            if not entries:
                return
        self._found.paths.append(path)
        self._add(path, "editors or tools carry it out when the folder is opened", mark)

    def _add(self, path: str, what: str, mark: str) -> None:
        self._found.findings.append(Finding(path, what, _mark(mark.encode(errors="replace"))))

    def _entries(self, fd: int, only: Collection[str] = ()) -> dict[str, int]:
        """Return the names in a folder and their types, without following links; with `only`, just these and all
        folders.
        """
        found: dict[str, int] = {}
        with suppress(OSError), os.scandir(fd) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_ENTRIES:
                    self._found.is_cut = True
                    break
                if entry.is_dir(follow_symlinks=False):
                    found[entry.name] = stat.S_IFDIR
                elif not only or entry.name in only:
                    found[entry.name] = _kind_of(entry)
        return found


@contextmanager
def _opened(name: str | bytes, flags: int, folder: int | None) -> Iterator[int | None]:
    """Open a name in a folder; yield None if that fails."""
    try:
        fd = os.open(name, flags, dir_fd=folder)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _is_folder_below(fd: int, path: bytes) -> bool:
    """Whether a path leads to a folder in this one, through no link."""
    names = [name for name in path.split(b"/") if name not in {b"", b"."}]
    if path.startswith(b"/") or b".." in names or len(names) > MAX_DEPTH:
        return False
    with ExitStack() as opened:
        for name in names:
            inner = opened.enter_context(_opened(name, _FOLDER, fd))
            if inner is None:
                return False
            fd = inner
    return True


def _read(name: str, folder: int) -> bytes | None:
    """Read a small regular file; None for anything else."""
    with _opened(name, _FILE, folder) as fd:
        if fd is None or not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        try:
            data = os.read(fd, MAX_CONFIG_BYTES + 1)
        except OSError:
            return None
        return data if len(data) <= MAX_CONFIG_BYTES else None


def _kind(name: str, folder: int) -> int | None:
    status = _status(name, folder)
    return None if status is None else stat.S_IFMT(status.st_mode)


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _is_same(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Whether both are of the same file, unchanged."""
    key = (one.st_dev, one.st_ino, one.st_ctime_ns)
    return other is not None and key == (other.st_dev, other.st_ino, other.st_ctime_ns)


def _kind_of(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else stat.S_IFCHR


def _status_of(name: str, folder: int | None) -> str:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return ""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_mode}"


def _clean(name: str) -> str:
    text = name if len(name) <= 80 else f"{name[:80]}…"
    return text if text.isprintable() else ascii(text)


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
