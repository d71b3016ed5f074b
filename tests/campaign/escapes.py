"""Every way out of a sandbox that is known to us, with walls and, where it does no harm, without."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from runtime.local.local_runtime import LocalRuntime
from tests.campaign.trial import Result
from tests.program import ROOT
from tests.runtime.isolation.confined import repository, walled
from tests.runtime.isolation.escape_attempts import goals, outcomes_of
from tests.runtime.probes import HARMLESS

PROMISE = "nothing gets out of a sandbox with walls"
PAGE = ROOT / "docs" / "escapes.md"
INTRODUCTION = """\
# Ways out of the sandbox, and where they led

What a hostile command could try in a sandbox with walls, by `python -m tests.campaign --only escapes` from
`tests/runtime/probes.py`. Where it does no harm, the same was tried without walls, which shows that the try is a real
one: what leads nowhere there either is something that this machine does not have.

| way out | with walls | without |
|---|---|---|
"""


def run(seed: int) -> Result:
    """Try all, and write the page."""
    begun = time.monotonic()
    inside, outside = asyncio.run(_with_walls()), asyncio.run(_without())
    said = {True: "out", False: "nowhere", None: "not tried"}
    rows = [f"| `{name}` | {said[led_out]} | {said[outside.get(name)]} |\n" for name, led_out in inside.items()]
    PAGE.write_text(INTRODUCTION + "".join(rows), "utf-8")
    counts = {"were tried without walls": len(outside), "of them led out there": sum(outside.values())}
    failures = tuple(name for name, led_out in inside.items() if led_out)
    return Result("escapes", PROMISE, seed, len(inside), failures, counts, {}, round(time.monotonic() - begun, 1))


async def _with_walls() -> dict[str, bool]:
    with tempfile.TemporaryDirectory(prefix="handloom-escapes-") as name:
        workspace = repository(Path(name, "workspace"))
        async with goals(Path(name)) as machine, walled(workspace) as runtime:
            return await outcomes_of(runtime, machine)


async def _without() -> dict[str, bool]:
    with tempfile.TemporaryDirectory(prefix="handloom-escapes-") as name:
        runtime = LocalRuntime(repository(Path(name, "workspace")))
        async with goals(Path(name)) as machine:
            try:
                await runtime.start()
                return await outcomes_of(runtime, machine, HARMLESS)
            finally:
                await runtime.aclose()
