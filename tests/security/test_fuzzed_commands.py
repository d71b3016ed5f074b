"""Random commands are analysed quickly and without errors, and bad ones are never let through."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.security import fuzzed
from tests.security.fuzzed import KINDS, check_one, read

SHORT = 2_000
CPU_S = 0.25
"""The campaign demands a fifth of it, on a machine that has nothing else to do."""
GOOD_ASKED = 0.25
"""Share of good commands in other spellings that may ask."""


def test_no_fuzzed_command_is_slow_or_let_through(seed: int) -> None:
    counts = Counter[str]()
    wrong = list(filter(None, (check_one(f"{seed}-{number}", counts, CPU_S) for number in range(SHORT))))
    assert wrong == []
    assert counts.keys() - {"good asked"} == KINDS.keys()
    assert counts["good asked"] <= GOOD_ASKED * counts["good"]


def test_fuzzer_notices_a_forgotten_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(fuzzed, "read", lambda command: read(f"echo {command.encode(errors='replace').hex()}"))
    wrong = [found for number in range(300) if (found := check_one(f"control-{number}", Counter[str](), CPU_S))]
    assert {"disguised", "wrapped", "unknowable"} <= {found.split(" ", 1)[0] for found in wrong}


@pytest.mark.parametrize(
    "command",
    [
        "read line; $line",
        "sh <(cat x)",
        "{rm,-rf,/usr}",
        "env -S 'sh -c '\"'\"'{rm,-rf,/usr}'\"'\"''",
        "rm${IFS}-rf$IFS../other-project",
        "git pu\\\nsh --force",
    ],
)
def test_findings_of_the_fuzzer_ask(command: str) -> None:
    assert read(command).risk.name in ("UNKNOWN", "HIGH")


@pytest.mark.parametrize("value", ["ab", "'a b '"])
def test_doubling_variables_are_limited(value: str) -> None:
    command = f"X={value}; " + "X=$X$X; " * 100 + "Y+=$X; " * 30 + "echo $X$X$X $Y"
    facts, took_s = fuzzed.timed(command, CPU_S)
    assert took_s < CPU_S
    assert all(len(said) <= 64 * 1024 for said in facts.commands)
