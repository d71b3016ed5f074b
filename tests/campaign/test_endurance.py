"""What an hour of work is judged by: a leak of any kind is noticed, a warm-up and noise are not."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.campaign.endurance import BOUND_MB_PER_HOUR, Sample, judged, trend

AT_REST = Sample(0.0, 130.0, 260.0, 100_000, 49, 12, 20, 3, 4_000_000, 100)


def hour(seed: int, *, mb_per_hour: float = 0.0, of: str = "", warm_up_mb: float = 60.0) -> list[Sample]:
    """One sample a minute: noise, caches that fill within a quarter of an hour, and optional growth."""
    chance, samples = random.Random(seed), []
    for minute in range(60):
        resident = 130 + min(1.0, minute / 15) * warm_up_mb + mb_per_hour * minute / 60 + chance.gauss(0, 3)
        sample = replace(AT_REST, at_s=minute * 60.0, resident_mb=resident, events=100 + minute * 100)
        sample = replace(sample, files=20 + chance.randrange(3), threads=12 + chance.randrange(4))
        samples.append(replace(sample, **{of: getattr(sample, of) + minute // 3}) if of else sample)
    return samples


def test_growth_is_distinguished_from_warm_up(seed: int) -> None:
    assert list(judged(hour(seed))) == []
    (found,) = judged(hour(seed, mb_per_hour=3 * BOUND_MB_PER_HOUR))
    assert found.startswith("resident_mb grows by")
    for name in ("files", "threads", "tasks", "children"):
        (found,) = judged(hour(seed, of=name))
        assert found.startswith(f"{name} have grown")
    assert list(judged([AT_REST] * 60)) == ["nothing was done"]
    assert "too few" in next(judged(hour(seed)[:3]))
    log = [replace(sample, wal_bytes=2**27) for sample in hour(seed)]
    assert [found.split(" has")[0] for found in judged(log)] == ["the write-ahead log"]


def test_trend_is_a_least_squares_line() -> None:
    slope, error = trend([(x, 3 * x + 1) for x in range(10)])
    assert slope == pytest.approx(3)
    assert error == pytest.approx(0)
    errors = [trend([(x, random.Random(x).gauss(0, 9)) for x in range(count)])[1] for count in (10, 40, 160)]
    assert all(more > less for more, less in pairwise(errors))
