"""Kill processes of the browser at random points of a step and between steps, through a real server.

One server is used for CHUNK trials. Each trial is a step and a SIGKILL to one process below the server. The step must
give one observation, the next step must work, and after the server's end no process may be left.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from core.events import Action, BrowseInteractiveAction, BrowserOutputObservation, BrowseURLAction
from runtime.local.local_runtime import LocalRuntime
from runtime.server.processes import descendants
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within
from tests.served import served

PROMISE = "a browser's death gives one observation, and the next step works within 10 s"
KILLS = 200
CHUNK = 10
"""Trials with one server."""
SHORT = 6
USABLE_WITHIN_S = 10.0
ENDS_WITHIN_S = 3.0
LONGEST_STEP_S = 0.3
"""From a step's beginning to the kill at most: about as long as one takes."""

VICTIMS = {
    "worker": "runtime.plugins.browser.worker",
    "driver": "run-driver",
    "chromium": "--remote-debugging-pipe",
    "renderer": "--type=renderer",
    "network": "--utility-sub-type=network",
    "zygote": "--type=zygote",
    "gpu": "--type=gpu-process",
}
PAGE = "<title>T</title><h1>alive</h1><button onclick=\"location = '/?again'\">b</button>"


def run(count: int, seed: int, chunk: int = CHUNK) -> Result:
    """So many kills, with seeds in a row."""
    trial = functools.partial(_with_a_server, chunk)
    return run_trials("browser_kills", PROMISE, trial, range(seed, seed + count, chunk), seed=seed, weight=chunk)


def _with_a_server(chunk: int, first: int) -> Facts:
    facts = Facts()

    async def trials(folder: str, url: str) -> None:
        runtime = LocalRuntime(folder, options=("--plugins", "browser"))
        await runtime.start()
        try:
            await is_usable(runtime, url, facts)
            for seed in range(first, first + chunk):
                await _kill(runtime, url, random.Random(seed), facts)
                await is_usable(runtime, url, facts)
        finally:
            await runtime.aclose()

    with tempfile.TemporaryDirectory(prefix="handloom-browsers-") as folder, served(PAGE) as url:
        asyncio.run(trials(folder, url))
        facts.peak("seconds until no process was left", nobody_is_left(within(ENDS_WITHIN_S)))
    return facts


async def _kill(runtime: LocalRuntime, url: str, rng: random.Random, facts: Facts) -> None:
    assert runtime.server_pid is not None
    there = {name: await asyncio.to_thread(_processes, runtime.server_pid, mark) for name, mark in VICTIMS.items()}
    victim = rng.choice([name for name, pids in there.items() if pids])  # a part that was killed may not be back yet
    pids = there[victim]
    calls = f"goto('{url}')\nnoop(20)"
    step = rng.choice((BrowseURLAction(url=url), BrowseInteractiveAction(browser_actions=calls)))
    if rng.random() < 0.2:
        _end(rng.choice(pids))
        facts.counts[f"{victim} between steps"] += 1
        await _seen(runtime, step)
        return
    running = asyncio.create_task(_seen(runtime, step))
    await asyncio.sleep(rng.random() * LONGEST_STEP_S)
    _end(rng.choice(pids))
    facts.counts[f"{victim} in a step"] += 1
    observation = await running
    facts.counts["the step was told of it"] += observation.error


async def is_usable(runtime: LocalRuntime, url: str, facts: Facts) -> None:
    """Open a page. Raises Violation where that does not work, or not soon."""
    began = time.monotonic()
    observation = await _seen(runtime, BrowseURLAction(url=url))
    taken = time.monotonic() - began
    check("# alive" in observation.content and not observation.error, f"not usable: {observation.content[:500]!r}")
    check(taken < within(USABLE_WITHIN_S), f"usable after {taken:.1f} s")
    facts.peak("seconds until a page was seen again", taken)


async def _seen(runtime: LocalRuntime, step: Action) -> BrowserOutputObservation:
    observation = await runtime.execute(step, 1, lambda frame: None)
    check(isinstance(observation, BrowserOutputObservation), f"{step!r} gave {observation!r}")
    assert isinstance(observation, BrowserOutputObservation)
    return observation


def _processes(server: int, mark: str) -> list[int]:
    found = []
    for pid in sorted(descendants(server)):
        with suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if mark in line and ("--type=" in mark or "--type=" not in line):  # Chromium's parts are told its arguments
                found.append(pid)
    return found


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
