"""Trust in a folder: approval of everything in it that affects an agent, and its revocation.

Approvals of a project's agents and MCP servers are stored with them (`core.agent.agent_files`, `core.mcp.approvals`).
Trust in the folder includes those that were shown with it, as they were then.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from core.agent.agent_files import PROJECT_FOLDER, AgentFile, AllowedAgents, read_project
from core.agent.registry import AgentKind
from core.mcp.approvals import Approvals
from core.mcp.server_definitions import ServerSpec, of_project
from core.mcp.supervisor import ServerState, Supervisor
from core.memory.library import Gathered, UserFolders, gather
from core.trust.folder_survey import Kind, Piece, survey_project
from core.trust.trust_store import ALWAYS, NEVER, TrustPolicy, TrustState


class FolderTrust:
    """The trusted folders of one home. Its methods do not wait for servers."""

    def __init__(self, home: Path, own: UserFolders, policy: TrustPolicy, mcp: Supervisor | None = None) -> None:
        self._own = own
        self._policy = policy
        self._mcp = mcp
        self._allowed = AllowedAgents(home)
        self._approvals = Approvals(home)

    async def state_of(self, folder: str, along: Sequence[str] = ()) -> TrustState:
        """The trust in a folder; `along` are subfolders that are included. Never raises."""
        return await asyncio.to_thread(lambda: self._policy.state_of(survey_project(folder, along)))

    async def gathered(self, folder: str) -> Gathered:
        """Everything that applies in a folder, the user's own included. Never raises."""
        return await asyncio.to_thread(gather, self._own, self._policy, folder)

    async def apply_setting(self, folder: str) -> None:
        """Trust a folder if the setting trusts every folder. Raises ConfigurationError."""
        if self._policy.mode == ALWAYS and (state := await self.state_of(folder)).waiting:
            await self.approve(folder, state)

    @property
    def asks(self) -> bool:
        """Whether the user is asked; otherwise the setting decides."""
        return self._policy.mode not in (ALWAYS, NEVER)

    async def approve(self, folder: str, shown: TrustState) -> None:
        """Approve what was shown of a folder. Raises ConfigurationError."""
        servers = await asyncio.to_thread(self._approve, folder, shown)
        if self._mcp is not None:
            for spec in servers:
                await self._mcp.allow(spec.key, spec.fingerprint)

    def _approve(self, folder: str, shown: TrustState) -> list[ServerSpec]:
        self._policy.store.approve(shown.survey.folder, shown.waiting)
        digests = {piece.path: piece.digest for piece in shown.survey.pieces}
        workspace = Path(folder).expanduser().absolute()
        for file in read_project(workspace)[0]:
            if digests.get(file.path.relative_to(workspace).as_posix()) == file.digest:
                self._allowed.add(file)
        if not shown.survey.of(Kind.MCP) or not self._is_as_shown(folder, shown):
            return []
        servers, _ = of_project(folder)
        waiting = [spec for spec in servers if not self._approvals.is_approved(spec)]
        if self._mcp is None:
            for spec in waiting:
                self._approvals.approve(spec)
        return [] if self._mcp is None else self._agree_to_idle(waiting)

    def _agree_to_idle(self, waiting: list[ServerSpec]) -> list[ServerSpec]:
        """Agree to servers that are not in use, and return the others for the supervisor."""
        assert self._mcp is not None
        supervised = list[ServerSpec]()
        for spec in waiting:
            used = [one for one in self._mcp.everywhere(spec.folder) if one.spec.approval_key == spec.approval_key]
            if asking := [one.spec for one in used if one.state is ServerState.CONSENT]:
                supervised.append(asking[0])
            else:
                self._approvals.approve(spec)
        return supervised

    def _is_as_shown(self, folder: str, shown: TrustState) -> bool:
        now = {piece.digest for piece in survey_project(folder).of(Kind.MCP)}
        return now == {piece.digest for piece in shown.survey.of(Kind.MCP)}

    async def allow_agent(self, kind: AgentKind) -> None:
        """Allow a project's agent that the user has reviewed. Raises ConfigurationError."""
        if (file := kind.file) is not None:
            await asyncio.to_thread(self._allow_agent, file)

    def _allow_agent(self, file: AgentFile) -> None:
        self._allowed.add(file)
        workspace = file.path.parents[len(PROJECT_FOLDER.parts)]
        piece = Piece(Kind.AGENT, file.path.relative_to(workspace).as_posix(), file.text)
        self._policy.store.approve(os.path.realpath(workspace), [piece])

    async def refuse(self, shown: TrustState) -> None:
        """Refuse what was shown, until it changes. Raises ConfigurationError."""
        await asyncio.to_thread(self._policy.store.refuse, shown.survey.folder, shown.waiting)

    async def revoke(self, folder: str) -> bool:
        """Revoke the trust in a folder, its agents and servers; returns whether there was any.

        Running servers of the folder are ended. Raises ConfigurationError.
        """
        had = await asyncio.to_thread(self._revoke, folder)
        if self._mcp is not None:
            for server in self._mcp.everywhere(folder):
                if server.spec.folder:
                    await self._mcp.restart(server.key)
        return had

    def _revoke(self, folder: str) -> bool:
        names = {folder, str(Path(folder).expanduser().absolute()), os.path.realpath(folder)}
        for name in names:
            self._allowed.forget_below(name)
            self._approvals.forget_folder(name)
        return self._policy.store.revoke(os.path.realpath(folder))

    def folders(self) -> dict[str, int]:
        """The trusted folders, with the number of their files. Blocks. Raises ConfigurationError."""
        return self._policy.store.folders()
