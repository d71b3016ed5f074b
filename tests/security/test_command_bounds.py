"""Where the reading of a command ends: nothing that is too long, too many or too deep is taken for understood."""

from __future__ import annotations

import time

import pytest

from core.events import CmdRunAction
from core.security.facts import Facts, facts_of
from core.security.findings import MAX_CHARS, MAX_ITEMS, MAX_SHOWN
from core.security.shell.shell_state import MAX_VALUE_CHARS, MAX_VARIABLES, MAX_WRITTEN


def read(command: str) -> Facts:
    return facts_of(CmdRunAction(command=command), workspace="/w")


def lines(command: str, count: int) -> str:
    return "\n".join([command] * count)


def within(before: str, behind: str, depth: int) -> str:
    return f"{before * depth}ls{behind * depth}"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (lines("ls", 150), ""),
        ("echo" + " x" * 499, ""),
        ("echo" + " x" * 500, "more than 500 words"),
        (lines("ls", 151), "too many commands"),
        (lines("echo $(pwd)", 75), ""),
        (lines("echo $(pwd)", 76), "too many commands"),
        (within("( ", " )", 11), ""),
        (within("( ", " )", 12), "nested too deeply"),
        (within("{ ", "; }", 11), ""),
        (within("{ ", "; }", 12), "nested too deeply"),
        (within("timeout 1 ", "", 8), ""),
        (within("timeout 1 ", "", 9), "nested too deeply"),
        (within("echo $(", ")", 8), ""),
        (within("echo $(", ")", 9), "nested too deeply"),
        (within("timeout 1 ", "", 6).replace("ls", "bash -c ls"), ""),
        (within("timeout 1 ", "", 8).replace("ls", "bash -c ls"), "nested too deeply"),
        ("echo x > " + "a" * (MAX_CHARS - 3), ""),
        ("echo x > " + "a" * (MAX_CHARS - 2), "too long"),
        ("ls " + "a" * 64 * 1024, "too long"),
        ("touch " + " ".join(f"f{n}" for n in range(MAX_ITEMS)), ""),
        ("touch " + " ".join(f"f{n}" for n in range(MAX_ITEMS + 1)), "too many"),
        ("for a in 1 2 3 4 5 6 7; do for b in 1 2 3 4 5 6 7; do ls; done; done", ""),
        ("for a in {1,2,3,4,5}; do " * 5 + "ls" + "; done" * 5, "too many commands"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_command_beyond_a_limit_is_not_understood(command: str, why: str) -> None:
    facts = read(command)
    assert bool(facts.not_understood) is bool(why)
    assert all(why in part for part in facts.not_understood)


def test_quoted_part_is_shortened() -> None:
    long = "x" * (MAX_SHOWN + 1)
    (part,) = read(f"eval {long}").not_understood
    assert part == f"eval {long}"[:MAX_SHOWN] + " (eval changes the shell)"
    parts = read("cat " + "a" * MAX_CHARS).not_understood
    assert parts == ("cat " + "a" * 76 + " (too long)", "/w/" + "a" * 77 + " (too long)")
    assert dict(read(f"git push {long}").unclear) == {"net": f"git push {long}"[:MAX_SHOWN]}


def test_too_many_variables_lose_the_shell() -> None:
    names = [f"v{n}=x" for n in range(MAX_VARIABLES + 1)]
    for count, lost in ((MAX_VARIABLES, ""), (MAX_VARIABLES + 1, f"{MAX_VARIABLES} variables")):
        shell = read(" ".join(names[:count])).shell
        assert (len(shell.variables), shell.lost) == (MAX_VARIABLES, lost)
    full = read(" ".join(names[:-1])).shell
    again = facts_of(CmdRunAction(command="v0=y"), workspace="/w", shell=full).shell
    assert (again.variables["v0"], again.lost) == ("y", "")


def test_too_long_value_is_unknown() -> None:
    shell = read(f"a={'x' * MAX_VALUE_CHARS}; b={'x' * (MAX_VALUE_CHARS + 1)}").shell
    assert shell.variables == {"a": "x" * MAX_VALUE_CHARS, "b": None}


def test_too_many_written_files_lose_the_shell() -> None:
    full = read("ls").shell.with_written(*(f"/w/{n}" for n in range(MAX_WRITTEN - 1)))
    one = full.with_written("/w/one")
    assert (len(one.written), one.lost) == (MAX_WRITTEN, "")
    assert one.with_written("/w/one", "/w/0") == one
    assert one.with_written("/w/two").lost == f"{MAX_WRITTEN:,} files that were written"
    assert one.with_written("/w/two").with_written("/w/three").written == one.written


@pytest.mark.parametrize("package", [f"a{' ' * 1_500}!", f"a;{' ' * 60_000}!", f"a{' ,==1' * 5_000}!"])
def test_package_name_is_matched_in_time(package: str) -> None:
    began = time.thread_time()
    assert read(f"pip install '{package}'").not_understood
    assert time.thread_time() - began < 2


@pytest.mark.parametrize(
    "command",
    [
        "sed 's/" + "[^]a]" * 100 + "' f",
        "rm " + "[a" * 30_000,
        "[[ " + "[" * 60_000 + " ]]",
        "sh -c '" + "{" * 60_000 + "'",
        "git clone " + "." * 60_000,
    ],
    ids=lambda command: command[:12],
)
def test_command_is_judged_in_time(command: str) -> None:
    began = time.thread_time()
    read(command)
    assert time.thread_time() - began < 3
