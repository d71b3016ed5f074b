"""ShadowGit: a git repository outside of the workspace in which its checkpoints are stored.

Invariant: git runs nothing of the workspace or the user. It has only our settings, which name no programs, and the
workspace's attributes are overridden, so that bytes stay as they are. git lists changes (fast, with its own cache) and
stores objects; `workspace_files` reads and writes the contents, because git follows symbolic links that are put in its
way while it works. The workspace's own `.git` is not read, except for its exclude file. Every call blocks and has a
time limit. Used by `checkpoint_store`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from core.checkpoints.model import ChangeKind, FileChange
from core.errors import CheckpointError
from runtime.git_files import unblock_pipes

QUERY_TIMEOUT_S = 30.0
"""Listing 100,000 files takes one second."""
WRITE_TIMEOUT_S = 300.0
"""Enough for some gigabytes on a slow disk."""
NO_OBJECT = "0" * 40
OURS = ".handloom-"
"""Prefix of the names of incomplete files, which are in no checkpoint."""
_ID = re.compile(r"[0-9a-f]{40}")
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.excludesFile": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.symlinks": "true",
    "core.fileMode": "true",
    "core.ignoreCase": "false",
    "core.precomposeUnicode": "false",
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    "core.compression": "1",
    "pack.compression": "1",  # the user waits for a workspace's first checkpoint
    "core.fsync": "committed",
    "gc.auto": "0",
    "index.version": "4",
}
_ATTRIBUTES = "* -text -eol -ident -filter !diff -merge -working-tree-encoding\n"
"""Overrides those of the workspace, so that bytes are compared."""
_ENVIRON = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
    **{f"GIT_{who}_{what}": "handloom" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
"""git's environment besides the search path: no variable of the user, who may have been started by a hook."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a checkpoint."""

    mode: int
    """As in git: 0o100644, 0o100755 for executables, 0o120000 for symbolic links."""
    id: str
    """The object ID of its content."""


@dataclass(frozen=True, slots=True)
class KeptCommit:
    """A commit and its ref."""

    ref: str
    id: str
    message: str


class ShadowGit:
    """One repository in `folder` for the files of `workspace`. The caller holds the store's lock, `lock`.

    git inherits the lock, so it is held until the last child of a killed Handloom has ended.
    """

    def __init__(self, folder: Path, workspace: str, lock: int) -> None:
        self._folder = folder
        self._workspace = workspace
        self._lock = lock
        self._child: subprocess.Popen[bytes] | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the running call, and let every further one fail."""
        self._is_cancelled = True
        if self._child is not None:
            self._child.kill()

    def open(self) -> None:
        """Make the repository if it is missing, and remove lock files that a killed git left."""
        if not (self._folder / "HEAD").exists():
            (self._folder / "info").mkdir(exist_ok=True)
            (self._folder / "info" / "attributes").write_text(_ATTRIBUTES)
            self._run("init", "--quiet", "--bare", "--template=", "--initial-branch=none", ".")
        for lock in (*self._folder.glob("*.lock"), *(self._folder / "refs").rglob("*.lock")):
            lock.unlink()

    # -- the workspace -----------------------------------------------------------------------------------------------

    def changed_paths(self, excluded: Sequence[str]) -> list[str]:
        """Return the paths that may differ from the index, sorted, without new ignored files."""
        found = {output[2:] for output in self._listed("", "-t", "--modified", "--deleted", excluded=excluded)}
        found |= {
            f"{path}/" for path in found if self._is_repository(path)
        }  # git does not report this for a former file
        queue = [path for path in found if path.endswith("/")]
        while queue:  # a nested repository, which git would store as a mere reference
            found.discard(folder := queue.pop())
            below = {folder + output for output in self._listed(folder, excluded=excluded)}
            queue += [path for path in below if path.endswith("/") and path != folder]
            found |= below - {folder}
        return sorted(path for path in found if not path.endswith("/"))

    def _is_repository(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self._workspace, path, ".git"))

    def _listed(self, folder: str, *arguments: str, excluded: Sequence[str]) -> list[str]:
        root = os.path.join(self._workspace, folder)
        own = os.path.join(root, ".git", "info", "exclude")  # the repository's private patterns
        excludes = [f"--exclude={OURS}*", *(f"--exclude={_escaped(path)}" for path in excluded if not folder)]
        if os.path.isfile(own):
            excludes.append(f"--exclude-from={own}")
        index = {"GIT_INDEX_FILE": str(self._folder / "no-index")} if folder else {}
        command = ("ls-files", "-z", "--others", "--exclude-standard", *excludes, *arguments)
        return _texts(self._run(*command, work_tree=root, environ=index))

    def refresh(self) -> None:
        """Update the index's file status, so that unchanged files need not be read."""
        self._run("update-index", "-q", "--refresh", "--really-refresh", work_tree=self._workspace, also=(1,))

    def ignored(self, paths: Iterable[str], rules: Mapping[str, bytes]) -> set[str]:
        """Return which of the paths ignore files with these paths and contents would match."""
        with tempfile.TemporaryDirectory(dir=self._folder) as top:
            for path, content in rules.items():
                file = Path(top, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            data = os.fsencode("".join(f"./{path}\0" for path in paths))  # so that no path looks like a pattern
            command, environ = ("check-ignore", "-z", "--stdin", "--no-index"), {"GIT_LITERAL_PATHSPECS": "0"}
            output = self._run(*command, data=data, work_tree=top, environ=environ, also=(1,))
            return {path.removeprefix("./") for path in _texts(output)}

    # -- objects -----------------------------------------------------------------------------------------------------

    def store(self, contents: Iterable[bytes]) -> None:
        """Store contents; `object_id` returns their IDs. They are on the disk when this returns."""
        with self._popen("fast-import", "--quiet", "--done", "--depth=0") as child:
            assert child.stdin is not None
            try:
                for content in contents:
                    child.stdin.write(b"blob\ndata %d\n" % len(content))
                    child.stdin.write(content)
                    child.stdin.write(b"\n")
                child.stdin.write(b"done\n")
                child.stdin.close()
            except BrokenPipeError:
                pass  # its exit reports the reason
            self._finish(child, "fast-import", b"")

    def update_index(self, entries: Iterable[tuple[str, Entry | None]], environ: dict[str, str] | None = None) -> None:
        """Add files to the index, or remove them; removals come first."""
        ordered = sorted(entries, key=lambda item: item[1] is not None)
        lines = (
            f"{entry.mode:o} {entry.id}\t{path}\0" if entry else f"0 {NO_OBJECT}\t{path}\0" for path, entry in ordered
        )
        self._run("update-index", "-z", "--index-info", data=os.fsencode("".join(lines)), environ=environ)

    def write_tree(self) -> str:
        """Write the index as a tree and return its ID."""
        return self._run("write-tree").decode().strip()

    def amended_tree(self, id: str, entries: Iterable[tuple[str, Entry | None]]) -> str:
        """Return the tree of a commit with these files changed. The workspace's index is not touched."""
        index = {"GIT_INDEX_FILE": str(self._folder / "amending")}
        with suppress(FileNotFoundError):
            os.unlink(self._folder / "amending")
        try:
            self._run("read-tree", id, environ=index)
            self.update_index(entries, environ=index)
            return self._run("write-tree", environ=index).decode().strip()
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._folder / "amending")

    def files(self) -> int:
        """Return the number of files in the index."""
        with suppress(FileNotFoundError), open(self._folder / "index", "rb") as index:
            return int.from_bytes(index.read(12)[8:], "big")
        return 0

    def commit(self, tree: str, message: str, ref: str) -> str:
        """Commit a tree under a ref that contains the time; return the commit's ID."""
        id = self._run("commit-tree", tree, data=message.encode("utf-8", "surrogateescape")).decode().strip()
        self._run("update-ref", f"{ref}/{time.time_ns():020}", id)
        return id

    def kept(self, ref: str) -> list[KeptCommit]:
        """Return the commits under a ref, oldest first."""
        form = "--format=%(refname) %(objectname) %(contents)%00"
        output = self._run("for-each-ref", form, ref).decode("utf-8", "surrogateescape")
        lines = (part.lstrip("\n") for part in output.split("\0"))
        found = [KeptCommit(*line.split(" ", 2)) for line in lines if line]
        return sorted(found, key=lambda kept: kept.ref.rpartition("/")[2])

    def forget(self, refs: Iterable[str]) -> None:
        """Delete refs; `tidy` frees the space."""
        self._run("update-ref", "--stdin", data="".join(f"delete {ref}\n" for ref in refs).encode())

    def tidy(self) -> None:
        """Repack, and free the space of unreferenced objects."""
        self._run("pack-refs", "--all")
        self._run("repack", "-a", "-d", "-q", timeout_s=WRITE_TIMEOUT_S)
        self._run("prune", "--expire=now", timeout_s=WRITE_TIMEOUT_S)

    def disk_bytes(self) -> int:
        """Return the size of all objects."""
        output = dict(line.split(": ") for line in self._run("count-objects", "-v").decode().splitlines())
        return 1024 * (int(output["size"]) + int(output["size-pack"]))

    def require(self, id: str) -> None:
        """Raise CheckpointError if there is no such commit."""
        if not _ID.fullmatch(id) or self._run("cat-file", "-t", id, also=(128,)).strip() != b"commit":
            raise CheckpointError(f"There is no checkpoint {id[:40]!a} of this workspace. Choose another one.")

    def entries(self, id: str) -> dict[str, Entry]:
        """Return all files of a commit."""
        found = {}
        for line in _texts(self._run("ls-tree", "-r", "-z", "--full-tree", id)):
            head, _, path = line.partition("\t")
            mode, _, content = head.split(" ")
            found[path] = Entry(int(mode, 8), content)
        return found

    def changes(self, one: str, other: str) -> list[FileChange]:
        """Return how the files of two commits differ, sorted by path. Renames are not detected."""
        command = ("diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
        kinds = _texts(self._run(*command, "--name-status", one, other))
        counts = {}
        for line in _texts(self._run(*command, "--numstat", one, other)):
            added, removed, path = line.split("\t", 2)
            counts[path] = None if added == "-" else (int(added), int(removed))
        found = []
        for letter, path in zip(kinds[::2], kinds[1::2], strict=True):
            kind = {"A": ChangeKind.CREATED, "D": ChangeKind.DELETED}.get(letter, ChangeKind.CHANGED)
            lines = counts.get(path, (0, 0))
            found.append(FileChange(path, kind, *(lines or (0, 0)), binary=lines is None))
        return found

    @contextmanager
    def contents(self) -> Iterator[Contents]:
        """Provide access to contents by ID."""
        with self._popen("cat-file", "--batch") as child:
            yield Contents(child)
            assert child.stdin is not None
            child.stdin.close()

    # -- running git -------------------------------------------------------------------------------------------------

    def _run(
        self,
        *command: str,
        data: bytes = b"",
        work_tree: str = "",
        environ: dict[str, str] | None = None,
        also: Sequence[int] = (),
        timeout_s: float = QUERY_TIMEOUT_S,
    ) -> bytes:
        with self._popen(*command, work_tree=work_tree, environ=environ or {}, timeout_s=timeout_s) as child:
            return self._finish(child, command[0], data, also=also)

    @contextmanager
    def _popen(
        self,
        *command: str,
        work_tree: str = "",
        environ: dict[str, str] | None = None,
        timeout_s: float = WRITE_TIMEOUT_S,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run git; it is killed after its time limit, or when the context is left."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        trees = [f"--work-tree={work_tree}"] if work_tree else []
        try:
            child = subprocess.Popen(
                ["git", f"--git-dir={self._folder}", *trees, *settings, *command],
                cwd=work_tree or self._folder,  # git lists only what is below its working folder
                env={"PATH": _search_path(), **_ENVIRON, **(environ or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(self._lock,),
                start_new_session=True,  # a keyboard interrupt must reach only Handloom
            )
        except OSError as error:
            raise CheckpointError(f"git cannot be run ({error.strerror}). Install git to use checkpoints.") from error
        ending = threading.Timer(timeout_s, child.kill)
        ending.start()
        self._child = child
        try:
            if self._is_cancelled:
                child.kill()
            with child, unblock_pipes(work_tree) if work_tree else nullcontext():
                try:
                    yield child
                except BaseException:
                    child.kill()
                    raise
        finally:
            self._child = None
            ending.cancel()

    def _finish(self, child: subprocess.Popen[bytes], what: str, data: bytes, *, also: Sequence[int] = ()) -> bytes:
        out, err = child.communicate(data) if not (child.stdin and child.stdin.closed) else _drained(child)
        if child.returncode not in (0, *also):
            reason = err.decode("utf-8", "replace").strip().rpartition("\n")[2] or "it was ended, or took too long"
            raise CheckpointError(f"The checkpoint failed: git {what}: {reason}.")
        return out


class Contents:
    """Reads from `git cat-file --batch`. Valid inside of `ShadowGit.contents`."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._in: IO[bytes] = child.stdin
        self._out: IO[bytes] = child.stdout

    def read(self, id: str, max_bytes: int | None = None) -> bytes:
        """Return the content of an ID. Raises CheckpointError if it is missing or too large."""
        try:
            self._in.write(f"{id}\n".encode())
            self._in.flush()
            head = self._out.readline().split()
            size = int(head[2])
            if max_bytes is not None and size > max_bytes:
                raise CheckpointError(f"The file has {size:,} bytes, which is too large to show here.")
            data = self._out.read(size + 1)
        except (OSError, ValueError, IndexError) as error:
            raise CheckpointError(f"The checkpoint store has lost the content {id}.") from error
        if len(data) != size + 1:
            raise CheckpointError("The checkpoint could not be read completely. Try again.")
        return data[:-1]


def object_id(content: bytes) -> str:
    """Return git's object ID of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _search_path() -> str:
    """Return the user's search path without relative entries, which would be looked up in the workspace."""
    return os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))


def _texts(data: bytes) -> list[str]:
    return os.fsdecode(data).split("\0")[:-1]


def _drained(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    assert child.stdout is not None
    assert child.stderr is not None
    out, err = child.stdout.read(), child.stderr.read()
    child.wait()
    return out, err


def _escaped(path: str) -> str:
    """Return an ignore pattern that matches exactly this path."""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", path)
