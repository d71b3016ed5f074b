"""Each rule of normalization: what it removes, and the difference that it must not hide."""

from __future__ import annotations

import time

import pytest

from core.rerun.normalization import MAX_LINE, RULES, Origin, normalised

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
def test_a_rule_takes_away_what_says_only_when_or_where(name: str, one: str, other: str) -> None:
    (left, used), (right, _) = normalised(one, Origin()), normalised(other, Origin())
    assert left == right
    assert name in used


@pytest.mark.parametrize(("one", "other"), [pair for pairs in DIFFERENT.values() for pair in pairs])
def test_no_rule_hides_a_difference(one: str, other: str) -> None:
    assert normalised(one, Origin())[0] != normalised(other, Origin())[0]


def test_every_rule_is_tested_both_ways() -> None:
    names = {rule.name for rule in RULES}
    assert names == set(SAME) == set(DIFFERENT)


def test_the_folder_and_the_host_belong_to_the_place_and_longer_names_do_not() -> None:
    then, now = Origin(("/workspace", "/home/me/project"), "18f4db943d2f"), Origin(("/tmp/again-1",), "box-of-mine")
    assert normalised("/workspace/a on 18f4db943d2f", then)[0] == normalised("/tmp/again-1/a on box-of-mine", now)[0]
    assert normalised("cd /home/me/project", then)[0] == normalised("cd /tmp/again-1", now)[0]
    assert normalised("/workspace2", then)[0] == "/workspace2"
    assert normalised("/srv/workspace", then)[0] == "/srv/workspace"


def test_a_line_of_any_length_is_looked_at_in_no_time() -> None:
    for line in ("1" * 100_000, "/tmp/" * 800, "0x" * 2000, "1:" * 2000, "[" * 4000, " " * 4000, "-rw-r--r-- 1" * 300):
        began = time.process_time()
        normalised(line, Origin(("/workspace",)))
        assert time.process_time() - began < 1, line[:9]


def test_a_line_that_is_too_long_is_left_as_it_is() -> None:
    long, place = "/workspace/a " * (MAX_LINE // 13 + 1), Origin(("/workspace",))
    assert normalised(long, place) == (long, frozenset())
    assert normalised(long[:MAX_LINE], place)[0] != long[:MAX_LINE]
