"""Figures for people, as they come, and for machines: one JSON document a run."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.store.database import sqlite3
from tests.bench.figure import Figure, Target

NAMES_OF_RUN = ("cores", "processor", "machine", "python", "sqlite")
"""What says on what was measured, of what `run` answers."""
HEADER = f"{'':46}{'median':>15}{'min to max (samples)':>30}{'ratio':>9}   target"


def lines(figure: Figure) -> list[str]:
    """The figure and, below it, its limit."""
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}x"
    targets = "; ".join(_target(figure, target) for target in figure.targets)
    shown = [f"{_row(figure.name, figure.unit, figure.samples)}{ratio:>9}   {targets}".rstrip()]
    if figure.limit:
        shown.append(_row(f"  limit: {figure.limit.name}", figure.unit, figure.limit.samples))
    return shown


def _row(name: str, unit: str, samples: Sequence[float]) -> str:
    middle = f"{number(statistics.median(samples))} {unit}"
    spread = f"{number(min(samples))} to {number(max(samples))} ({len(samples)})"
    return f"{name:46}{middle:>15}{spread:>30}"


def _target(figure: Figure, target: Target) -> str:
    sign = ">=" if figure.is_rate else "<="
    bound = f"{target.bound:g}x" if target.of == "ratio" else f"{number(target.bound)} {figure.unit}"
    if figure.keeps(target):
        told = "met"
    else:
        told = "NOT met" if target.of in ("median", "ratio") else f"NOT met: {number(figure.value(target.of))}"
    statistic = "" if target.of in ("median", "ratio") else f"{target.of} "
    return f"{statistic}{sign} {bound} {told}"


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def document(figures: Mapping[str, Sequence[Figure]]) -> str:
    """All figures by area, with a description of the machine, as JSON."""
    areas = {area: [described(figure) for figure in found] for area, found in figures.items()}
    return json.dumps({"run": run(), "areas": areas}, indent=1, ensure_ascii=False)


def run() -> dict[str, Any]:
    """When, where and of what is measured."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain").splitlines()),
        "machine": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def described(figure: Figure) -> dict[str, Any]:
    """The figure, its limit and its targets as JSON."""
    data: dict[str, Any] = {"name": figure.name, "unit": figure.unit, **_statistics(figure.samples), "p95": figure.p95}
    if figure.limit:
        data["limit"] = {"name": figure.limit.name, **_statistics(figure.limit.samples)}
        data["ratio"] = figure.ratio
    data["targets"] = [
        {"of": target.of, "bound": target.bound, "value": figure.value(target.of), "met": figure.keeps(target)}
        for target in figure.targets
    ]
    return data


def _statistics(samples: Sequence[float]) -> dict[str, float]:
    return {
        "median": statistics.median(samples),
        "min": min(samples),
        "max": max(samples),
        "deviation": statistics.pstdev(samples),
        "samples": len(samples),
    }


def _git(*arguments: str) -> str:
    """What git says; nothing where this is no clone."""
    here = Path(__file__).parent
    done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    try:
        about = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")), "")
