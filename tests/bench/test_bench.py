"""Every area of the bench still measures: each runs once, with tiny counts, as `make bench` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.areas import AREAS
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
