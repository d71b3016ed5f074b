"""No secret appears where it does not belong: the canary sweep, and a check that it notices one that does."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.program import Handloom
from tests.secrets.canaries import ALL, ENVIRONMENT, Search
from tests.secrets.sweep import sweep


def leak(handloom: Handloom) -> None:
    """Leaks that the sweep must notice."""
    (handloom.home / "leak.log").write_bytes(b"x" + base64.b64encode(b"ab" + ENVIRONMENT["NPM_TOKEN"].encode()))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("names", [("commands",), ("tools",), ("editor",), ("screen", "crash")], ids="+".join)
async def test_no_canary_is_found_except_a_planted_one(tmp_path: Path, names: tuple[str, ...]) -> None:
    search = await sweep(tmp_path / "user", names, plant=leak)
    planted = {hit for hit in search.hits if hit[0] == "home/leak.log"}
    assert {slot for _, slot, _ in planted} == {"environment NPM_TOKEN"}
    assert sorted(search.hits - planted) == []
    assert search.searched_bytes > 100_000


@pytest.mark.parametrize("slot", ALL)
def test_search_finds_each_canary_in_each_encoding(slot: str) -> None:
    value = ALL[slot].split("\n")[1] if "\n" in ALL[slot] else ALL[slot]
    for written in (
        value,
        value.encode().hex(),
        *(base64.b64encode(b"z" * n + value.encode()).decode() for n in range(3)),
    ):
        search = Search()
        search.look("here", f"before {written} after".encode())
        assert {hit[1] for hit in search.hits} == {slot}, written
