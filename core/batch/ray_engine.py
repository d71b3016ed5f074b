"""RayEngine: attempts as tasks of Ray, on the nodes of a cluster.

Ray places them, and says which workers and nodes have died. The driver and its ledger decide everything else: Ray
repeats nothing. A worker that is silent for too long is given up, and what it says later is refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from core.batch.attempt_runner import PATCH, keep_exports
from core.batch.batch_options import BatchOptions
from core.batch.engine import Attempt, AttemptEnded, ConversationBegan, EngineEvent
from core.batch.ledger import AttemptState, Ended
from core.batch.ray_hub import AttemptKey, Hub, Taken
from core.batch.ray_node import DRIVER, FOLDER, HEARTBEAT_S, Began, Last, NodeResult
from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, HandloomError, StoreError
from core.llm.budget import Budget
from core.store.replication import ChangeSet

HEARTBEAT_TIMEOUT_S = 60.0
"""An attempt that has not been heard for this long is lost."""
CONNECT_S = 60.0
MEMORY_GB = 1.0
"""What Ray reserves for an attempt without `needs`."""
HEAD = "node:__internal_head__"
"""The resource that the head of a cluster has: the hub lives there, because without the head there is no cluster."""
HUB_CALLS = 10_000
"""Calls of the hub that may wait at once: some for each attempt."""
INSTALL = "Batches on a cluster need Ray. Install it with: pip install 'handloom[cluster]'"


class ClusterError(HandloomError):
    """The cluster cannot be reached, or does not fit. The text says why, for the user."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node says about itself."""

    host: str
    version: str
    """Of Handloom."""
    isolation: str
    """How commands are isolated there: `bubblewrap`, the name of another runtime, or `none`."""
    why_open: str
    """Why it cannot isolate commands; empty if it can, or need not."""
    error: str = ""
    """Why it could not say anything."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The functions that run on a node; each can be imported there."""

    set_path: str
    """The name of a function that makes Handloom's own modules importable."""
    carry_out: Callable[..., NodeResult]
    """Takes a BatchOptions, a BatchTask, the attempt's number and the hub."""
    describe: Callable[[BatchOptions], NodeFacts]


@dataclass(slots=True)
class _Running:
    attempt: Attempt
    call: Any = None
    """The task of Ray; None before it was given to Ray."""
    copies: set[str] = field(default_factory=set)
    """Its conversations that are copied to this machine."""
    last: asyncio.Event = field(default_factory=asyncio.Event)
    """Everything that it has sent is stored."""
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    worker: str = ""
    """Empty before a node has begun with it."""
    node: str = ""


class RayEngine:
    """Carries out attempts on a cluster. Make it with `connect`."""

    def __init__(
        self, ray: Any, *, batch: BatchOptions, entry: Entry, manager: ConversationManager, budget: Budget, workers: int
    ) -> None:
        """`ray` is the module, connected to a cluster."""
        self._ray, self._batch, self._entry, self._manager = ray, batch, entry, manager
        self._budget, self.capacity = budget, workers
        on_head = {"num_cpus": 0, "max_concurrency": HUB_CALLS, "resources": {HEAD: 0.001}}
        self._hub = ray.remote(Hub).options(**on_head).remote(budget.total, budget.spent, workers)
        self._run = ray.remote(entry.carry_out)
        self.heartbeat_timeout_s = HEARTBEAT_TIMEOUT_S
        self._events: asyncio.Queue[EngineEvent | HandloomError] = asyncio.Queue()
        self._running: dict[AttemptKey, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._given_up: set[asyncio.Task[None]] = set()
        """Wait for workers that were given up. Nobody waits for these."""
        self._pump: asyncio.Task[None] | None = None
        self._avoid: dict[str, set[str]] = defaultdict(set)
        """The nodes on which attempts of a task were lost."""
        self._unfit: frozenset[str] = frozenset()
        self._memory: dict[str, float] = {}
        """Gigabytes for a task that ran out of memory."""

    @classmethod
    async def connect(
        cls,
        address: str,
        *,
        batch: BatchOptions,
        entry: Entry,
        manager: ConversationManager,
        budget: Budget,
        workers: int,
    ) -> Self:
        """Connect to a cluster and see that its nodes fit. `address` is `ray` or `ray://HOST:PORT`.

        `budget` then follows what all nodes spend. Raises ConfigurationError without Ray, ClusterError.
        """
        ray = await open_cluster(address, entry)
        made = cls(ray, batch=batch, entry=entry, manager=manager, budget=budget, workers=workers)
        try:
            await asyncio.to_thread(_mark, manager.store.home / FOLDER / batch.id)
            made._unfit = await made._survey()
        except BaseException:
            await made.aclose()
            raise
        made._pump = asyncio.create_task(made._take_all(), name="events of the cluster")
        return made

    @property
    def where(self) -> str:
        return "cluster"

    def submit(self, attempt: Attempt) -> None:
        running = self._running[attempt.key] = _Running(attempt)
        name = f"{attempt.task.id}, attempt {attempt.number}"
        task = asyncio.create_task(self._carry_out(running), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def next_event(self) -> EngineEvent:
        """The next event. Raises ClusterError when the cluster is gone, StoreError if its events cannot be stored."""
        event = await self._events.get()
        if isinstance(event, HandloomError):
            raise event
        return event

    def cancel(self, attempt: Attempt | None = None) -> None:
        for key, running in self._running.items():
            if attempt is None or attempt.key == key:
                self._hub.interrupt.remote(key)
                if not running.worker and running.call is not None:
                    self._ray.cancel(running.call)  # no node has begun with it

    async def aclose(self) -> None:
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CONNECT_S)
        for task in (*self._tasks, *self._given_up):
            task.cancel()
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump
        await asyncio.to_thread(self._ray.shutdown)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    async def _survey(self) -> frozenset[str]:
        """Ask every node what it is. Returns those that are not used. Raises ClusterError."""
        facts = await survey(self._ray, self._entry, self._batch)
        for one in facts.values():
            if one.error:
                raise ClusterError(
                    f"Handloom does not run on node {one.host}: {one.error} Install the same version there, in the "
                    "environment that Ray runs in."
                )
            if one.version != self._batch.version:
                raise ClusterError(
                    f"Node {one.host} has Handloom {one.version}, and this machine {self._batch.version}. Install the "
                    "same version on all of them."
                )
        unfit = {id: one for id, one in facts.items() if one.why_open}
        if len(unfit) == len(facts):
            reasons = "; ".join(f"{one.host}: {one.why_open}" for one in unfit.values())
            raise ClusterError(
                f"No node can isolate commands ({reasons[:500]}). To run without isolation, set sandbox.isolation to "
                "none."
            )
        return frozenset(unfit)

    def _options(self, attempt: Attempt) -> dict[str, Any]:
        """What Ray needs to know to place an attempt."""
        needs = attempt.task.needs
        gb = max(needs.get("memory_gb", MEMORY_GB), self._memory.get(attempt.task.id, 0.0))
        options: dict[str, Any] = {
            "num_cpus": needs.get("cpus", 1),
            "memory": int(gb * 1024**3),
            "max_retries": 0,
            "name": f"{attempt.task.id} {attempt.number}",
        }
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        avoid = self._unfit | self._avoid[attempt.task.id]
        if not alive - avoid:
            avoid = self._unfit
        if avoid & alive:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(avoid & alive))})"}
        return options

    # -- attempts ------------------------------------------------------------------------------------------------------

    async def _carry_out(self, running: _Running) -> None:
        """Carry out one attempt; whatever happens, it ends with one event."""
        ended = Ended(AttemptState.ERROR, reason="The attempt ended unexpectedly. See the log.")
        try:
            ended = await self._result(running)
        finally:
            await self._leave(running, ended)

    async def _result(self, running: _Running) -> Ended:
        attempt = running.attempt
        await self._hub.begin.remote(attempt.key)
        options = await asyncio.to_thread(self._options, attempt)
        running.call = self._run.options(**options).remote(self._batch, attempt.task, attempt.number, self._hub)
        result = asyncio.ensure_future(_awaited(running.call))
        silent = asyncio.ensure_future(running.silent.wait())
        try:
            await asyncio.wait((result, silent), return_when=asyncio.FIRST_COMPLETED)
        finally:
            silent.cancel()
        if result.done():
            return await self._ended(running, result)
        late = asyncio.create_task(self._late(running, result), name="a worker that was given up")
        self._given_up.add(late)
        late.add_done_callback(self._given_up.discard)
        why = f"Nothing was heard of {running.worker} for {self.heartbeat_timeout_s:.0f} s."
        return Ended(AttemptState.LOST, reason=why)

    async def _late(self, running: _Running, result: asyncio.Future[NodeResult]) -> None:
        """Wait for a worker that was given up: its result is refused, and noted."""
        try:
            late = (await result).ended
        except self._ray.exceptions.RayError:  # it has died
            return
        self._events.put_nowait(AttemptEnded(running.attempt, late))

    async def _leave(self, running: _Running, ended: Ended) -> None:
        """Store what there is of an attempt, and say that it has ended."""
        attempt = running.attempt
        with suppress(self._ray.exceptions.RayError, ConnectionError):  # the hub is gone with its cluster
            await self._hub.forget.remote(attempt.key)
        del self._running[attempt.key]
        for conversation in running.copies:
            await self._manager.store.release_copy(conversation)
        if ended.conversation:
            try:
                await keep_exports(self._manager, attempt, ended.conversation)
            except HandloomError as error:
                ended = Ended(AttemptState.ERROR, ended.conversation, reason=str(error))
        self._events.put_nowait(AttemptEnded(attempt, ended))

    async def _ended(self, running: _Running, result: asyncio.Future[NodeResult]) -> Ended:
        """The result of an attempt whose task of Ray has ended."""
        attempt, errors = running.attempt, self._ray.exceptions
        try:
            found = await result
        except errors.TaskCancelledError:
            return Ended(AttemptState.INTERRUPTED)
        except errors.OutOfMemoryError:
            gb = max(attempt.task.needs.get("memory_gb", MEMORY_GB), self._memory.get(attempt.task.id, 0.0))
            self._memory[attempt.task.id] = 2 * gb
            return Ended(AttemptState.LOST, reason=f"It needed more than {gb:g} GB of memory.")
        except errors.RayTaskError as error:
            return Ended(AttemptState.ERROR, reason=f"The attempt ended unexpectedly: {_line(error)}")
        except (errors.RayError, ConnectionError) as error:  # a worker, a node or the cluster has died
            self._avoid[attempt.task.id].add(running.node)
            return Ended(AttemptState.LOST, reason=f"The worker {running.worker} was lost: {_line(error)}")
        if found.ended.conversation:
            await running.last.wait()
        if found.patch is None:
            return found.ended
        try:
            await asyncio.to_thread(_write, attempt.folder / PATCH, found.patch)
        except OSError as error:
            return replace(
                found.ended, state=AttemptState.ERROR, reason=f"The patch cannot be stored: {error.strerror}."
            )
        return found.ended

    # -- events --------------------------------------------------------------------------------------------------------

    async def _take_all(self) -> None:
        """Store what the nodes send, as long as there is a hub."""
        try:
            while True:
                taken: Taken = await self._hub.take.remote(HEARTBEAT_S)
                self._budget.spent, self._budget.is_spent = taken.spent, taken.is_spent
                for key, message in taken.messages:
                    await self._handle(key, message)
                for key, seconds in taken.silent_s.items():
                    if seconds > self.heartbeat_timeout_s and (running := self._running.get(key)) is not None:
                        self._avoid[key[0]].add(running.node)
                        running.silent.set()
        except StoreError as error:
            self._events.put_nowait(error)
        except self._ray.exceptions.RayError as error:
            self._events.put_nowait(ClusterError(f"The cluster is gone: {_line(error)} Run the same command to go on."))

    async def _handle(self, key: AttemptKey, message: object) -> None:
        running = self._running.get(key)
        if running is None:
            return  # it was given up
        match message:
            case Began(conversation, worker, node):
                running.worker, running.node = worker, node
                self._events.put_nowait(ConversationBegan(running.attempt, conversation, worker))
            case ChangeSet():
                if await self._manager.store.apply_changes(message):
                    running.copies.add(message.conversation)
            case Last():
                await self._hub.stored.remote(key)
                running.last.set()


async def open_cluster(address: str, entry: Entry) -> Any:
    """Connect this process to a cluster and return the module `ray`. Raises ConfigurationError, ClusterError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise ConfigurationError(INSTALL) from error
    try:
        async with asyncio.timeout(CONNECT_S):
            await asyncio.to_thread(_init, ray, address, entry.set_path)
    except Exception as error:  # Ray raises many kinds
        raise ClusterError(f"The cluster {address} cannot be reached: {_line(error)}") from error
    return ray


async def survey(ray: Any, entry: Entry, batch: BatchOptions) -> dict[str, NodeFacts]:
    """What each living node says about itself, by Ray's id of it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = {node["NodeID"]: node for node in await asyncio.to_thread(ray.nodes) if node["Alive"]}
    describe, calls, found = ray.remote(entry.describe), {}, {}
    for id in nodes:
        there = NodeAffinitySchedulingStrategy(id, soft=False)
        calls[id] = describe.options(num_cpus=0, max_retries=0, scheduling_strategy=there).remote(batch)
    for id, call in calls.items():
        try:
            found[id] = await call
        except (ray.exceptions.RayError, ConnectionError) as error:
            found[id] = NodeFacts(nodes[id]["NodeManagerHostname"], "", "", "", _line(error))
    return found


def _mark(folder: Path) -> None:
    """Tell nodes with the same home that the driver's store is theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DRIVER).touch()


def _init(ray: Any, address: str, set_path: str) -> None:
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(
        address="auto" if address == "ray" else address,
        log_to_driver=False,
        configure_logging=False,
        runtime_env={"worker_process_setup_hook": set_path},
    )


async def _awaited(call: Any) -> Any:
    return await call


def _line(error: BaseException) -> str:
    """The last line of an error, which says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
