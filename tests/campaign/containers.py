"""Faults of running containers at random moments, through a real conversation.

One conversation is used for CHUNK faults. Each trial is a command of the user and, during it or just before it, a fault
of its container, its server, its socket or the engine. The command must have one observation in the log within
ANSWERED_S; after the fault the next command must work; at the end there may be no container, no spare one and no gap in
the log. The engine is cut off by a relay in front of it, so containers keep running, as with an engine that keeps them
alive while it restarts.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import requests
from docker import errors
from docker.models.containers import Container

from core.conversations.conversation_manager import ConversationManager
from core.events import CmdOutputObservation, CmdRunAction, Envelope, Observation
from core.session.agent_session import AgentSession
from core.settings.config import DockerSettings, Settings
from runtime.docker.container_spec import HOME_LABEL
from tests.campaign.trial import Facts, Result, check, run_trials, within
from tests.containers import base_image, engine, sandbox_image
from tests.docker.gate import Gate
from tests.runtime.isolation.confined import own
from tui.runtime_factory import RuntimeFactory

PROMISE = "whatever befalls a container is told once within 15 s, the next command works, and nothing is left"
FULL = 200
CHUNK = 10
"""Faults with one conversation."""
SHORT = 5
ANSWERED_S = 15.0
"""Ten, and a machine on which two campaigns run at once."""
COMMAND_S = 0.6
"""How long a command takes by itself."""
EARLIEST_S, LATEST_S = -0.05, 0.7
"""From the command's start to the fault; before it begins where that is below 0."""
AWAY_S = 1.5
"""The engine's longest absence."""


def run(count: int, seed: int, chunk: int = CHUNK) -> Result:
    """So many faults, with seeds in a row."""
    sandbox_image()  # once, and not in two workers at the same time
    cases = [(first, chunk) for first in range(seed, seed + count, chunk)]
    return run_trials("containers", PROMISE, _with_a_conversation, cases, seed=seed, weight=chunk)


def _with_a_conversation(case: tuple[int, int]) -> Facts:
    facts, (first, chunk) = Facts(), case
    with tempfile.TemporaryDirectory(prefix="handloom-containers-") as folder:
        asyncio.run(_trials(Path(folder), range(first, first + chunk), facts))
    return facts


async def _trials(folder: Path, seeds: range, facts: Facts) -> None:
    home, workspace = folder / "home", folder / "workspace"
    workspace.mkdir()
    folder.chmod(0o755)
    own(workspace)
    async with Gate().opened() as gate:
        settings = Settings(runtime="docker", docker=DockerSettings(engine=gate.url, base=base_image()))
        runtimes = RuntimeFactory(home, lambda: settings, os.environ)
        manager = ConversationManager(home, settings, make_runtime=runtimes, around=runtimes, environ={})
        async with manager:
            session = await manager.create(workspace=str(workspace), model="demo")
            await _answered(session, "true")
            for seed in seeds:
                await _fault(session, gate, random.Random(seed), f"HANDLOOM_SEED={seed}", facts)
            await check_log(session)
            assert runtimes._pool is not None
            label = runtimes._pool.label
        check(not _containers(label), f"HANDLOOM_SEED={seeds[0]}: left over: {_containers(label)}")
        spares = list((home / "sandboxes").glob("spare-*"))
        check(not spares, f"HANDLOOM_SEED={seeds[0]}: left over: {spares}")


async def _fault(session: AgentSession, gate: Gate, rng: random.Random, case: str, facts: Facts) -> None:
    name, fault = rng.choice(list(FAULTS.items()))
    after_s = rng.uniform(EARLIEST_S, LATEST_S)
    container = getattr(session.runtime, "container_name", None)
    befalling = asyncio.create_task(_befall(container, gate, fault, max(0.0, after_s)))
    if after_s < 0:
        await asyncio.wait([befalling])
    begun_at = time.monotonic()
    observation = await _answered(session, f"echo begun; sleep {COMMAND_S}; echo ended")
    taken = time.monotonic() - begun_at
    check(taken < within(ANSWERED_S), f"{case}: {name}: answered after {taken:.1f} s: {observation!r}")
    await befalling
    facts.counts[name] += 1
    facts.counts["told to the command that ran"] += not _went_well(observation)
    facts.peak("seconds until the command had its observation", taken)
    begun_at = time.monotonic()
    for _ in range(3):  # a fault after the command's end is reported by the next command
        observation = await _answered(session, "echo begun; echo ended")
        if _went_well(observation):
            break
    check(_went_well(observation), f"{case}: {name}: the next command gave {observation!r}")
    facts.peak("seconds until a command went well again", time.monotonic() - begun_at)


def _went_well(observation: Observation) -> bool:
    return isinstance(observation, CmdOutputObservation) and observation.content.split() == ["begun", "ended"]


async def _answered(session: AgentSession, command: str) -> Observation:
    """Run a command as the user does; its observation, once that is stored. Raises Violation where none comes."""
    action = await session.user_control.run_command(command)
    try:
        async with asyncio.timeout(4 * within(ANSWERED_S)):
            while session.user_control.commands.is_busy:
                await asyncio.sleep(0.01)
    except TimeoutError:
        check(False, f"{command!r} has had no observation for {4 * ANSWERED_S:g} s")
    found = [one for one in await _events(session) if one.cause == action.id and isinstance(one.event, Observation)]
    check(len(found) == 1, f"{command!r} has {len(found)} observations")
    assert isinstance(found[0].event, Observation)
    return found[0].event


async def _events(session: AgentSession) -> list[Envelope]:
    await session.stream.settle()
    return list(await session.stream.read(limit=100_000))


async def check_log(session: AgentSession) -> None:
    """Raises Violation unless ids have no gap, and every command has its one observation."""
    events = await _events(session)
    check([one.id for one in events] == list(range(len(events))), "the log has a gap")
    for one in events:
        if isinstance(one.event, CmdRunAction):
            answers = [other for other in events if other.cause == one.id and isinstance(other.event, Observation)]
            check(len(answers) == 1, f"event {one.id} has {len(answers)} observations")


# -- the faults --------------------------------------------------------------------------------------------------------


async def _befall(name: str | None, gate: Gate, fault: Fault, after_s: float) -> None:
    await asyncio.sleep(after_s)
    await fault(name, gate)


Fault = Callable[[str | None, Gate], Awaitable[None]]


def _happens(what: Callable[[Container], object]) -> Fault:
    """Something that the engine does to the container, or that its own commands do in it."""

    async def befall(name: str | None, gate: Gate) -> None:
        def do() -> None:
            with engine() as client, suppress(errors.NotFound, errors.APIError):
                if name is not None:
                    what(client.containers.get(name))

        with suppress(requests.RequestException):
            await asyncio.to_thread(do)

    return befall


async def _engine_goes(name: str | None, gate: Gate) -> None:
    await gate.close()
    await asyncio.sleep(AWAY_S)
    await gate.open()


async def _engine_goes_and_its_containers_with_it(name: str | None, gate: Gate) -> None:
    await gate.close()
    await _happens(lambda container: container.kill())(name, gate)
    await asyncio.sleep(AWAY_S)
    await gate.open()


def _remove_socket(container: Container) -> None:
    (folder,) = [mount["Source"] for mount in container.attrs["Mounts"] if mount["Destination"] == "/run/handloom"]
    Path(folder, "s").unlink(missing_ok=True)


FAULTS: dict[str, Fault] = {
    "removed": _happens(lambda container: container.remove(force=True)),
    "killed": _happens(lambda container: container.kill()),
    "stopped": _happens(lambda container: container.stop(timeout=1)),
    "restarted": _happens(lambda container: container.restart(timeout=1)),
    "paused": _happens(lambda container: container.pause()),
    "server killed from inside": _happens(lambda container: container.exec_run("pkill -9 -f [r]untime.server")),
    "server stopped from inside": _happens(lambda container: container.exec_run("pkill -STOP -f [r]untime.server")),
    "everything killed from inside": _happens(lambda container: container.exec_run("sh -c 'kill -9 -1'")),
    "socket removed": _happens(_remove_socket),
    "engine away": _engine_goes,
    "engine away, containers too": _engine_goes_and_its_containers_with_it,
}


def _containers(label: str) -> list[str]:
    with engine() as client:
        found = client.api.containers(all=True, filters={"label": f"{HOME_LABEL}={label}"})
    return [container["Names"][0] for container in found]
