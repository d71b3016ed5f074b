"""UserShell: commands that the user runs in the agent's shell, between what the agent does.

Invariants: one at a time, and never beside the agent, which shares the shell's folder and variables; each stands in
the log as an action of the user, stored before it runs, and as the one observation that answers it, whatever ends it.
It waits for the sandbox as the agent's first action does, and has no time limit: the user stops it. The model reads
both with the next message, as in OpenHands V0. Used by AgentSession.
"""

from __future__ import annotations

import asyncio

from core.controller.controller import INTERRUPTED, INTERRUPTED_EXIT
from core.controller.outcomes import Seen
from core.errors import UsageError
from core.events import CmdOutputMetadata, CmdOutputObservation, CmdRunAction, Envelope, Observation
from core.ports import Executor
from core.session.users_action import Surroundings, UsersAction

NO_LIMIT_S = 7 * 24 * 3600.0
"""A server that the user started may run for days; what is forgotten ends with the conversation."""


class UserShell:
    """The user's commands of one conversation, carried out by `shell`."""

    def __init__(self, shell: Executor, place: Surroundings) -> None:
        self._shell = shell
        self._place = place
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a command is running."""
        return self._task is not None and not self._task.done()

    async def run(self, command: str) -> Envelope:
        """Store the command and let it run. Raises UsageError while another one runs, StoreError."""
        if self.is_busy:
            raise UsageError("Your last command still runs. Esc stops it; then run the next one.")
        action = CmdRunAction(command=command, blocking=True, timeout=NO_LIMIT_S)
        seen = Seen(self._place.frames)

        async def carry_out(action_id: int) -> Observation:
            await self._place.ready()
            return await self._shell.execute(action, action_id, seen.publish)

        def cut_short() -> Observation:
            metadata = CmdOutputMetadata(exit_code=INTERRUPTED_EXIT, suffix=INTERRUPTED)
            return CmdOutputObservation(command=command, content=seen.output.take(), metadata=metadata)

        envelope, self._task = await UsersAction(action, carry_out, cut_short).begin(self._place)
        return envelope

    async def ended(self) -> None:
        """Return when none runs; its observation is stored by then."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def interrupt(self) -> None:
        """Stop the command that runs; it still gets its observation."""
        if self._task is not None:
            self._task.cancel()
