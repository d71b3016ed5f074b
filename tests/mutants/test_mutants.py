"""Bugs are planted in a copy, tested with the tests that touch the file, and survivors are reported."""

from __future__ import annotations

import ast
import random
import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import Mutant, broken, changed_since, mutants_of, places_of
from tests.mutants.choosing import SuiteIndex
from tests.mutants.copies import SKIPPED, Verdict, copied
from tests.mutants.places import Bug, bugs_in, difference, is_sound
from tests.mutants.threats import NOT_PLANTED, PLANTED
from tests.program import ROOT
from tests.threats import THREATS

MODULE = b"""\
LIMIT = 3


def fits(count: int) -> bool:
    return count <= LIMIT


def first(names: list[str]) -> str:
    return names[0] if names else ""
"""
TEST = """\
import pytest

from core.toy import first, fits


def test_three_fit_and_four_do_not():
    assert fits(3)
    assert not fits(4)


def test_that_fails_whatever_is_planted():
    assert first(["a"]) == "b"


@pytest.mark.skip
def test_that_is_skipped():
    assert not fits(3)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A source tree of one module, with a test that notices some of its bugs and one that always fails."""
    root = tmp_path / "toy"
    for package in ("core", "tests"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").touch()
    (root / "core" / "toy.py").write_bytes(MODULE)
    (root / "tests" / "test_toy.py").write_text(TEST, "utf-8")
    (root / "tests" / "test_missing.py").write_text("import no_such_module\n", "utf-8")
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "-p no:cacheprovider"\n', "utf-8")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "one")
    return root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True)


def planted(source: bytes) -> set[str]:
    """Every changed line that the bugs of a source give."""
    texts: set[str] = set()
    for bugs in bugs_in(source):
        for bug in bugs:
            lines = difference("x", source, bug.planted_in(source)).splitlines()
            texts.update(line[1:].strip() for line in lines[3:] if line.startswith("+"))
    return texts


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {"x = a <= b"}),
        ("x = (a) is  not b", {"x = (a) is b"}),
        ("x = a < b <= c", {"x = a <= b <= c", "x = a < b < c"}),
        ("x = a and b", {"x = (a) or (b)"}),
        ("x = not a", {"x = bool(a)"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = 600", {"x = 1200"}),
        ("x = y + 'text'", set()),
        ("x = y - z", {"x = y + z"}),
        ("x = y[:n]", {"x = y[:(n) + 1]"}),
        ("x = 'ü' if y else z", {"x = 'ü' if (not (y)) else z"}),
        ("if x: y = z", {"if not (x): y = z"}),
        ("def f(x: Literal[1]) -> T[2]: return x", {"def f(x: Literal[1]) -> T[2]: return None"}),
        ("def f(): return a == b", {"def f(): return not (a == b)", "def f(): return a != b"}),
        ("close(x)", {"pass"}),
        ("await close(x)", {"pass"}),
        ("log.info('%s', 1)", set()),
        ("self.x = y", {"pass"}),
        ("x += y", {"pass"}),
        ("raise x", {"pass"}),
        ("try: x\nexcept (A, B): y", {"except A: y", "except B: y"}),
        ("try: x\nexcept A: y", {"except (): y"}),
        ("for x in y: continue", {"for x in y: pass"}),
        ("x = [y for y in z if a]", {"x = [y for y in z if True]"}),
        ("assert x == 1", set()),
        ("if TYPE_CHECKING: x = 1", set()),
    ],
)
def test_each_location_gets_its_bug(source: str, expected: set[str]) -> None:
    assert planted(source.encode()) == expected


def test_every_mutant_of_this_repository_can_be_parsed() -> None:
    for path in ("core/store/writer.py", "core/security/taint.py", "runtime/server/safe_paths.py"):
        source = (ROOT / path).read_bytes()
        places = bugs_in(source)
        assert len(places) > 20
        for bugs in places[:: len(places) // 20]:
            for bug in bugs:
                assert is_sound(source, bug), difference(path, source, bug.planted_in(source))


def test_unparsable_or_ineffective_mutant_is_rejected() -> None:
    assert is_sound(b"x = 1", Bug(1, "constant", 4, 5, b"2"))
    assert not is_sound(b"x = 1", Bug(1, "constant", 4, 5, b"(1)"))
    assert not is_sound(b"x = 1", Bug(1, "constant", 4, 5, b"("))


def test_only_changed_lines_are_mutated(toy: Path) -> None:
    (toy / "core" / "toy.py").write_bytes(MODULE.replace(b"names[0]", b"names[1]"))
    assert changed_since(toy, "HEAD") == {"core/toy.py": {9}}
    lines = places_of(toy, "core", "HEAD")
    assert lines == {"core/__init__.py": set(), "core/toy.py": {9}}
    assert {mutant.bug.line for mutant in mutants_of(toy, lines, 60, random.Random(1))} == {9}


def test_sample_has_the_requested_size_and_depends_on_the_seed(toy: Path) -> None:
    def taken(seed: int) -> list[Mutant]:
        return list(mutants_of(toy, {"core/toy.py": None}, 3, random.Random(seed)))

    assert len(taken(1)) == 3
    assert taken(1) == taken(1)
    assert any(taken(1) != taken(seed) for seed in range(2, 9))


def test_tests_of_a_module_match_its_name_or_import_it() -> None:
    tests = SuiteIndex(ROOT)
    assert tests.touching("core/security/taint.py")[:2] == [
        "tests/security/test_taint.py",
        "tests/security/test_taint_answers.py",
    ]
    assert "tests/security/test_disguised.py" in tests.touching("core/security/command_check.py")
    assert tests.touching("core/store/locks.py")[0] == "tests/store/test_locks.py"


@pytest.mark.timeout(300)
def test_mutant_is_killed_by_a_passing_test_and_the_tree_is_unchanged(toy: Path, tmp_path: Path) -> None:
    wrong_bound, swapped = MODULE.replace(b"<=", b"<"), MODULE.replace(b"if names", b"if not names")
    with copied(toy, 1, tmp_path / "copies") as copy:
        killed = copy.judge("core/toy.py", wrong_bound, ["tests/test_toy.py"], 100)
        assert killed == Verdict("tests/test_toy.py::test_three_fit_and_four_do_not")
        assert copy.judge("core/toy.py", swapped, ["tests/test_toy.py"], 100) == Verdict()
        skipped = ["tests/test_toy.py::test_that_is_skipped"]
        assert copy.judge("core/toy.py", wrong_bound, skipped, 100) == Verdict(not_tried=SKIPPED)
        cannot_run = copy.judge("core/toy.py", wrong_bound, ["tests/test_missing.py"], 100)
        assert cannot_run == Verdict(not_tried="its tests fail here without the bug too")
        assert (copy.folder / "core" / "toy.py").read_bytes() == MODULE
        held = copy.folder
    assert (toy / "core" / "toy.py").read_bytes() == MODULE
    assert not held.exists()


def test_every_threat_row_has_one_bug_or_a_reason() -> None:
    planted = [bug.number for bug in PLANTED]
    assert planted == [row.number for row in THREATS if row.number not in NOT_PLANTED]
    assert NOT_PLANTED.keys() <= {row.number for row in THREATS}


def test_bug_of_each_threat_row_has_its_location() -> None:
    for bug in PLANTED:
        ast.parse(broken(ROOT, bug))


def test_every_bug_of_a_row_is_killed_by_a_test_of_that_row() -> None:
    tests = {row.number: row.tests for row in THREATS}
    assert [bug.number for bug in PLANTED if bug.test not in tests[bug.number]] == []
