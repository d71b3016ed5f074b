"""`handloom batch`: carries out a list of tasks. Run again, it goes on where it ended.

Standard output has the path of the results; progress is on standard error, or one line of JSON for each attempt. This
is the process that works on the batch; at a terminal, `tui.batch.start` starts it in the background.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from core.batch import environments
from core.batch.attempt_runner import AttemptRunner
from core.batch.batch_options import BatchOptions
from core.batch.driver import Driver
from core.batch.engine import Engine
from core.batch.ledger import LOCK, AttemptState, Ended, Ledger, TaskState
from core.batch.local_engine import LocalEngine
from core.batch.progress import left_s
from core.batch.requests import DriverState
from core.batch.results import RESULTS, write_results
from core.batch.tasks import BatchTask, read_tasks
from core.conversations.conversation_manager import ConversationManager
from core.environment import home_folder
from core.errors import ConfigurationError, ExitStatus, StoreError, UsageError
from core.llm.budget import Budget
from core.llm.permits import Permits
from tui.cli.command_line import parse
from tui.cli.output import notice, say
from tui.cli.run import command_manager, interrupts, warn_if_open
from tui.file_watcher import RUNG, watch

ATTACH = "attach"
"""In the place of the list of tasks: watch a batch that another process runs."""
LOCAL, CLUSTER = "local", "ray"
MAX_WORKERS = 64
"""The most attempts that run at once on one machine, if the user asks a running batch for more workers."""
REST_S = 0.1
"""Shortest time between two looks for requests."""
LOOK_S = 2.0
"""How often requests are looked for on systems that do not tell of changes."""
READY = b"+"
"""Written to `--ready-fd`."""
ANSWER_TOKENS = 16_384
"""The longest answer of a model under a budget, if the settings have no limit: the most that it costs must be known."""


async def batch(options: argparse.Namespace) -> int:
    """Run a batch and return the exit status. Raises HandloomError only before it begins."""
    if str(options.tasks) == ATTACH:
        from tui.batch.attach import attach

        return await attach(options.attached)
    if options.attached is not None or options.out is None:
        raise UsageError("Name the list of tasks and a folder: handloom batch TASKS --out DIR")
    if options.workers < 1 or options.attempts < 1:
        raise UsageError("--workers and --attempts must be at least 1.")
    tasks = await asyncio.to_thread(_tasks, options.tasks)
    _check_engine(options.engine, tasks)
    home = home_folder(os.environ)
    shared = _shared(options)
    settings = await asyncio.to_thread(shared.settings, home)
    if not settings.model and (lacking := next((task for task in tasks if not task.model), None)) is not None:
        raise ConfigurationError(f"Task {lacking.id} has no model, and none is configured. Pass --model.")
    if options.ready_fd is not None:
        os.set_inheritable(options.ready_fd, False)
    interrupted = interrupts()
    with Ledger(options.out) as ledger:
        ledger.begin(tasks, amend=options.amend)
        if options.retry_failed is not None:
            states = [AttemptState(options.retry_failed)] if options.retry_failed else []
            notice(f"{ledger.retry(states)} failed tasks run again.")
        async with command_manager(home, settings) as manager:
            ledger.lost_costs({info.id: info.cost for info in await manager.list()})
            budget = Budget(options.budget, ledger.spent())
            if options.engine == LOCAL:
                engine, on_workers = _local_engine(options, manager, budget)
            else:
                engine, on_workers = await _cluster_engine(options, manager, budget, shared), _keep_calls
            progress = _Progress(ledger, tasks, budget, is_json=options.json)
            driver = Driver(
                ledger,
                engine,
                options.out.absolute(),
                budget=budget,
                workers=options.workers,
                attempts=options.attempts,
                state=_command(options),
                on_change=progress.note,
                on_workers=on_workers,
            )
            _say_ready(options.ready_fd)
            try:
                with _hearing(options.out, driver):
                    status = await driver.run(interrupted)
            finally:
                await engine.aclose()
        try:
            await asyncio.to_thread(write_results, ledger.rows(), options.out, settings.model)
        except OSError as error:
            raise StoreError(
                f"The results cannot be written: {error.strerror}. Free some space, then run again."
            ) from error
        progress.end(status)
    if not options.json:
        say(str(options.out / RESULTS))
    return status


def _local_engine(
    options: argparse.Namespace, manager: ConversationManager, budget: Budget
) -> tuple[Engine, Callable[[int], None]]:
    """An engine of this process, and what sets how many calls each model may have at once."""
    most = options.workers
    manager.factory.llms.budget = budget
    permits = defaultdict[str, Permits](lambda: Permits(most))
    manager.factory.llms.permits = permits.__getitem__

    def set_most(workers: int) -> None:
        nonlocal most
        most = workers
        for one in permits.values():
            one.most = workers
            one.limit = min(one.limit, workers)

    runner = AttemptRunner(manager, options.out.absolute(), approve=options.yes)
    return LocalEngine(manager, runner, max(options.workers, MAX_WORKERS), warn_if_open), set_most


async def _cluster_engine(
    options: argparse.Namespace, manager: ConversationManager, budget: Budget, shared: BatchOptions
) -> Engine:
    """Connect to a cluster. Raises ConfigurationError, ClusterError."""
    from core.batch.ray_engine import RayEngine
    from tui.batch.node import ENTRY

    batch = shared.for_nodes(manager.settings)
    return await RayEngine.connect(
        options.engine, batch=batch, entry=ENTRY, manager=manager, budget=budget, workers=options.workers
    )


def _shared(options: argparse.Namespace) -> BatchOptions:
    """What all attempts have in common."""
    settings = {
        "model": options.model,
        "runtime": options.runtime,
        "agent__name": options.agent,
        "agent__confirm": options.confirm,
        "trust__projects": "always" if options.trust else None,
        "conversations__max_concurrent": max(options.workers, MAX_WORKERS),
        "conversations__close_delay_s": 0,
    }
    capped = ANSWER_TOKENS if options.budget is not None else None
    return BatchOptions(
        given=settings, max_answer_tokens=capped, approve=options.yes, has_budget=options.budget is not None
    )


def _command(options: argparse.Namespace) -> DriverState:
    """What the screen of the batch needs to name the command that goes on with it."""
    name, words = str(options.tasks), []
    defaults = parse(["batch", "TASKS"])
    for option in ("engine", "workers", "attempts", "model", "agent", "runtime", "confirm"):
        if (value := getattr(options, option)) != getattr(defaults, option):
            words += [f"--{option}", str(value)]
    words += [f"--{option}" for option in ("yes", "trust") if getattr(options, option)]
    tasks = name if environments.is_pattern(name) else str(options.tasks.absolute())
    return DriverState(tasks=tasks, options=shlex.join(words))


def _tasks(path: Path) -> list[BatchTask]:
    """The tasks of a file, or those of environments. Raises UsageError."""
    name = str(path)
    return environments.tasks_of(name, os.environ) if environments.is_pattern(name) else read_tasks(path)


def _check_engine(address: str, tasks: list[BatchTask]) -> None:
    """Raises UsageError for an engine that does not exist, or that cannot carry out these tasks."""
    if address not in (LOCAL, CLUSTER) and not address.startswith(f"{CLUSTER}://"):
        raise UsageError(f"{address} is no engine. Use --engine {LOCAL}, {CLUSTER} or {CLUSTER}://HOST:PORT.")
    if address != LOCAL and (copied := next((task for task in tasks if task.workspace), None)) is not None:
        raise UsageError(
            f"Task {copied.id} has a folder of this machine as its workspace, which the nodes of a cluster cannot "
            "read. Use a repository instead."
        )


def _keep_calls(workers: int) -> None:
    """The calls that a cluster allows at once do not change with the number of workers."""


@contextmanager
def _hearing(folder: Path, driver: Driver) -> Iterator[None]:
    """Have the driver look for requests when other processes make some."""
    watching = watch(folder / LOCK, driver.wake, RUNG, rest_s=REST_S)
    looking = None if watching is not None else asyncio.create_task(_look(driver))
    try:
        yield
    finally:
        if watching is not None:
            watching.close()
        if looking is not None:
            looking.cancel()


async def _look(driver: Driver) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        driver.wake()


def _say_ready(fd: int | None) -> None:
    """Tell the process that has started this one that the batch runs."""
    if fd is not None:
        with suppress(OSError):  # it has ended
            os.write(fd, READY)
        os.close(fd)


class _Progress:
    """Says what happens: a line for each attempt that ends."""

    def __init__(self, ledger: Ledger, tasks: list[BatchTask], budget: Budget, *, is_json: bool) -> None:
        self._ledger, self._total, self._budget, self._is_json = ledger, len(tasks), budget, is_json
        self._began = time.monotonic()
        self._before = self._finished()
        if not is_json:
            waiting = self._total - self._before
            notice(f"{self._total} tasks, {waiting} to do." if self._before else f"{self._total} tasks.")

    def _finished(self) -> int:
        counts = self._ledger.counts()
        return counts[TaskState.DONE] + counts[TaskState.FAILED]

    def note(self, id: str, attempt: int, ended: Ended | None) -> None:
        """An attempt begins (None) or has ended."""
        if self._is_json:
            how = {"state": "running"} if ended is None else {"state": ended.state.value, "reason": ended.reason}
            if ended is not None:
                how |= {"cost": ended.cost, "conversation_id": ended.conversation}  # type: ignore[dict-item]
            say(json.dumps({"id": id, "attempt": attempt, **how}, ensure_ascii=False))
        elif ended is not None:
            done = self._finished()
            left = left_s(done - self._before, self._total - self._before, self._began)
            about = f", about {left / 60:.0f} min left" if left is not None and left >= 60 else ""
            cost = f", ${self._budget.spent:,.2f} spent" if self._budget.spent else ""
            why = f": {ended.reason.splitlines()[0]}" if ended.reason else ""
            notice(f"[{done}/{self._total}{cost}{about}] {id}: {ended.state.value}{why}")

    def end(self, status: ExitStatus) -> None:
        """Say how the batch ended, and how to go on."""
        if self._is_json:
            return
        counts = self._ledger.counts()
        notice(
            f"{counts[TaskState.DONE]} done, {counts[TaskState.FAILED]} failed, {counts[TaskState.WAITING]} waiting."
        )
        if self._budget.is_spent:
            notice("The budget is spent. Run the same command with a larger --budget to go on.")
        elif status is ExitStatus.INTERRUPTED:
            notice("Interrupted. Run the same command to go on.")
        elif status is ExitStatus.ERROR:
            notice("Run the same command with --retry-failed to try the failed tasks again.")
