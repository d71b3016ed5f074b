"""The published figures: `docs/performance.json`, and the page made from it.

`python -m tests.bench --publish [AREA...]` replaces the areas that were measured, and
`python -m tests.peers openhands --publish` the comparison with V0's own server; what is not measured stays as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.bench.areas import AREAS
from tests.bench.figure import Figure
from tests.bench.report import NAMES_OF_RUN, described, number, run
from tests.program import ROOT

DATA = ROOT / "docs" / "performance.json"
PAGE = ROOT / "docs" / "performance.md"
INTRODUCTION = """\
# Performance

`make bench` measures each figure beside its limit: the least that this machine needs for the same work without
Handloom, measured in the same run. The ratio is what Handloom adds, and hardly depends on the machine. The targets are
our own. This page is written by `python -m tests.bench --publish` and
`python -m tests.peers openhands --publish`, from [performance.json](performance.json).
"""
PEERS = """
## Beside OpenHands V0

The published client of OpenHands 0.62 drives both servers in one run, first Handloom's and then V0's own, on
this machine and without a container. Each call is timed at the client.
"""
REASONS: Mapping[str, str] = {}
"""Why a figure misses its target, by its name; one sentence."""


def publish(figures: Mapping[str, Sequence[Figure]]) -> None:
    """Replace the areas that were measured, and write the page."""
    data = published()
    here = run()
    for area, found in figures.items():
        data["areas"][area] = {"run": here, "figures": [described(figure) for figure in found]}
    _write(data)


def publish_peers(rows: Iterable[Mapping[str, Any]], ready_s: Mapping[str, float]) -> None:
    """Replace the comparison with V0. A row has `call`, and the milliseconds `ours` and `theirs`, or None."""
    data = published()
    data["peers"] = {"run": run(), "rows": list(rows), "ready_s": dict(ready_s)}
    _write(data)


def published() -> dict[str, Any]:
    """What is in the file; no areas if there is none."""
    data: dict[str, Any] = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {"areas": {}}
    return data


def _write(data: dict[str, Any]) -> None:
    data["areas"] = {area: data["areas"][area] for area in AREAS if area in data["areas"]}
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(as_markdown(data), "utf-8")


def as_markdown(data: Mapping[str, Any]) -> str:
    """The page."""
    lines = [INTRODUCTION]
    runs = [area["run"] for area in data["areas"].values()]
    machines = {", ".join(f"{one[name]}" for name in NAMES_OF_RUN) for one in runs}
    lines += [f"- {machine}" for machine in sorted(machines)]
    for area, kept in data["areas"].items():
        lines += ["", f"## {area}", "", f"Commit `{kept['run']['commit'][:12]}`, {kept['run']['date'][:10]}.", ""]
        lines += ["| Figure | Median | Limit | Ratio | Target |", "|---|--:|---|--:|---|"]
        for figure in kept["figures"]:
            lines += _row(figure)
        lines += _why(kept["figures"])
    if "peers" in data:
        lines += _peers(data["peers"])
    return "\n".join(lines) + "\n"


def _row(figure: Mapping[str, Any]) -> Iterator[str]:
    unit, limit = figure["unit"], figure.get("limit")
    least = f"{limit['name']}: {number(limit['median'])} {unit}" if limit else ""
    ratio = f"{figure['ratio']:.2f}x" if limit else ""
    targets = "; ".join(_target(unit, target) for target in figure["targets"])
    yield f"| {figure['name']} | {number(figure['median'])} {unit} | {least} | {ratio} | {targets} |"


def _target(unit: str, target: Mapping[str, Any]) -> str:
    bound = f"{target['bound']:g}x" if target["of"] == "ratio" else f"{number(target['bound'])} {unit}"
    name = "" if target["of"] in ("median", "ratio") else f"{target['of']} "
    sign = "≥" if unit.endswith("/s") else "≤"
    if target["met"]:
        return f"{name}{sign} {bound}"
    value = f"{target['value']:.2f}x" if target["of"] == "ratio" else f"{number(target['value'])} {unit}"
    return f"{name}{sign} {bound}, **not met: {value}**"


def missed(data: Mapping[str, Any]) -> set[str]:
    """The names of the figures that miss a target."""
    figures = (figure for area in data["areas"].values() for figure in area["figures"])
    return {figure["name"] for figure in figures if not all(target["met"] for target in figure["targets"])}


def _why(figures: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    reasons = [
        f"- {figure['name']}: {REASONS[figure['name']]}"
        for figure in figures
        if figure["name"] in REASONS and not all(target["met"] for target in figure["targets"])
    ]
    if reasons:
        yield from ("", "Why a target is not met:", "", *reasons)


def _peers(peers: Mapping[str, Any]) -> Iterator[str]:
    yield PEERS
    run_of = peers["run"]
    yield f"Commit `{run_of['commit'][:12]}`, {run_of['date'][:10]}.\n"
    yield "| Call | Handloom | V0's own server |"
    yield "|---|--:|--:|"
    ready = peers["ready_s"]
    yield f"| ready after | {ready['ours'] * 1000:,.0f} ms | {ready['theirs'] * 1000:,.0f} ms |"
    for row in peers["rows"]:
        theirs = "" if row["theirs"] is None else f"{number(row['theirs'])} ms"
        yield f"| {row['call']} | {number(row['ours'])} ms | {theirs} |"
