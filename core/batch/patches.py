"""The patch of an attempt: every difference of its files from the commit that it began at.

The files were written by an agent, and may be made to run a program, to hang or to fill the memory of whoever looks at
them. So git never uses a git folder of theirs: the patch is made with an index of ours; repositories inside are left
out or have their git folder taken away meanwhile; pipes and other special files are removed; large files are left out.
All functions block.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from core.batch.tasks import BatchTask
from core.batch.workspaces import mirror_folder, why
from core.git import GitError, run_git

MAX_PATCH_BYTES = 64 * 1024 * 1024
MAX_FILE_BYTES = MAX_PATCH_BYTES
PATCH_S = 600.0
NAMED = 5
"""Paths that a note names."""
_ENVIRON = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_WITHOUT_ENCODINGS = "* -working-tree-encoding\n"


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch, and what it leaves out."""

    text: str = ""
    note: str = ""
    """For the user; empty if it is complete."""


@dataclass(slots=True)
class _Found:
    """What the files of an attempt have that git must not meet."""

    repositories: list[str] = field(default_factory=list)
    """Folders below the first one with a git folder of their own, relative."""
    large: list[str] = field(default_factory=list)


def make_patch(task: BatchTask, folder: Path, batch: Path, commit: str) -> Patch:
    """Make the patch of an attempt in `folder` that began at `commit`. What is wrong is in its note."""
    if not commit:
        return Patch()
    scratch = folder.parent / ".patch"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        found = _look(folder)
        run_git("init", "--quiet", "--bare", str(scratch), environ=_ENVIRON)
        objects = mirror_folder(task.repo, batch) / "objects"
        (scratch / "objects" / "info" / "alternates").write_text(f"{objects}\n", "utf-8")
        return _make(folder, scratch, commit, found)
    except (OSError, GitError) as error:
        return Patch("", f"There is no patch: {why(error)}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make(folder: Path, scratch: Path, commit: str, found: _Found) -> Patch:
    here = (f"--git-dir={scratch}", f"--work-tree={folder}", "-c", "core.bigFileThreshold=16m")
    run_git(*here, "read-tree", commit, environ=_ENVIRON)
    entries = _entries(run_git(*here, "ls-files", "--stage", "-z", environ=_ENVIRON))
    submodules = [path for mode, path in entries if mode == "160000"]
    if submodules:
        run_git(*here, "update-index", "--force-remove", "-z", "--stdin", environ=_ENVIRON, stdin="\0".join(submodules))
    tracked = {str(parent) for _, path in entries for parent in Path(path).parents} - {"."}
    hidden = [path for path in found.repositories if path in tracked and path not in submodules]
    left_out = [*submodules, *(path for path in found.repositories if path not in hidden), *found.large]
    paths = "\0".join([".", *(f":(exclude,literal){path}" for path in left_out)])
    add = partial(
        run_git,
        *(*here, "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"),
        environ=_ENVIRON,
        cwd=folder,
        limit_s=PATCH_S,
        stdin=paths,
    )
    with _hidden(folder, scratch, hidden):
        try:
            add()
        except GitError:  # a file that does not have the encoding which it claims, or that cannot be read
            (scratch / "info").mkdir(exist_ok=True)
            (scratch / "info" / "attributes").write_text(_WITHOUT_ENCODINGS, "utf-8")
            add("--ignore-errors", statuses=(0, 1))
    text = run_git(
        *(*here, "diff", "--cached", "--binary", "--no-color", "--no-ext-diff", "--no-textconv"),
        *("--ignore-submodules=all", commit, "--", ".", *(f":(exclude,literal){path}" for path in submodules)),
        environ=_ENVIRON,
        cwd=folder,
        limit_s=PATCH_S,
        most_bytes=MAX_PATCH_BYTES,
    )
    if len(text) >= MAX_PATCH_BYTES:
        return Patch("", f"There is no patch: it is larger than {MAX_PATCH_BYTES // 1024**2} MB.")
    gone = [path for path in found.repositories if path not in hidden and path not in submodules]
    notes = [_note("Repositories inside are not in the patch", gone)]
    notes.append(_note(f"Files above {MAX_FILE_BYTES // 1024**2} MB are not in the patch", found.large))
    return Patch(text, " ".join(filter(None, notes)))


def _note(what: str, paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{what}: {', '.join(paths[:NAMED])}{more}." if paths else ""


def _entries(text: str) -> list[tuple[str, str]]:
    """Mode and path of each entry that `ls-files --stage -z` prints."""
    entries = []
    for line in filter(None, text.split("\0")):
        facts, _, path = line.partition("\t")
        entries.append((facts.split(" ", 1)[0], path))
    return entries


def _look(folder: Path) -> _Found:
    """Walk through the files without following links. Removes special files, and makes the others readable."""
    found, waiting = _Found(), [folder]
    while waiting:
        place = waiting.pop()
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            place.chmod(0o700)
        if place != folder and os.path.lexists(place / ".git"):
            found.repositories.append(str(place.relative_to(folder)))
        with os.scandir(place) as entries:
            for entry in entries:
                if place == folder and entry.name == ".git":
                    continue
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    waiting.append(Path(entry.path))
                elif stat.S_ISREG(facts.st_mode):
                    if facts.st_size > MAX_FILE_BYTES:
                        found.large.append(str(Path(entry.path).relative_to(folder)))
                    elif not os.access(entry.path, os.R_OK):
                        os.chmod(entry.path, 0o600)
                elif not stat.S_ISLNK(facts.st_mode):
                    os.unlink(entry.path)
    found.repositories.sort()
    found.large.sort()
    return found


@contextmanager
def _hidden(folder: Path, scratch: Path, repositories: Sequence[str]) -> Iterator[None]:
    """Take the git folders of these repositories away meanwhile: their files belong to the one around them."""
    moved: list[tuple[Path, Path]] = []
    try:
        for number, path in enumerate(repositories):
            away = scratch.with_name(f".patch-{number}")
            git = folder / path / ".git"
            git.rename(away)
            moved.append((git, away))
        yield
    finally:
        for git, away in moved:
            away.rename(git)
