"""Shells that die and commands that are interrupted, at random points, through a real server.

One server is used for CHUNK trials. Each trial is one command, sometimes with a background process that tries to stay;
then another command must work, and after the server's end no process may be left.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from core.events import Action, CmdOutputObservation, CmdRunAction, Frame, Observation, TerminalOutput
from runtime.local.local_runtime import LocalRuntime
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within

DEATHS_PROMISE = "a shell's death gives one observation with its exit code, and the next command finds a shell"
INTERRUPTS_PROMISE = "an interrupt ends the command within 3 s wherever it comes, and the next command works"
DEATHS, INTERRUPTS = 200, 500
CHUNK = 20
"""Trials with one server."""
USABLE_WITHIN_S = 3.0
"""2 s for a command that takes no signal, and a busy machine."""
ENDS_WITHIN_S = 2.0

Execute = Callable[[Action, int, Callable[[Frame], None]], Awaitable[Observation]]
"""As core.protocols.Runtime has it."""

LEFT = (
    "",
    "sleep 1000 & disown; ",
    "setsid sleep 1001 & ",
    "nohup sleep 1002 >/dev/null 2>&1 & ",
    "(setsid sh -c 'sleep 1003 & wait' &) ; ",
    "bash -c \"trap '' INT TERM HUP; sleep 1004; sleep 1005\" & ",
)
DEADLY = (
    ("exit 3", 3),
    ("kill -9 $$", 137),
    ("exec false", 1),
    ("exec sh -c 'kill -9 $$'", 137),
    ("set -e; (exit 7)", 7),
    ("seq 1 5000; exit 4", 4),
    ("kill -SEGV $$; sleep 100", 139),
)
LONG = (
    "sleep 100",
    "sleep 100; sleep 100; sleep 100",
    "while :; do :; done",
    "while :; do echo x; done",
    "seq 1 100000000",
    "cat",
    "read x; read y",
    "yes | head -c 1000000000 | cat",
    "trap '' INT; sleep 100",
    "bash -c \"trap '' INT TERM HUP; sleep 100; sleep 100\"",
    "trap '' INT TERM; while :; do :; done",
    "stty raw -isig; sleep 100",
    "python3 -c 'input()'",
    "for i in 1 2 3; do (sleep 100); done",
    "sleep 100 | sleep 100 | sleep 100",
)


def deaths(count: int, seed: int) -> Result:
    """So many deaths of shells, with seeds in a row."""
    return _run("shell_deaths", DEATHS_PROMISE, _deaths, count, seed)


def interrupts(count: int, seed: int) -> Result:
    """So many interrupts, with seeds in a row."""
    return _run("interrupts", INTERRUPTS_PROMISE, _interrupts, count, seed)


def _run(name: str, promise: str, trial: Callable[[int], Facts], count: int, seed: int) -> Result:
    return run_trials(name, promise, trial, range(seed, seed + count, CHUNK), seed=seed, weight=CHUNK)


def _deaths(first: int) -> Facts:
    return _with_a_server(first, _death)


def _interrupts(first: int) -> Facts:
    return _with_a_server(first, _interrupt)


def _with_a_server(first: int, one: Callable[[LocalRuntime, random.Random, Facts], Awaitable[None]]) -> Facts:
    facts = Facts()

    async def chunk(folder: str) -> None:
        runtime = LocalRuntime(folder)
        await runtime.start()
        try:
            for seed in range(first, first + CHUNK):
                rng = random.Random(seed)
                facts.counts["left running"] += len(left := rng.choice(LEFT)) > 0
                await _said(runtime.execute, left + "true")
                await one(runtime, rng, facts)
                await is_usable(runtime.execute, f"HANDLOOM_SEED={seed}", facts)
        finally:
            await runtime.aclose()

    with tempfile.TemporaryDirectory(prefix="handloom-shells-") as folder:
        asyncio.run(chunk(folder))
        facts.peak("seconds until no process was left", nobody_is_left(within(ENDS_WITHIN_S)))
    return facts


async def _death(runtime: LocalRuntime, rng: random.Random, facts: Facts) -> None:
    if rng.random() < 0.5:
        command, code = rng.choice(DEADLY)
        observation = await _said(runtime.execute, command)
        facts.counts["by its own command"] += 1
    else:
        shell = int((await _said(runtime.execute, "echo $$")).content.split()[0])  # a job may say that it is done
        begun = asyncio.Event()
        running = asyncio.create_task(_said(runtime.execute, rng.choice(LONG), begun))
        await begun.wait()  # before that, the command would be one for the next shell
        await asyncio.sleep(rng.random() * 0.05)
        os.kill(shell, signal.SIGKILL)
        observation, code = await running, 137
        facts.counts["killed from outside"] += 1
    check(observation.exit_code == code, f"{observation.command!r} gave {observation.exit_code} and not {code}")
    told = observation.metadata.prefix + observation.metadata.suffix
    check("A fresh shell was started" in told, f"{observation.command!r} did not tell of a fresh shell")


async def _interrupt(runtime: LocalRuntime, rng: random.Random, facts: Facts) -> None:
    begun, command = asyncio.Event(), rng.choice(LONG)

    def on_frame(frame: Frame) -> None:
        if isinstance(frame, TerminalOutput):
            begun.set()

    action = CmdRunAction(command=command, blocking=True, timeout=60)
    running = asyncio.create_task(runtime.execute(action, 1, on_frame))
    if rng.random() < 0.8:
        await begun.wait()
    await asyncio.sleep(rng.random() * 0.05)
    running.cancel()
    with suppress(asyncio.CancelledError):
        check(await running is None, f"{command!r} gave an observation")
    facts.counts["after the command had begun" if begun.is_set() else "before the command had begun"] += 1


async def is_usable(execute: Execute, case: str, facts: Facts) -> None:
    """Run one more command. Raises Violation where it does not work, or not soon."""
    began = time.monotonic()
    observation = await _said(execute, "echo usable")
    taken = time.monotonic() - began
    said = observation.content.splitlines()
    check("usable" in said, f"{case}: {observation.to_agent_text()[:500]!r}")
    check(taken < within(USABLE_WITHIN_S), f"{case}: usable after {taken:.1f} s")
    facts.peak("seconds until a command worked again", taken)


async def _said(execute: Execute, command: str, begun: asyncio.Event | None = None) -> CmdOutputObservation:
    """The output of a command; one that signals its start is given its full time."""

    def on_frame(frame: Frame) -> None:
        if begun is not None:
            begun.set()

    action = CmdRunAction(command=command, blocking=begun is not None, timeout=60)
    observation = await execute(action, 1, on_frame)
    check(isinstance(observation, CmdOutputObservation), f"{command!r} gave {observation!r}")
    assert isinstance(observation, CmdOutputObservation)
    return observation
