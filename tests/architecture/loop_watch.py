"""Scripted sessions as the workspace has them, with the work of every callback on their loop measured.

    python -m tests.architecture.loop_watch MODEL FOLDER

One conversation with much output, and one with a long history that is opened again. Says on standard output, as JSON,
how many callbacks there were, which took the most CPU time of the loop's thread, and what the yardstick's loop took
around them.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import json
import os
import sys
import time
from asyncio import events
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from core.events import CmdOutputObservation, CmdRunAction, EventSource, MessageAction, SystemMessageAction
from core.store.event_store import EventStore
from core.store.writer import Draft
from tests.yardstick import loop_s
from tui.__main__ import connect
from tui.cli.options import StartOptions

ROUNDS = 2000
"""Of the long history: a message, a command and its output each."""


class Watch:
    """What each callback of a loop took."""

    def __init__(self) -> None:
        self.callbacks = 0
        self.slowest: list[tuple[float, int, str]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure every loop that runs in this process."""
        run = events.Handle._run

        def measured(handle: events.Handle) -> None:
            begun = time.thread_time()
            run(handle)
            self._note((time.thread_time() - begun) * 1000, handle)

        setattr(events.Handle, "_run", measured)  # noqa: B010
        try:
            yield
        finally:
            setattr(events.Handle, "_run", run)  # noqa: B010

    def _note(self, ms: float, handle: events.Handle) -> None:
        self.callbacks += 1
        if len(self.slowest) < 5:
            heapq.heappush(self.slowest, (ms, self.callbacks, name_of(handle)))
        elif ms > self.slowest[0][0]:
            heapq.heapreplace(self.slowest, (ms, self.callbacks, name_of(handle)))


def name_of(handle: events.Handle) -> str:
    """The name of a callback; for a task, its coroutine and the line at which it waits."""
    task = getattr(getattr(handle, "_callback", None), "__self__", None)
    return repr(task) if isinstance(task, asyncio.Task) else repr(handle)


async def long_history(home: Path, workspace: str, model: str) -> str:
    """A stored conversation of thousands of events; its id."""
    drafts = [Draft(SystemMessageAction(content="be good"), EventSource.AGENT)]
    for _ in range(ROUNDS):
        drafts.append(Draft(MessageAction(content="and now? " * 30), EventSource.USER))
        drafts.append(Draft(CmdRunAction(command="ls"), EventSource.AGENT, len(drafts) - 1))
        output = CmdOutputObservation(command="ls", content="a file\n" * 100)
        drafts.append(Draft(output, EventSource.AGENT, len(drafts) - 1))
    async with EventStore(home) as store:
        lease = await store.create_conversation("long", title="long", workspace=workspace, model=model)
        for start in range(0, len(drafts), 500):
            await store.append(lease, drafts[start : start + 500])
    return "long"


async def sessions(options: StartOptions, long: str) -> list[str]:
    """A new conversation, the same one opened again, and the long one with one more step; how each ends."""
    async with aclosing(await connect(options)) as manager:
        opened = await manager.create(workspace=options.workspace)
        await opened.send("go")
        await opened.settled()
        conversation, ends = opened.info.id, [opened.state.agent_state.value]
    async with aclosing(await connect(options)) as manager:
        ends.append((await manager.open(conversation)).state.agent_state.value)
        opened = await manager.open(long)
        await opened.send("go")
        await opened.settled()
        return [*ends, opened.state.agent_state.value]


def main() -> None:
    """Prepare, then run the sessions under the watch."""
    model, folder = sys.argv[1], Path(sys.argv[2])
    home, workspace = folder / "home", folder / "workspace"
    workspace.mkdir()
    os.environ.update(HANDLOOM_HOME=str(home), HANDLOOM__AGENT__CONFIRM="never")
    long = asyncio.run(long_history(home, str(workspace), model))
    gc.disable()  # a collection falls on whichever callback is next, and would hide whose work is too much
    watch, loops_s = Watch(), [loop_s() for _ in range(3)]
    with watch.watching():
        ends = asyncio.run(sessions(StartOptions(workspace=str(workspace), model=model), long))
    loops_s += [loop_s() for _ in range(3)]
    slowest = [(name, ms) for ms, _, name in sorted(watch.slowest, reverse=True)]
    report = {"ends": ends, "callbacks": watch.callbacks, "slowest": slowest, "loop_ms": max(loops_s) * 1000}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
