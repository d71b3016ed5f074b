"""Commands made by chance are read without failing, soon, and never more mildly than what is in them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.security import fuzzed
from tests.security.fuzzed import KINDS, check_one, read

SHORT = 2_000
CPU_S = 0.25
"""The campaign demands a fifth of it, on a machine that has nothing else to do."""


def test_fuzzed_commands_are_read_soon_and_no_disguise_softens_them(seed: int) -> None:
    counts = Counter[str]()
    wrong = list(filter(None, (check_one(f"{seed}-{number}", counts, CPU_S) for number in range(SHORT))))
    assert wrong == []
    assert counts.keys() == KINDS.keys()


def test_a_reader_that_forgets_a_wrapper_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(fuzzed, "read", lambda command: read(command.replace("sudo ", "echo ").replace("$", "")))
    wrong = [found for number in range(300) if (found := check_one(f"control-{number}", Counter[str](), CPU_S))]
    assert {"disguised", "unknowable"} <= {found.split(" ", 1)[0] for found in wrong}


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("read line; $line", "opaque.program"),
        ("sh <(cat x)", "opaque.text"),
        ("{rm,-rf,/usr}", "destroy.outside"),
        ("env -S 'sh -c '\"'\"'{rm,-rf,/usr}'\"'\"''", "destroy.outside"),
        ("rm${IFS}-rf$IFS../other-project", "destroy.outside"),
        ("git pu\\\nsh --force", "git.force"),
    ],
)
def test_what_the_fuzzing_has_found_stays_found(command: str, rule: str) -> None:
    assert rule in read(command).rules


def test_what_is_quoted_is_no_expansion_of_braces() -> None:
    assert read("echo x'{a,b}'").commands == ("echo x{a,b}",)
    assert read("echo {a,b}'{c,d}'").commands == ("echo a{c,d} b{c,d}",)


@pytest.mark.parametrize("value", ["ab", "'a b '"])
def test_variables_that_double_have_an_end(value: str) -> None:
    command = f"X={value}; " + "X=$X$X; " * 200 + "Y+=$X; " * 50 + "echo $X$X$X $Y"
    facts, took_s = fuzzed.timed(command, CPU_S)
    assert took_s < CPU_S
    assert all(len(said) <= 64 * 1024 for said in facts.commands)
