"""Commands made by chance are read without failing, soon, and never more mildly than what is in them."""

from __future__ import annotations

from collections import Counter

from tests.security.fuzzed import _KINDS, check_one

SHORT = 2_000


def test_fuzzed_commands_are_read_soon_and_no_disguise_softens_them(seed: int) -> None:
    counts = Counter[str]()
    wrong = list(filter(None, (check_one(f"{seed}-{number}", counts) for number in range(SHORT))))
    assert wrong == []
    assert counts.keys() == _KINDS.keys()
