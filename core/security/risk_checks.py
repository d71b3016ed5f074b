"""What the guard knows about earlier events of a conversation when it judges an action.

RiskChecks applies the taint of untrusted content and the risk analyzers; its answer can only be to ask the user.
ShellRecord knows the state of the agent's shell. All of it is computed from the log, in a thread, when the first action
is judged, and continued with each further one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from core.errors import ConfigurationError
from core.events import (
    Action,
    ActionSecurityRisk,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    IPythonRunCellAction,
    MCPAction,
    Observation,
    UserRejectObservation,
)
from core.security.analyzers import Analyzer, History, analyzers, assess
from core.security.confirmation import ANALYZERS, FAILED_CHECK, TAINT, Judgement, Verdict
from core.security.facts import Facts, facts_of
from core.security.shell.shell_state import Shell
from core.security.taint import Taint
from core.settings.sections import SecuritySettings
from core.stream import EventStream

PAGE = 500
"""Events that are read at a time."""
_NEW_SHELL = "A fresh shell was started"
"""In the note of the server about a shell that ended."""
MAX_WAITING = 100
"""Commands without an observation that are remembered, the newest."""


class RiskChecks:
    """The taint and the analyzers of one conversation. `workspace` is its folder as the sandbox sees it.

    `is_fine` tells whether the user trusts a source of foreign content; `harmless` returns the tools of MCP servers
    that change nothing and contact nobody else. `policies` is the user's file of policies for the invariant analyzer.
    """

    def __init__(
        self,
        stream: EventStream,
        workspace: Callable[[], str],
        settings: SecuritySettings,
        is_fine: Callable[[str], bool] = lambda source: False,
        harmless: Callable[[], Collection[str]] = tuple,
        *,
        policies: Path | None = None,
    ) -> None:
        self._stream = stream
        self._workspace = workspace
        self._settings = settings
        self._is_fine = is_fine
        self._harmless = harmless
        self._policies = policies
        self._analyzers: Sequence[Analyzer] | None = None
        self._taint: Taint | None = None
        self._history: History | None = None
        self._seen_id = -1
        self._turn = asyncio.Lock()

    async def judge(self, action: Action, facts: Facts) -> Judgement:
        """Return ASK with the reasons, or only the risk. Raises StoreError; then the guard asks.

        Analyzers that are configured wrongly ask in the modes in which analyzers ask. The taint is judged without them.
        """
        wrong = ""
        async with self._turn:
            taint, history = await self._caught_up()
            if self._analyzers is None:
                try:
                    self._analyzers = await asyncio.to_thread(analyzers, self._settings.analyzers, self._policies)
                except ConfigurationError as error:
                    wrong = str(error)
        if isinstance(action, MCPAction) and action.name in (harmless := self._harmless()):
            facts = facts_of(action, workspace=self._workspace(), read_only=harmless)
        assessed = await assess(self._analyzers or (), action, facts, history.done)
        risky = assessed.reasons if assessed.risk is ActionSecurityRisk.HIGH else ()
        if wrong:
            risky = (wrong,)
        if self._settings.taint and (
            reason := await asyncio.to_thread(taint.asks, facts, action, self._is_fine)  # may look at the disk
        ):
            return Judgement(Verdict.ASK, TAINT, (reason, *risky), in_every_mode=True, risk=assessed.risk)
        if wrong:
            return Judgement(Verdict.ASK, FAILED_CHECK, risky)
        verdict = Verdict.ASK if assessed.risk is ActionSecurityRisk.HIGH else Verdict.ALLOW
        return Judgement(verdict, ANALYZERS, risky, risk=assessed.risk)

    async def _caught_up(self) -> tuple[Taint, History]:
        """Both folds, up to the newest stored event."""
        workspace = self._workspace()
        taint, history = self._taint or Taint(workspace), self._history or History(workspace)
        while page := await self._stream.read(after=self._seen_id, limit=PAGE):
            taint = await asyncio.to_thread(_fold, taint, page)
            history = await asyncio.to_thread(_fold, history, page)
            self._taint, self._history, self._seen_id = taint, history, page[-1].id
        return taint, history


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A command or a cell without an observation so far."""

    event: int
    action: CmdRunAction | IPythonRunCellAction
    before: Shell


@dataclass(frozen=True, slots=True)
class ShellHistory:
    """The state of the shell after some events. A command in the log counts as run, unless its observation denies that.

    The folder that the shell's prompt reports wins. After a command that is not understood, nothing is known.
    """

    workspace: str
    shell: Shell
    waiting: tuple[_Waiting, ...] = ()

    def after(self, envelope: Envelope) -> ShellHistory:
        """The state after one more event. Events come in the order of their ids."""
        event = envelope.event
        if isinstance(event, CmdRunAction | IPythonRunCellAction):
            waiting = (*self.waiting, _Waiting(envelope.id, event, self.shell))[-MAX_WAITING:]
            return replace(self, shell=shell_after(event, self.workspace, self.shell), waiting=waiting)
        if isinstance(event, Observation) and envelope.cause is not None:
            return self._observed(event, envelope.cause)
        return self

    def _observed(self, event: Observation, cause: int) -> ShellHistory:
        answered = next((waiting for waiting in self.waiting if waiting.event == cause), None)
        if answered is None:
            return self
        rest = tuple(waiting for waiting in self.waiting if waiting is not answered)
        shell = self.shell
        if isinstance(event, UserRejectObservation | ErrorObservation):
            shell = answered.before if not rest else shell.merged(answered.before)
        elif isinstance(event, CmdOutputObservation) and not rest and event.exit_code >= 0:
            shell = shell.at((event.metadata.working_dir,)) if event.metadata.working_dir else shell
            shell = shell.without_values() if _NEW_SHELL in event.metadata.prefix + event.metadata.suffix else shell
        return replace(self, shell=shell, waiting=rest)

    def before(self, action: Action) -> Shell:
        """The state before an action, which may wait for its observation or not be in the log yet."""
        for waiting in self.waiting:
            if _is_same(waiting.action, action) and waiting.action.tool_call_metadata == action.tool_call_metadata:
                return waiting.before
        return self.shell


def _is_same(one: Action, other: Action) -> bool:
    """Whether both run the same text in the same way."""
    match one, other:
        case CmdRunAction(), CmdRunAction():
            return one.command == other.command
        case IPythonRunCellAction(), IPythonRunCellAction():
            return one.code == other.code
    return False


def shell_after(action: CmdRunAction | IPythonRunCellAction, workspace: str, shell: Shell) -> Shell:
    """The state of a shell and of the kernel's cells after a command or a cell."""
    is_static = isinstance(action, CmdRunAction) and action.is_static
    return shell if is_static else facts_of(action, workspace=workspace, shell=shell).shell


class ShellRecord:
    """The state of the shell of one conversation. `workspace` is its folder as the sandbox sees it.

    Commands of one answer of the model are judged one after the other before any of them is in the log. `restarts`
    counts the ends of the sandbox; after one, and in a conversation that is opened again, the shell may be a new one.
    """

    def __init__(
        self, stream: EventStream, workspace: Callable[[], str], restarts: Callable[[], int] = lambda: 0
    ) -> None:
        self._stream = stream
        self._workspace = workspace
        self._restarts = restarts
        self._restarted = -1
        self._history: ShellHistory | None = None
        self._seen_id = -1
        self._ahead: Shell | None = None
        """The state after the commands that were judged and are not in the log yet."""
        self._turn = asyncio.Lock()

    async def before(self, action: Action) -> Shell:
        """The shell before this action. Raises StoreError."""
        async with self._turn:
            workspace = self._workspace()
            history = self._history or ShellHistory(workspace, Shell((workspace,)))
            while page := await self._stream.read(after=self._seen_id, limit=PAGE):
                history = await asyncio.to_thread(_fold, history, page)
                self._seen_id, self._ahead = page[-1].id, None
            if self._restarted != (restarted := self._restarts()):
                new = history.shell.without_values().merged(Shell((workspace,)))
                history, self._restarted, self._ahead = replace(history, shell=new), restarted, None
            self._history = history
            if not isinstance(action, CmdRunAction | IPythonRunCellAction):
                return self._ahead or history.shell
            if any(_is_same(waiting.action, action) for waiting in history.waiting):
                return history.before(action)
            shell = self._ahead or history.shell
            self._ahead = await asyncio.to_thread(shell_after, action, workspace, shell)
            return shell


_State = TypeVar("_State", Taint, History, ShellHistory)


def _fold(state: _State, page: Sequence[Envelope]) -> _State:
    for envelope in page:
        state = state.after(envelope)
    return state
