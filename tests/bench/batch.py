"""A batch on this machine: 200 tasks of five commands at 16 slots, beside the same commands run by xargs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder
from tests.bench.size import sized
from tests.doubles import FINISH, bash, write_script
from tests.program import NO_ISOLATION

TASKS, SLOTS, STEPS, STEP_S = sized(200, 4), sized(16, 2), 5, 1.0
FEW = sized(32, 2)
MB = 1024 * 1024


def measure() -> list[Figure]:
    with folder() as place:
        least = _least()
        seconds, memory_mb, slot_mb = _batch(place, TASKS)
        _, few_mb, _ = _batch(place, FEW)
    grown = [max(0.0, (memory_mb - few_mb) / (TASKS - FEW) * 1_000)]
    return [
        Figure(f"{TASKS} tasks at {SLOTS} slots", "s", [seconds], Limit("xargs", [least]), [Target(1.3, "ratio")]),
        Figure("memory of the driver, 1,000 tasks more", "MB", grown, targets=[Target(10)]),
        Figure("memory of a slot at its highest", "MB", [slot_mb]),
    ]


def _least() -> float:
    """Seconds that the commands alone take."""
    command = "; ".join([f"sleep {STEP_S}"] * STEPS)
    began = perf_counter()
    names = "\n".join(map(str, range(TASKS)))
    subprocess.run(["xargs", "-P", str(SLOTS), "-I{}", "bash", "-c", command], input=names, text=True, check=True)
    return perf_counter() - began


def _batch(place: Path, tasks: int) -> tuple[float, float, float]:
    """Seconds, the most memory of the driver, and the most of a slot in megabytes."""
    here = place / str(tasks)
    here.mkdir()
    turns = [{"tool_calls": [bash(f"sleep {STEP_S}; echo {number}")]} for number in range(STEPS)]
    model = write_script(here, [*turns, FINISH])
    lines = [json.dumps({"id": f"t{number}", "task": "Wait."}) for number in range(tasks)]
    (here / "tasks.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "tui", "batch", str(here / "tasks.jsonl"), "--out", str(here / "out")]
    command += ["--model", model, "--workers", str(SLOTS), "--json", "--yes"]
    environ = {**os.environ, **NO_ISOLATION, "HANDLOOM_HOME": str(here / "home")}
    began, driver_mb, slots_mb = perf_counter(), 0.0, 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ) as process:
        assert process.stdout is not None
        for count, _ in enumerate(process.stdout):
            if count % SLOTS == SLOTS - 1:
                driver_mb = max(driver_mb, _memory(process.pid))
                slots_mb = max(slots_mb, sum(map(_memory, _below(process.pid))))
    if process.returncode:
        raise RuntimeError(f"the batch ended with {process.returncode}")
    return perf_counter() - began, driver_mb, slots_mb / SLOTS


def _memory(pid: int) -> float:
    """Megabytes that only this process uses, or its share of what several do."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended
    return next((int(line.split()[1]) * 1024 / MB for line in lines if line.startswith("Pss:")), 0.0)


def _below(pid: int) -> list[int]:
    """All processes that a process has started, directly or not."""
    found, waiting = list[int](), [pid]
    while waiting:
        try:
            one = waiting.pop()
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
        except OSError:
            continue
        found += map(int, children)
        waiting += map(int, children)
    return found
