"""Every area of the bench still measures: each runs once, with tiny counts, as `make bench` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import page, report
from tests.bench.areas import AREAS
from tests.bench.figure import Figure, Limit, Target
from tests.bench.size import SMALL, sized
from tests.program import ROOT

MARKS = {
    "browsing": (pytest.mark.browser,),
    "containers": (pytest.mark.docker,),
    **dict.fromkeys(("batch_rows", "first_frame", "keys", "resume", "terminal"), (pytest.mark.alone,)),
}
"""Requirements of areas. Those that draw a flooded screen run alone: beside other tests they would take minutes."""
WITHIN_S = 400


@pytest.mark.timeout(WITHIN_S + 20)
@pytest.mark.parametrize("area", [pytest.param(area, marks=MARKS.get(area, ())) for area in AREAS])
def test_every_area_can_be_measured(tmp_path: Path, area: str) -> None:
    figures = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--small", area],
        cwd=ROOT, env={**os.environ, "BENCH_JSON": str(figures)}, timeout=WITHIN_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    measured = json.loads(figures.read_text("utf-8"))["areas"][area]
    assert measured
    assert all(figure["samples"] for figure in measured)


def test_counts_are_full_by_default() -> None:
    assert SMALL not in os.environ
    assert sized(100, 2) == 100


def test_page_shows_ratios_limits_targets_and_why_they_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "REASONS", {"keys": "The terminal is slow."})
    slow = Figure("keys", "ms", [30.0, 50.0, 40.0], Limit("bare", [20.0]), [Target(1.5, "ratio"), Target(45)])
    fast = Figure("appends", "rows/s", [3_000.0], None, [Target(2_000)])
    area = {"run": report.run(), "figures": [report.described(slow), report.described(fast)]}
    data = {"areas": {"keys": area}}
    text = page.as_markdown(data)
    assert "| keys | 40 ms | bare: 20 ms | 2.00x | ≤ 1.5x, **not met: 2.00x**; ≤ 45 ms |" in text
    assert "| appends | 3,000 rows/s |  |  | ≥ 2,000 rows/s |" in text
    assert "- keys: The terminal is slow." in text
    assert page.missed(data) == {"keys"}


def test_page_has_the_calls_beside_those_of_v0() -> None:
    row = {"call": "run: echo", "ours": 1.7, "theirs": 620.0}
    peers = {"run": report.run(), "rows": [row, {**row, "theirs": None}], "ready_s": {"ours": 0.3, "theirs": 9.0}}
    lines = page.as_markdown({"areas": {}, "peers": peers}).splitlines()
    assert "| ready after | 300 ms | 9,000 ms |" in lines
    assert "| run: echo | 1.7 ms | 620 ms |" in lines
    assert "| run: echo | 1.7 ms |  |" in lines
