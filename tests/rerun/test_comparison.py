"""Comparing two results: what normalization removes, lines, differences within them, and what cannot be compared."""

from __future__ import annotations

import time

import pytest

from core.events import (
    CmdOutputMetadata,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    Observation,
)
from core.rerun.comparison import (
    MAX_LINE,
    MAX_LINES,
    RULES,
    Comparison,
    Line,
    Origin,
    Outcome,
    changed,
    compare,
    normalize,
)


def ran(content: str, exit_code: int = 0) -> Observation:
    return CmdOutputObservation(command="x", content=content, metadata=CmdOutputMetadata(exit_code=exit_code))


def test_equal_results_are_the_same() -> None:
    assert compare(ran("a\nb"), ran("a\nb")) == Comparison(
        Outcome.SAME,
        (
            Line("[exit code 0]", "[exit code 0]", Outcome.SAME),
            Line("a", "a", Outcome.SAME),
            Line("b", "b", Outcome.SAME),
        ),
    )


def test_differing_words_of_a_line_are_marked() -> None:
    found = compare(ran("a\nthe old word\nc"), ran("a\nthe new word\nc"))
    assert found.outcome is Outcome.DIFFERENT
    assert found.lines[2] == Line("the old word", "the new word", Outcome.DIFFERENT, ((4, 7),), ((4, 7),))


def test_added_line_has_no_counterpart() -> None:
    found = compare(ran("a\nc"), ran("a\nb\nc"))
    assert [(line.recorded, line.new) for line in found.lines] == [
        ("[exit code 0]", "[exit code 0]"),
        ("a", "a"),
        (None, "b"),
        ("c", "c"),
    ]
    assert found.differences == 1


def test_matching_rules_are_named() -> None:
    found = compare(ran("took 12 ms\nok"), ran("took 15 ms\nok"))
    assert (found.outcome, found.rules, found.differences) == (Outcome.ALIKE, frozenset({"durations"}), 0)
    assert found.lines[1] == Line("took 12 ms", "took 15 ms", Outcome.ALIKE, ((5, 7),), ((5, 7),))


def test_rules_of_equal_lines_are_not_named() -> None:
    assert compare(ran("took 12 ms"), ran("took 12 ms")).rules == frozenset()


def test_another_exit_code_is_always_a_difference() -> None:
    assert compare(ran("same", 0), ran("same", 1)).outcome is Outcome.DIFFERENT


def test_error_with_the_same_text_is_a_difference() -> None:
    content = FileReadObservation(content="text", path="f")
    assert compare(content, ErrorObservation(content="text")).outcome is Outcome.DIFFERENT


def test_edits_are_compared_by_the_file_that_they_left() -> None:
    one = FileEditObservation(content="worded like this", path="/w/a", new_content="x\ny")
    other = FileEditObservation(content="worded like that", path="/w/a", new_content="x\ny")
    assert compare(one, other).outcome is Outcome.SAME
    assert compare(one, other.model_copy(update={"new_content": "x\nz"})).outcome is Outcome.DIFFERENT


def test_missing_result_gives_outcome_missing() -> None:
    assert compare(None, ran("a")).outcome is Outcome.MISSING
    assert [line.recorded for line in compare(ran("a"), None).lines] == ["[exit code 0]", "a"]
    assert compare(None, None) == Comparison(Outcome.MISSING)


def test_long_results_are_compared_line_by_line() -> None:
    many = "\n".join(str(number) for number in range(MAX_LINES + 5))
    found = compare(ran(many), ran(many + "\nmore"))
    assert (found.outcome, found.differences) == (Outcome.DIFFERENT, 1)


def test_spans_are_words() -> None:
    assert changed("a = 10", "a = 12") == (((4, 6),), ((4, 6),))
    assert changed("", "new") == ((), ((0, 3),))


def test_common_last_lines_are_aligned() -> None:
    left, right = (["head", *(f"{name}{number}" for number in range(MAX_LINES + 9)), "tail"] for name in "ab")
    found = compare(ran("\n".join(left)), ran("\n".join([*right[:-1], "more", "tail"])))
    assert (found.lines[1].new, found.lines[-1].recorded, found.lines[-1].new) == ("head", "tail", "tail")
    assert found.differences == MAX_LINES + 10


def test_comparing_unrelated_results_is_fast() -> None:
    left, right = ("\n".join(f"{name} {number} " + "x y " * 99 for number in range(900)) for name in "ab")
    began = time.thread_time()
    assert compare(ran(left), ran(right)).differences == 900
    assert time.thread_time() - began < 5


SAME = {
    "file dates": [
        ("-rw-r--r-- 1 root root 22 Nov 22 00:05 a.py", "-rw-r--r-- 1 root root 22 Jan  3  2025 a.py"),
        ("drwxr-xr-x+ 2 me me 4096 2025-01-03 10:00 d", "drwxr-xr-x+ 2 me me 4096 2026-11-22 00:05 d"),
    ],
    "kernel ids": [("File /tmp/ipykernel_12/345.py", "File /tmp/ipykernel_99/777.py")],
    "ids": [("id 0f8fad5b-d9cb-469f-a165-70867728950e", "id 7c9e6679-7425-40de-944b-e07fc1f90ae7")],
    "temporary paths": [
        ("/tmp/tmp.Zr5rWmQ1Ab", "/tmp/tmp.0a1B2c3D4e"),
        ("in /tmp/tmpab12cd34/x", "in /tmp/tmp_9z8y7x6/x"),
    ],
    "times": [
        ("Sun Nov 22 00:05:33 UTC 2026", "Mon Jan  5 10:15:00 UTC 2025"),
        ("[27/Jan/2025 22:44:56] GET", "[22/Nov/2026 00:05:33] GET"),
        ("2025-01-27T22:44:56.900854Z start", "2026-11-22T00:05:33.1Z start"),
        ("at 10:15:00", "at 23:59:59"),
    ],
    "durations": [
        ("real\t0m0.003s", "real\t0m1.250s"),
        ("1 passed in 0.01s", "1 passed in 0.22s"),
        ("took 12 ms", "took 980 ms"),
        ("done in 3 seconds", "done in 14 seconds"),
    ],
    "process ids": [("[1] 4711", "[1] 12"), ("started, pid=33", "started, pid=4"), ("PID 5 ended", "PID 66 ended")],
    "ports": [("listening on port 45123", "listening on port 50001"), ("http://127.0.0.1:40000/", "http://127.0.0.1:33000/")],
    "addresses": [("<object at 0x7ff78d54c6f0>", "<object at 0x7f00aa54c6f0>")],
    "interpreters": [("[Jupyter Python interpreter: /a/python]", "[Jupyter Python interpreter: /b/python]")],
    "commits": [
        ("[main (root-commit) 1a2b3c4] first", "[main (root-commit) 9f8e7d6] first"),
        (f"commit {'a' * 40}", f"commit {'b' * 40}"),
    ],
}  # fmt: skip

DIFFERENT = {
    "file dates": [
        ("-rw-r--r-- 1 root root 22 Nov 22 00:05 a.py", "-rw-r--r-- 1 root root 23 Nov 22 00:05 a.py"),
        ("-rw-r--r-- 1 root root 22 Nov 22 00:05 a.py", "-rwxr-xr-x 1 root root 22 Nov 22 00:05 a.py"),
        ("-rw-r--r-- 1 root root 22 Nov 22 00:05 a.py", "-rw-r--r-- 1 root root 22 Nov 22 00:05 b.py"),
    ],
    "kernel ids": [("File /tmp/ipykernel_12/345.py, line 1", "File /tmp/ipykernel_12/345.py, line 2")],
    "ids": [("0f8fad5b-d9cb", "7c9e6679-7425")],
    "temporary paths": [("/tmp/report.txt", "/tmp/result.txt"), ("/tmp/tmp.Zr5rWmQ1Ab/a", "/tmp/tmp.Zr5rWmQ1Ab/b")],
    "times": [("2025-01-27", "2026-11-22"), ("ratio 3:4", "ratio 3:5"), ("version 1.10:15", "version 1.10:16")],
    "durations": [("sleep 5 s", "sleep 6 s"), ("3 items", "4 items"), ("version 1.2", "version 1.3"),
                  ("1 passed in 0.01s", "2 passed in 0.01s")],
    "process ids": [("[1] failed", "[2] failed"), ("count 5", "count 6"), ("[1, 4711]", "[1, 12]")],
    "ports": [("on port 8000", "on port 8001"), ("localhost:3000", "localhost:5000"), ("port 80", "port 443")],
    "addresses": [("0xff", "0xfe"), ("0x1234", "0x4321")],
    "interpreters": [("interpreter: /opt/a/bin/python", "interpreter: /usr/bin/python3")],
    "commits": [(f"sha256 {'a' * 40}", f"sha256 {'b' * 40}"), ("[main 1a2b3c4] first", "[main 1a2b3c4] second")],
}  # fmt: skip


@pytest.mark.parametrize(("name", "one", "other"), [(name, *pair) for name, pairs in SAME.items() for pair in pairs])
def test_rule_removes_expected_differences(name: str, one: str, other: str) -> None:
    (left, used), (right, _) = normalize(one, Origin()), normalize(other, Origin())
    assert left == right
    assert name in used


@pytest.mark.parametrize(("one", "other"), [pair for pairs in DIFFERENT.values() for pair in pairs])
def test_no_rule_hides_a_difference(one: str, other: str) -> None:
    assert normalize(one, Origin())[0] != normalize(other, Origin())[0]


def test_every_rule_is_tested_both_ways() -> None:
    names = {rule.name for rule in RULES}
    assert names == set(SAME) == set(DIFFERENT)


def test_folder_and_host_are_normalized_but_longer_names_are_not() -> None:
    then, now = Origin(("/workspace", "/home/me/project"), "18f4db943d2f"), Origin(("/tmp/again-1",), "box-of-mine")
    assert normalize("/workspace/a on 18f4db943d2f", then)[0] == normalize("/tmp/again-1/a on box-of-mine", now)[0]
    assert normalize("cd /home/me/project", then)[0] == normalize("cd /tmp/again-1", now)[0]
    assert normalize("/workspace2", then)[0] == "/workspace2"
    assert normalize("/srv/workspace", then)[0] == "/srv/workspace"


def test_normalizing_long_lines_is_fast() -> None:
    for line in ("1" * 100_000, "/tmp/" * 800, "0x" * 2000, "1:" * 2000, "[" * 4000, " " * 4000, "-rw-r--r-- 1" * 300):
        began = time.process_time()
        normalize(line, Origin(("/workspace",)))
        assert time.process_time() - began < 1, line[:9]


def test_too_long_line_is_not_normalized() -> None:
    long, place = "/workspace/a " * (MAX_LINE // 13 + 1), Origin(("/workspace",))
    assert normalize(long, place) == (long, frozenset())
    assert normalize(long[:MAX_LINE], place)[0] != long[:MAX_LINE]
