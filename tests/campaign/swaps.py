"""Reads, writes and edits of files, while another process swaps folders and files for links to the outside.

Nothing outside is read or changed, and every file inside has one complete content. A try may be refused with a reason;
refused and successful tries are counted, so that a race that never happens is noticed, too.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.server import text_file
from runtime.server.editor import Editor, EditorError
from runtime.server.safe_paths import FileError, Roots
from runtime.server.text_file import replace
from tests.campaign import swapper
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within
from tests.program import ROOT

PROMISE = "however links are swapped in, no file outside is read or changed, and none inside is half"
FULL, SHORT = 1_000_000, 20_000
CHUNK = 5_000
LINES = 100
UMASK = 0o022
PLACES = ("d/f", "d/f", "e/f", "d-link/f", "d/f-link", "d/new", "e/made/new")
MEMORY = "/dev/shm"
"""Where syncing is free: it is the moment between two system calls that is tried here, not the disk."""

Try = Callable[[str], str | None]
"""Does something with a path. Returns what was read, if anything."""


def run(count: int, seed: int, *, by_path: bool = False) -> Result:
    """So many tries. `by_path` is the control: files are opened by their paths."""
    weight = min(CHUNK, count)
    cases = [(first, weight, by_path) for first in range(seed, seed + count, weight)]
    return run_trials("swaps", PROMISE, trial, cases, seed=seed, weight=weight)


def trial(case: tuple[int, int, bool]) -> Facts:
    """A chunk of tries, in a folder of its own with a swapper of its own; every second one without `openat2`."""
    seed, count, by_path = case
    chance, facts = random.Random(seed), Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-swaps-", dir=MEMORY if os.path.isdir(MEMORY) else None) as name:
        base = Path(name).resolve()
        swapper.prepare(base)
        roots = Roots([base / "root"], walks=seed // count % 2 == 1)
        tries = [naive_read, naive_write] if by_path else list(careful(roots))
        with swapping(base):
            for number in range(count):
                _one(chance.choice(tries), f"{base}/root/{chance.choice(PLACES)}", facts)
                if number % 100 == 0:
                    check_outside(base)
        check_outside(base)
        check_inside(base, facts)
    nobody_is_left(within(2))
    return facts


def _one(attempt: Try, path: str, facts: Facts) -> None:
    try:
        text = attempt(path)
    except (FileError, EditorError, OSError) as error:
        facts.counts[f"refused: {type(error).__name__}"] += 1
        return
    facts.counts["went through"] += 1
    if text is not None:
        check_text(path, text)


def careful(roots: Roots) -> Iterator[Try]:
    """The server's file operations."""
    editor = Editor(roots, UMASK)
    versions = iter(range(1, sys.maxsize))

    def read(path: str) -> str:
        with roots.locate(path) as place:
            return text_file.read(place).text

    def write(path: str) -> None:
        with roots.locate(path, umask=UMASK) as place:
            replace(place, f"{next(versions)}\n".encode() * LINES, UMASK)

    def edit(path: str) -> str:
        old = read(path)
        return editor.str_replace(path, old, f"{next(versions)}\n" * LINES).new

    def undo(path: str) -> str:
        return editor.undo_edit(path).new

    def view(path: str) -> None:
        check("SECRET" not in editor.view(os.path.dirname(path)), "the outside was listed")

    yield from (read, read, read, write, edit, undo, view)


def naive_read(path: str) -> str:
    """Looks first, then opens: what must be noticed."""
    if not os.path.realpath(path).startswith(path.partition("/root/")[0] + "/root/"):
        raise FileError(path)
    return Path(path).read_text()


def naive_write(path: str) -> None:
    if not os.path.realpath(path).startswith(path.partition("/root/")[0] + "/root/"):
        raise FileError(path)
    Path(path).write_text("1\n" * LINES)


def check_text(path: str, text: str) -> None:
    check("SECRET" not in text, f"the outside was read through {path}")
    lines = text.splitlines()
    check(len(lines) == LINES and len(set(lines)) == 1, f"{path} is half: {text[:200]!r}")


def check_outside(base: Path) -> None:
    names = sorted(os.listdir(base / "outside"))
    check(names == ["SECRET", "f"], f"written outside: {names}")
    check((base / "outside/f").read_text() == "SECRET\n" * 100, "changed outside")


def check_inside(base: Path, facts: Facts) -> None:
    """Every file is complete, and no temporary file is left."""
    for folder, _, files in os.walk(base / "root"):
        for name in files:
            path = os.path.join(folder, name)
            check(not name.startswith("."), f"left behind: {path}")
            if not os.path.islink(path):
                check_text(path, Path(path).read_text())
                facts.counts["files found whole"] += 1


@contextmanager
def swapping(base: Path) -> Iterator[None]:
    """Have folders and links swapped meanwhile."""
    command = [sys.executable, "-m", "tests.campaign.swapper", str(base)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
