"""What is known of a conversation's shell when an action is judged: its log, and the commands of the same answer.

A model's answer can hold several commands, which are judged one after the other before any of them is in the log. They
are kept until the log grows. Used by AgentSession, which hands it to the guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from core.events import Action, CmdRunAction, Envelope
from core.security.command.state import Shell
from core.security.shells import Shells, ran
from core.stream import EventStream

PAGE = 500
"""Events that are read at a time."""


class ShellRecord:
    """Of one conversation. `workspace` is its folder as the sandbox calls it."""

    def __init__(self, stream: EventStream, workspace: Callable[[], str]) -> None:
        self._stream = stream
        self._workspace = workspace
        self._shells: Shells | None = None
        self._seen_id = -1
        self._ahead: Shell | None = None
        self._turn = asyncio.Lock()

    async def before(self, action: Action) -> Shell:
        """What is known of the shell before this action. Raises StoreError."""
        async with self._turn:
            workspace = self._workspace()
            shells = self._shells or Shells(workspace, Shell((workspace,)))
            while page := await self._stream.read(after=self._seen_id, limit=PAGE):
                shells = await asyncio.to_thread(_folded, shells, page)
                self._seen_id, self._ahead = page[-1].id, None
            self._shells = shells
            if not isinstance(action, CmdRunAction):
                return self._ahead or shells.shell
            if any(waiting.action.command == action.command for waiting in shells.waiting):
                return shells.before(action)
            shell = self._ahead or shells.shell
            self._ahead = await asyncio.to_thread(ran, action, workspace, shell)
            return shell


def _folded(shells: Shells, page: Sequence[Envelope]) -> Shells:
    for envelope in page:
        shells = shells.after(envelope)
    return shells
