"""What is known of a conversation's shell: a pure fold over its log, as the guard judges commands.

A command that the log holds counts as carried out, unless its observation says that it was not. What the shell's own
prompt says of its folder wins. A command that is not understood leaves a shell of which nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.events import (
    Action,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Observation,
    UserRejectObservation,
)
from core.security.facts import facts_of
from core.security.shell.shell_state import Shell

MAX_WAITING = 100


@dataclass(frozen=True, slots=True)
class Waiting:
    """A command without an observation so far."""

    event: int
    action: CmdRunAction
    before: Shell


@dataclass(frozen=True, slots=True)
class Shells:
    """The shell after some events."""

    workspace: str
    shell: Shell
    waiting: tuple[Waiting, ...] = ()

    def after(self, envelope: Envelope) -> Shells:
        """The shell after one more event. Events come in the order of their ids."""
        event = envelope.event
        if isinstance(event, CmdRunAction):
            waiting = (*self.waiting, Waiting(envelope.id, event, self.shell))[-MAX_WAITING:]
            return replace(self, shell=ran(event, self.workspace, self.shell), waiting=waiting)
        if isinstance(event, Observation) and envelope.cause is not None:
            return self._observed(event, envelope.cause)
        return self

    def _observed(self, event: Observation, cause: int) -> Shells:
        one = next((waiting for waiting in self.waiting if waiting.event == cause), None)
        if one is None:
            return self
        rest = tuple(waiting for waiting in self.waiting if waiting is not one)
        shell = self.shell
        if isinstance(event, UserRejectObservation | ErrorObservation):
            shell = one.before if not rest else shell.merged(one.before)
        elif (
            isinstance(event, CmdOutputObservation) and not rest and event.metadata.working_dir and event.exit_code >= 0
        ):
            shell = shell.at((event.metadata.working_dir,))
        return replace(self, shell=shell, waiting=rest)

    def before(self, action: Action) -> Shell:
        """What is known of the shell before an action: one that waits, or one that is not in the log yet."""
        for waiting in self.waiting:
            same = isinstance(action, CmdRunAction) and waiting.action.command == action.command
            if same and waiting.action.tool_call_metadata == action.tool_call_metadata:
                return waiting.before
        return self.shell


def ran(action: CmdRunAction, workspace: str, shell: Shell) -> Shell:
    """What is known of a shell after a command."""
    if action.is_static:
        return shell
    return facts_of(action, workspace=workspace, shell=shell).shell
