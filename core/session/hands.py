"""Hands: what the user does in the agent's sandbox by himself, while the agent waits or rests.

Commands in the agent's shell, its terminal, and its browser. Used by AgentSession.
"""

from __future__ import annotations

from core.ports import Executor, Runtime
from core.session.take_over import TakeOver
from core.session.user_shell import UserShell
from core.session.users_action import Surroundings
from core.session.users_browser import UsersBrowser


class Hands:
    """Of one conversation. `shell` carries out commands: the runtime, or what lends it secrets."""

    def __init__(self, runtime: Runtime, shell: Executor, place: Surroundings) -> None:
        self.commands = UserShell(shell, place)
        """Commands between what the agent does."""
        self.terminal = TakeOver(runtime, place)
        """Whether the user has the terminal; `AgentSession.take_terminal` begins it."""
        self.browser = UsersBrowser(runtime, place)
        """Whether the user has the browser; `AgentSession.take_browser` begins it."""

    @property
    def are_on(self) -> bool:
        """Whether the user has hold of anything."""
        return self.commands.is_busy or self.terminal.is_on or self.browser.is_on

    def interrupt(self) -> None:
        """Let go of all of it, because the conversation closes."""
        self.commands.interrupt()
        self.terminal.interrupt()
        self.browser.interrupt()
