"""Reports what the sandbox left in the workspace that the user's own programs would execute, each thing once.

A sandbox cannot keep an agent from making a repository with its own hooks and settings. So whenever the agent rests,
and when the sandbox has ended, the runtime is asked what is there that was not there at the start. The event log is the
only record of what was reported, so nothing is reported twice, also after a restart. Files that did not come back from
a remote workspace are reported in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from core.errors import UsageError
from core.events import AgentState, AgentStateChangedObservation, Envelope, ErrorObservation, EventSource
from core.protocols import Runtime
from core.store.reader import EventFilter
from core.stream import EventStream

LEFT_BEHIND = "STATUS$LEFT_BEHIND"
CAME_BACK = "STATUS$CAME_BACK"
MAX_LINES = 100
"""Lines in one event; the rest is reported with the next one."""
MORE = "and {n} more, which are listed by /sandbox"
_WORKING_STATES = (
    AgentState.RUNNING,
    AgentState.RATE_LIMITED,
    AgentState.LOADING,
    AgentState.USER_CONFIRMED,
    AgentState.USER_REJECTED,
)
INTRODUCTION = (
    "The workspace contains something that the sandbox could write and that your own programs would execute, outside "
    "of the sandbox and with your permissions:"
)
CAME_BACK_INTRODUCTION = "The work was copied back from where the sandbox ran, except for this:"
REMEDY = (
    "Check each one before you use git, an editor or a tool there. To remove a setting, run `git config --file FILE "
    "--unset SETTING` from another folder. To restore a file that was moved aside, use /restore NAME."
)


class Leftovers:
    """The reports of one conversation, and the files that were moved aside."""

    def __init__(
        self,
        runtime: Runtime,
        stream: EventStream,
        restart: Callable[[], Awaitable[None]],
        agent_works: Callable[[], bool],
    ) -> None:
        self._runtime = runtime
        self._stream = stream
        self._restart = restart
        """Ends the sandbox; the next action starts a new one."""
        self._agent_works = agent_works
        self._lock = asyncio.Lock()

    async def on_state(self, envelope: Envelope) -> None:
        """Callback for state changes: look when the agent has come to rest. Raises StoreError."""
        changed = envelope.event
        if isinstance(changed, AgentStateChangedObservation) and changed.agent_state not in _WORKING_STATES:
            await self.report()

    async def put_back(self, name: str) -> str:
        """Give a file that was moved aside its name again, and return the name. The next sandbox cannot write it.

        Ends the sandbox; the next action starts a new one. Raises UsageError while the agent works.
        """
        if self._agent_works():
            raise UsageError("The agent is working. Pause it first, then restore the file.")
        restored = await self._runtime.put_back(name)
        await self._restart()
        return restored

    async def report(self) -> None:
        """Report what was not reported yet. Raises StoreError."""
        async with self._lock:
            await self._report_new(LEFT_BEHIND, INTRODUCTION, await self._runtime.left_behind(), REMEDY)
            await self._report_new(CAME_BACK, CAME_BACK_INTRODUCTION, await self._runtime.came_back(), "")

    async def _report_new(self, error_id: str, introduction: str, lines: Sequence[str], remedy: str) -> None:
        found = [f"- {what}" for what in lines]
        if not found:
            return
        reports = EventFilter(kinds=frozenset({"observation:error"}), query=error_id)
        reported = {
            line
            for envelope in await self._stream.read(where=reports)
            if isinstance(envelope.event, ErrorObservation)
            for line in envelope.event.content.split("\n")
        }
        if new := [line for line in dict.fromkeys(found) if line not in reported]:
            more = MORE.format(n=len(new) - MAX_LINES) if len(new) > MAX_LINES else ""
            content = "\n".join(filter(None, [introduction, *new[:MAX_LINES], more, remedy]))
            await self._stream.append(ErrorObservation(content=content, error_id=error_id), EventSource.ENVIRONMENT)
