"""Links that break at random bytes, between a client and a real server, while actions run over them.

One server is used for CHUNK trials. Each trial is one action over a link whose connections are cut, half closed,
stalled or delayed, one after another; every fifth action is cancelled at a random moment. At the end every action with
an observation has run once, none twice, and the shell is usable.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from core.events import CmdOutputObservation, CmdRunAction, Frame, TerminalOutput
from runtime.reconnecting_client import ReconnectingClient
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within
from tests.contract.remote_here import RemoteHere
from tests.links import Link, linked, random_fate
from tests.runtime.action_server import KEY

PROMISE = "over a link that breaks an action is carried out once, and its output and observation arrive whole"
FULL = 1_000
CHUNK = 20
"""Trials with one server."""
LONGEST = 2_500
"""Bytes of one action's request and answer, about."""
LINES = 40
SILENT_S = 1.5
"""Shorter than in use, so that links that stall cost less time; longer than a busy machine is silent."""
CANCELLED = 0.2
USABLE_WITHIN_S = 5.0


def run(count: int, seed: int) -> Result:
    """So many actions, with seeds in a row."""
    return run_trials("links", PROMISE, _chunk, range(seed, seed + count, CHUNK), seed=seed, weight=CHUNK)


def _chunk(first: int) -> Facts:
    facts = Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-links-") as folder:
        try:
            asyncio.run(_trials(Path(folder), first, facts))
        finally:
            RemoteHere.end_servers()
        nobody_is_left(within(3.0))
    return facts


async def _trials(folder: Path, first: int, facts: Facts) -> None:
    server = RemoteHere(folder, ("--no-change-timeout", "30"))
    await server.start()
    await server.aclose()  # what is tried here needs no owner
    port = int(server.url.rpartition(":")[2])
    answered: set[str] = set()
    cancelled: set[str] = set()
    for seed in range(first, first + CHUNK):
        has_ended = await _trial(port, seed, facts)
        (answered if has_ended else cancelled).add(str(seed))
    async with ReconnectingClient(KEY, url=server.url) as client:
        begun_at = time.monotonic()
        await client.execute(_command("true"), 1, lambda frame: None)
        check(
            time.monotonic() - begun_at < within(USABLE_WITHIN_S),
            f"HANDLOOM_SEED={first}: the shell is busy at the end",
        )
    check_effects((folder / "effects").read_text().split(), answered, cancelled)


async def _trial(port: int, seed: int, facts: Facts) -> bool:
    """One action; whether it gave an observation, and was not cancelled before."""
    rng, printed, case = random.Random(seed), bytearray(), f"HANDLOOM_SEED={seed}"

    def on_frame(frame: Frame) -> None:
        if isinstance(frame, TerminalOutput) and not frame.is_echo:
            printed.extend(frame.data)

    async with linked(port, lambda: random_fate(rng, LONGEST, unharmed=0.15)) as link:
        client = ReconnectingClient(KEY, url=link.url, every_s=SILENT_S / 4, silent_s=SILENT_S)
        command = f"echo {seed} >> effects; for i in $(seq 1 {LINES}); do echo n{seed} $i; done"
        running = asyncio.create_task(client.execute(_command(command), seed, on_frame))
        begun_at = time.monotonic()
        if rng.random() < CANCELLED:
            await asyncio.wait([running], timeout=rng.random() * 0.1)
            running.cancel()
        observation = None
        with suppress(asyncio.CancelledError):
            observation = await running
        _count(facts, link, time.monotonic() - begun_at)
        link.fate = lambda: None
        link.heal()
        await client.aclose()
    if observation is None:
        facts.counts["actions that were cancelled"] += 1
        return False
    check(isinstance(observation, CmdOutputObservation), f"{case}: {observation!r}")
    check_printed(observation.content, f"n{seed}", LINES, case)
    check_printed(printed.decode(), f"n{seed}", LINES, case)
    return True


def _count(facts: Facts, link: Link, seconds: float) -> None:
    facts.counts["connections"] += link.connections
    facts.counts["links that broke"] += link.broken
    facts.peak("seconds of one action", seconds)


def _command(command: str) -> CmdRunAction:
    return CmdRunAction(command=command, blocking=True, timeout=60)


def check_printed(text: str, name: str, lines: int, case: str) -> None:
    """Raise Violation unless each line exists once, in order."""
    wanted = " ".join(f"{name} {number}" for number in range(1, lines + 1))
    check(" ".join(text.split()) == wanted, f"{case}: printed {text[-500:]!r}")


def check_effects(found: Collection[str], answered: Collection[str], cancelled: Collection[str]) -> None:
    """Raise Violation unless answered actions ran once and cancelled ones at most once."""
    counted = Counter(found)
    twice = [name for name, times in counted.items() if times > 1]
    check(not twice, f"carried out twice: {twice}")
    missing = [name for name in answered if not counted[name]]
    check(not missing, f"answered and never carried out: {missing}")
    strange = counted.keys() - set(answered) - set(cancelled)
    check(not strange, f"carried out and never asked for: {strange}")
