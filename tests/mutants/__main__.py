"""Plant bugs and print those that no test noticed: `python -m tests.mutants`. It ends with 0 whatever survived."""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.choosing import PACKAGES, SuiteIndex
from tests.mutants.copies import Copy, Verdict, copied
from tests.mutants.places import Bug, bugs_in, difference, is_sound
from tests.mutants.threats import PLANTED, Planted
from tests.program import ROOT

COUNT = 60
LIMIT_S = 600
"""Time limit of the tests of one bug, enough for the slowest eight files; afterwards it counts as survived."""
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@|^\+\+\+ b/(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """One bug in one file."""

    path: str
    bug: Bug

    def __str__(self) -> str:
        return f"{self.path}:{self.bug.line} ({self.bug.kind})"


def changed_since(root: Path, commit: str) -> dict[str, set[int]]:
    """The lines of the program's files that are not as they were in a commit."""
    command = ("git", "diff", "--unified=0", "--no-ext-diff", "--no-color", commit, "--", *PACKAGES)
    out = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    found: dict[str, set[int]] = {}
    lines: set[int] = set()
    for first, count, path in HUNK.findall(out):
        if path:
            lines = found.setdefault(path, set())
        else:
            lines.update(range(int(first), int(first) + int(count or 1)))
    return {path: lines for path, lines in found.items() if path.endswith(".py") and (root / path).exists()}


def mutants_of(root: Path, places: dict[str, set[int] | None], count: int, chance: random.Random) -> Iterator[Mutant]:
    """So many places at random, with one bug each."""
    found = []
    for path, lines in sorted(places.items()):
        found += [(path, bugs) for bugs in bugs_in((root / path).read_bytes(), lines)]
    chance.shuffle(found)
    for path, bugs in found:
        if count == 0:
            return
        bug = chance.choice(bugs)
        if is_sound((root / path).read_bytes(), bug):
            count -= 1
            yield Mutant(path, bug)


def places_of(root: Path, package: str, since: str) -> dict[str, set[int] | None]:
    """The files to break, each with its lines where only some are meant."""
    changed = changed_since(root, since or "HEAD~1") if since or not package else None
    if not package:
        assert changed is not None
        return dict(changed)
    named = root / package.rstrip("/")
    paths = [named] if named.is_file() else sorted(named.rglob("*.py"))
    files = [str(path.relative_to(root)) for path in paths]
    return {path: None if changed is None else changed.get(path, set()) for path in files}


def try_mutants(copy: Copy, mutants: Sequence[Mutant], tests: Sequence[str]) -> list[tuple[Mutant, str]]:
    """The survivors, each with an explanation; every mutant is reported as it is tried."""
    known = SuiteIndex(ROOT)
    survivors = []
    for number, mutant in enumerate(mutants, 1):
        source = (ROOT / mutant.path).read_bytes()
        chosen = list(tests) or known.touching(mutant.path)
        broken = mutant.bug.planted_in(source)
        verdict = copy.judge(mutant.path, broken, chosen, LIMIT_S) if chosen else Verdict()
        print(f"{number}/{len(mutants)} {mutant}: {_told(verdict)}", flush=True)
        if not verdict.killed_by:
            ran = f"after {' '.join(chosen) or 'no test: none touches this file'}"
            survivors.append((mutant, f"{difference(mutant.path, source, broken)}\n{ran}"))
    return survivors


def _told(verdict: Verdict) -> str:
    if verdict.killed_by:
        return f"killed by {verdict.killed_by}"
    if verdict.not_tried:
        return f"NOT TRIED, {verdict.not_tried}"
    return f"SURVIVED, the tests were ended after {LIMIT_S} s" if verdict.is_over else "SURVIVED"


def try_threats(copy: Copy, numbers: Sequence[str]) -> list[str]:
    """Plant the bug of each row; returns the rows whose test ran and did not notice it."""
    survivors = []
    for planted in [planted for planted in PLANTED if not numbers or planted.number in numbers]:
        verdict = copy.judge(planted.path, broken(ROOT, planted), [planted.test], LIMIT_S)
        print(f"{planted.number} {planted.path}: {_told(verdict)}", flush=True)
        if not (verdict.killed_by or verdict.not_tried):
            survivors.append(planted.number)
    return survivors


def broken(root: Path, planted: Planted) -> bytes:
    """The source of the file with the bug of a row. Raises ValueError where its place is not there exactly once."""
    source = (root / planted.path).read_text("utf-8")
    if source.count(planted.old) != 1:
        raise ValueError(f"{planted.number}: {planted.old!r} is {source.count(planted.old)} times in {planted.path}")
    return source.replace(planted.old, planted.new).encode()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--package", default="", metavar="PATH", help="a package or a file, such as core/store")
    parser.add_argument("--since", default="", metavar="COMMIT", help="lines that changed since then; else HEAD~1")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--tests", nargs="+", default=[], metavar="TEST", help="the tests to run for every bug")
    parser.add_argument("--threats", nargs="*", metavar="ROW", help="the bugs of these rows of the threats, or of all")
    options = parser.parse_args()
    if options.threats is not None:
        with copied(ROOT, options.seed) as copy:
            survivors = try_threats(copy, options.threats)
        print(f"\nRows whose test noticed nothing: {', '.join(survivors) or 'none'}")
        return 0
    places = places_of(ROOT, options.package, options.since)
    mutants = list(mutants_of(ROOT, places, options.count, random.Random(options.seed)))
    print(f"{len(mutants)} bugs in {len({mutant.path for mutant in mutants})} files, seed {options.seed}", flush=True)
    with copied(ROOT, options.seed) as copy:
        left = try_mutants(copy, mutants, options.tests)
    for mutant, told in left:
        print(f"\n{mutant}\n{told}")
    print(f"\n{len(left)} of {len(mutants)} survived ({len(left) / max(1, len(mutants)):.0%}), seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
