"""A copy of the source tree in which bugs are planted: the user's own files are never written.

The copy has the files that git knows or would add, and an environment whose packages are hard links to those of the
running one, with the copy in the place of the tree: a server that a test starts elsewhere has the bug as well. A
failure counts only where the same test passes in the copy without the bug, so tests that fail anyway kill nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.warm import WarmPython

HANGS_S = 60
"""A test that takes this long has failed."""
NEAREST = 2
"""Files of tests that run first, by themselves."""
ENDED = frozenset({0, 1, 5})
"""Exit statuses of pytest: passed, failed, no tests."""
FAILURE = re.compile(r"^(?:FAILED|ERROR) ([^\s\[:]+(?:::[^\s\[]+)?)", re.MULTILINE)
PLACES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handloom" / "mutants"
"""Not the folder for temporary files: that one may lie in memory, and on another disk links are copies."""
SKIPPED = "its tests were skipped here"
MOST_FAILING = 5
"""Tests that fail without the bug too; beyond this many, the copy is no place to run them."""


@dataclass(frozen=True)
class Verdict:
    """The result of the tests: the one that failed because of the bug, if any, and whether they timed out."""

    killed_by: str = ""
    is_over: bool = False
    not_tried: str = ""
    """Why the tests say nothing of the bug: they were skipped, or fail without it too."""


class Copy:
    """One copy. `folder` is empty at first, and on the disk of the environment for links to be possible."""

    def __init__(self, root: Path, folder: Path, seed: int) -> None:
        self.folder = folder
        self._root = root
        self._environ = os.environ | {
            "HANDLOOM_SEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "", "VIRTUAL_ENV": "",
        }  # fmt: skip
        self._warm: WarmPython | None = None
        self._failing: set[str] = set()
        self._passing: set[tuple[str, ...]] = set()

    def make(self) -> None:
        """Copy the tree, link the environment, compile."""
        listing = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        listed = subprocess.run(listing, cwd=self._root, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (self._root / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._root / name, self.folder / name)
        for command in (("git", "init", "--quiet"), ("git", "add", "--all")):
            subprocess.run(command, cwd=self.folder, check=True)
        shutil.copytree(sys.prefix, self.folder / ".venv", symlinks=True, copy_function=_linked)
        for file in self._python_paths():
            text = file.read_text("utf-8")
            if str(self._root) in text.splitlines():
                file.unlink()  # it is a link to the file of the running environment
                file.write_text(text.replace(str(self._root), str(self.folder)), "utf-8")
        compiling = (sys.executable, "-m", "compileall", "-q", "core", "runtime", "tui", "tests")
        subprocess.run(compiling, cwd=self.folder, env=self._environ, stdout=subprocess.DEVNULL, check=False)

    def _python_paths(self) -> list[Path]:
        return list((self.folder / ".venv").glob("lib/python*/site-packages/*.pth"))

    @contextmanager
    def planted(self, path: str, source: bytes) -> Iterator[None]:
        """The file at `path` with another source."""
        file = self.folder / path
        before = file.read_bytes()
        self._write(file, source)
        try:
            yield
        finally:
            self._write(file, before)

    def _write(self, file: Path, source: bytes) -> None:
        """Compiled forms go: the same length in the same second would be taken for the same source."""
        file.write_bytes(source)
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            compiled.unlink()

    def judge(self, path: str, source: bytes, tests: Sequence[str], limit_s: float) -> Verdict:
        """Run the tests with the bug until one fails that passes without it."""
        for _ in range(MOST_FAILING):
            with self.planted(path, source):
                verdict = self._run(tests, limit_s)
            if not verdict.killed_by or self._passes(verdict.killed_by, tests, limit_s):
                return verdict
            self._failing.add(verdict.killed_by)
        return Verdict(not_tried="its tests fail here without the bug too")

    def _passes(self, test: str, tests: Sequence[str], limit_s: float) -> bool:
        """Whether a test passes without any bug. A run that broke down has no test, and is run again whole."""
        again = (test,) if "/" in test else tuple(tests)
        if again not in self._passing:
            verdict = self._run(again, limit_s)
            if verdict.killed_by or verdict.is_over:
                return False
            self._passing.add(again)
        return True

    def _run(self, tests: Sequence[str], limit_s: float) -> Verdict:
        """The first test that fails, or what else broke the run; and whether it was ended for its time.

        The nearest files run first by themselves: most bugs are noticed there, and the others need not be imported.
        """
        end = time.monotonic() + limit_s
        verdicts = []
        for part in (tests[:NEAREST], tests[NEAREST:]):
            if part:
                verdicts.append(self._run_part(part, max(1.0, end - time.monotonic())))
                if verdicts[-1].killed_by or verdicts[-1].is_over:
                    return verdicts[-1]
        return Verdict(not_tried=SKIPPED if all(verdict.not_tried for verdict in verdicts) else "")

    def _run_part(self, tests: Sequence[str], limit_s: float) -> Verdict:
        left_out = [part for test in sorted(self._failing) for part in ("--deselect", test)]
        options = ["-x", "-q", "-rfE", "--tb=no", "-o", f"timeout={HANGS_S}"]
        if self._warm is None:
            self._warm = WarmPython(self.folder / ".venv" / "bin" / "python", self.folder, self._environ)
        output = self.folder / ".output"
        status = self._warm.run([*options, *left_out, *tests], output, limit_s)
        if status is None:
            return Verdict(is_over=True)
        out = output.read_text("utf-8", "replace")
        if found := FAILURE.search(out):
            return Verdict(found[1])
        if status not in ENDED:
            return Verdict(f"the run ended with {status}")
        return Verdict(not_tried="" if " passed" in out else SKIPPED)

    def close(self) -> None:
        """End what runs the tests."""
        if self._warm is not None:
            self._warm.close()


@contextmanager
def copied(root: Path, seed: int, places: Path = PLACES) -> Iterator[Copy]:
    """A copy for a while."""
    places.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=places, ignore_cleanup_errors=True) as folder:
        copy = Copy(root, Path(folder), seed)
        try:
            copy.make()
            yield copy
        finally:
            copy.close()


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
