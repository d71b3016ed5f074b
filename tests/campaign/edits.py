"""An edit is killed at each of its system calls, in whichever of its threads makes it first.

strace is attached when the edit begins, counts the calls of a whole one, and kills other runs at the k-th, for every
k. Afterwards the file is the old one or the new, whole and with its mode; and a new server finds the way back.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runtime.server.editor import EditorError
from tests.campaign.editing import editor, version
from tests.campaign.syscalls import spread
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within
from tests.program import ROOT

PROMISE = "killed at any system call, an edit leaves the old file or the new one, and the way back"
SHORT = 16
"""Points in the short form, spread over all of them."""
WATCHED = "%file,%desc"
MODE = 0o754


@dataclass(frozen=True)
class Point:
    """The k-th call of a kind, in the first or the second edit of a file."""

    edits: int
    call: str
    k: int
    in_place: bool = False
    """Whether the file is written over, which the check has to notice."""

    def __str__(self) -> str:
        return f"edit {self.edits}: {self.call} {self.k}"


def run(limit: int | None, seed: int, *, in_place: bool = False) -> Result:
    """A kill at every point, or at `limit` of them, chosen by the seed."""
    points = [
        Point(edits, call, k, in_place)
        for edits in (1, 2)
        for call, n in calls(edits, in_place).items()
        for k in range(1, n + 1)
    ]
    return run_trials("edits", PROMISE, trial, spread(points, limit, seed), seed=seed)


def calls(edits: int, in_place: bool) -> Counter[str]:
    """How often a whole edit makes each call, in the thread that makes it most: strace counts by thread."""
    with tempfile.TemporaryDirectory(prefix="handloom-edits-") as name:
        log = Path(name) / "trace"
        (Path(name) / "files").mkdir()
        traced(Path(name) / "files", edits, in_place, "-o", str(log), "-e", f"trace={WATCHED}")
        by_thread = Counter(re.findall(r"^(\d+)\s+(\w+)\(", log.read_text("utf-8", "replace"), re.MULTILINE))
    found: Counter[str] = Counter()
    for (_, call), count in by_thread.items():
        found[call] = max(found[call], count)
    return found


def traced(folder: Path, edits: int, in_place: bool, *options: str) -> str:
    """Run the program under strace from its last edit on. Returns its output."""
    file = folder / "f"
    file.write_text(version(0))
    file.chmod(MODE)
    command = [sys.executable, "-m", "tests.campaign.editing", str(folder), str(edits)]
    command += ["--in-place"] * in_place
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        ready = program.stdout.readline()
        follow = ["strace", "-f", "-p", ready.split()[1], *options]
        with subprocess.Popen(follow, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            attached = strace.stderr.readline()
            assert "attached" in attached, attached
            with suppress(BrokenPipeError):  # killed in the very read that waits for this
                program.stdin.write("\n")
                program.stdin.close()
            said = program.stdout.read()
            strace.stderr.read()
    return said


def trial(point: Point) -> Facts:
    """One killed edit, and the checks afterwards."""
    with tempfile.TemporaryDirectory(prefix="handloom-edits-") as name:
        folder = Path(name).resolve()
        inject = f"inject={point.call}:signal=KILL:when={point.k}"
        said = traced(folder, point.edits, point.in_place, "-o", os.devnull, "-e", f"trace={point.call}", "-e", inject)
        nobody_is_left(within(2))
        facts = Facts()
        found = (folder / "f").read_text()
        check(found in (version(point.edits - 1), version(point.edits)), f"neither old nor new: {found[:100]!r}")
        check("done" not in said or found == version(point.edits), "done, and not there")
        check(stat.S_IMODE((folder / "f").stat().st_mode) == MODE, "the mode is lost")
        others = {item.name for item in folder.iterdir() if not item.name.startswith(".handloom-")}
        check(others == {"f", "undo"}, f"left behind: {others}")
        facts.counts["new" if found == version(point.edits) else "old"] += 1
        facts.counts["undone"] += check_way_back(folder, point.edits, found)
        return facts


def check_way_back(folder: Path, edits: int, found: str) -> int:
    """A new server takes every edit back, one by one; how many undos it takes. One may change nothing."""
    files, undone = editor(folder), 0
    while (text := (folder / "f").read_text()) != version(0):
        try:
            files.undo_edit(str(folder / "f"))
        except EditorError as error:
            check(False, f"no way back from {text[:9]} of {found[:9]}: {error}")
        undone += 1
        check(undone <= edits + 1, "undo does not come to an end")
    return undone
