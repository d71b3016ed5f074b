"""What the guard is told about earlier events when it judges an action.

RiskChecks applies the taint of foreign content and the security analyzers; both are folds over the log, computed in a
thread when the first action is judged and continued with each further one. Their answer can only be to ask the user.
ShellRecord knows the state of the agent's shell, from the log and from the commands of the same answer, which are
judged one after the other before any of them is in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from core.events import Action, ActionSecurityRisk, CmdRunAction, Envelope, MCPAction
from core.security.analyzers import Analyzer, analyzers, assess
from core.security.analyzers.action_history import History
from core.security.confirmation import ANALYZERS, TAINT, Judgement, Verdict
from core.security.facts import Facts, facts_of
from core.security.shell.shell_state import Shell
from core.security.shell_history import Shells, ran
from core.security.taint import Taint
from core.settings.security_settings import SecuritySettings
from core.stream import EventStream

PAGE = 500
"""Events that are read at a time."""


class RiskChecks:
    """The taint and the analyzers of one conversation. `workspace` is its folder as the sandbox sees it.

    `is_fine` tells whether the user trusts a source of foreign content; `harmless` returns the tools of MCP servers
    that change nothing and contact nobody else.
    """

    def __init__(
        self,
        stream: EventStream,
        workspace: Callable[[], str],
        settings: SecuritySettings,
        is_fine: Callable[[str], bool] = lambda source: False,
        harmless: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._stream = stream
        self._workspace = workspace
        self._settings = settings
        self._is_fine = is_fine
        self._harmless = harmless
        self._analyzers: Sequence[Analyzer] | None = None
        self._taint: Taint | None = None
        self._history: History | None = None
        self._seen_id = -1
        self._turn = asyncio.Lock()

    async def judge(self, action: Action, facts: Facts) -> Judgement:
        """Return ASK with the reasons, or only the risk. Raises StoreError, ConfigurationError; then the guard asks."""
        async with self._turn:
            taint, history = await self._caught_up()
            if self._analyzers is None:
                self._analyzers = await asyncio.to_thread(analyzers, self._settings.analyzers)
        if isinstance(action, MCPAction) and action.name in (harmless := self._harmless()):
            facts = facts_of(action, workspace=self._workspace(), read_only=harmless)
        said = await assess(self._analyzers, action, facts, history.done)
        risky = said.reasons if said.risk is ActionSecurityRisk.HIGH else ()
        if self._settings.taint and (
            reason := await asyncio.to_thread(taint.asks, facts, action, self._is_fine)  # may look at the disk
        ):
            return Judgement(Verdict.ASK, TAINT, (reason, *risky), in_every_mode=True, risk=said.risk)
        verdict = Verdict.ASK if said.risk is ActionSecurityRisk.HIGH else Verdict.ALLOW
        return Judgement(verdict, ANALYZERS, risky, risk=said.risk)

    async def _caught_up(self) -> tuple[Taint, History]:
        """Both folds, up to the newest stored event."""
        workspace = self._workspace()
        taint, history = self._taint or Taint(workspace), self._history or History(workspace)
        while page := await self._stream.read(after=self._seen_id, limit=PAGE):
            taint, history = await asyncio.to_thread(_folded, taint, history, page)
            self._taint, self._history, self._seen_id = taint, history, page[-1].id
        return taint, history


def _folded(taint: Taint, history: History, page: Sequence[Envelope]) -> tuple[Taint, History]:
    for envelope in page:
        taint, history = taint.after(envelope), history.after(envelope)
    return taint, history


class ShellRecord:
    """The state of the shell of one conversation. `workspace` is its folder as the sandbox sees it."""

    def __init__(self, stream: EventStream, workspace: Callable[[], str]) -> None:
        self._stream = stream
        self._workspace = workspace
        self._shells: Shells | None = None
        self._seen_id = -1
        self._ahead: Shell | None = None
        self._turn = asyncio.Lock()

    async def before(self, action: Action) -> Shell:
        """The shell before this action. Raises StoreError."""
        async with self._turn:
            workspace = self._workspace()
            shells = self._shells or Shells(workspace, Shell((workspace,)))
            while page := await self._stream.read(after=self._seen_id, limit=PAGE):
                shells = await asyncio.to_thread(_shell_record_folded, shells, page)
                self._seen_id, self._ahead = page[-1].id, None
            self._shells = shells
            if not isinstance(action, CmdRunAction):
                return self._ahead or shells.shell
            if any(waiting.action.command == action.command for waiting in shells.waiting):
                return shells.before(action)
            shell = self._ahead or shells.shell
            self._ahead = await asyncio.to_thread(ran, action, workspace, shell)
            return shell


def _shell_record_folded(shells: Shells, page: Sequence[Envelope]) -> Shells:
    for envelope in page:
        shells = shells.after(envelope)
    return shells
