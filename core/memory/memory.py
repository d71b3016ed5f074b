"""Memory: what the agent of a conversation learns about its folder, project and user, and what the user sees of it.

At each message the folders of the user and the project are read, and the message's RecallAction is answered. Files that
the user has not trusted, and broken files, are reported once for each change. After an error, which is shown, the agent
works without memory.

Follows `openhands/memory/memory.py` of OpenHands V0, except that all triggers of a message count, not only the first,
and that nothing is repeated that the agent's history already has.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from core.errors import ConfigurationError, HandloomError, RuntimeUnavailableError
from core.events import (
    CmdOutputObservation,
    Envelope,
    EventSource,
    FileEditObservation,
    FileReadObservation,
    MicroagentKnowledge,
    NullObservation,
    RecallAction,
    RecallObservation,
    RecallType,
    Status,
)
from core.memory.library import PROJECT, YOURS, Gathered, Library, UserFolders, gather
from core.memory.remote_mirror import mirror_folder, refresh
from core.memory.saved_facts import SavedFacts, facts_text
from core.memory.view import View
from core.protocols import Runtime
from core.repository import Repository, folder_of
from core.secrets import Redactor
from core.store.conversations import ConversationInfo
from core.store.reader import EventFilter
from core.stream import EventStream, Frames
from core.trust.folder_reader import FolderReader, UnreadableError
from core.trust.folder_survey import Kind, Survey, survey_project
from core.trust.trust_store import ALWAYS, NEVER, TrustPolicy

log = logging.getLogger(__name__)

ERROR_MEMORY = "STATUS$ERROR_MEMORY"
UNTRUSTED = "STATUS$UNTRUSTED_FOLDER"
KNOWLEDGE_PROBLEMS = "STATUS$KNOWLEDGE_PROBLEMS"
SHOWN_PROBLEMS = 3
LOOKED_BACK = 20
"""How many results are searched for the working folder, because hooks and setup leave some too."""
_WORK = (CmdOutputObservation, FileEditObservation, FileReadObservation)
MAX_HEAD_BYTES = 1024
FACTS_WAIT_S = 0.5
"""How long a message waits for the facts about its environment. They usually take some ten milliseconds."""
RETRIEVED = "Retrieved knowledge from microagents"
WORKED_IN = "the folder that is worked in"
"""The trigger of instructions that apply since the agent entered their folder."""
CHANGED = "The environment has changed"
Recalled = RecallObservation | NullObservation
History = Callable[[], Awaitable[Sequence[Envelope]]]
"""Reads the events of the conversation so far."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the agent's history has recalled."""

    knowledge: Collection[tuple[str, str]] = ()
    """By name and content."""
    instructions: str = ""
    """The newest instructions of the project."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """The newest facts about the environment, by name."""


class Memory:
    """The memory of one conversation. Without `own` it only knows the workspace and the date."""

    def __init__(
        self,
        *,
        own: UserFolders | None,
        policy: TrustPolicy,
        info: ConversationInfo,
        runtime: Runtime,
        stream: EventStream,
        frames: Frames,
        secrets: Callable[[], Mapping[str, str]],
        add_facts: Callable[[Recalled], Awaitable[Recalled]],
    ) -> None:
        """`secrets` reads the names and descriptions of the secrets for commands, and blocks."""
        self._own = own
        self._policy = policy
        self._info = info
        self._runtime = runtime
        self._stream = stream
        self._frames = frames
        self._secrets = secrets
        self._add_facts = add_facts
        self._repository = Repository.parse(info.repository) if info.repository else None
        self._statuses: dict[str, str] = {}
        self._facts: Mapping[str, str] = {}
        """What was found out last about where commands run."""
        self.instructions = ""
        """The user's instructions for this conversation, which its first message carries. Set them before that one."""
        self.along: Sequence[str] = ()
        """The folders from the project's folder down to the working folder, when the folders were last read."""
        self.gathered: Gathered | None = None
        """The files of the last read; None before."""

    @property
    def folder(self) -> str:
        """The project's folder on this machine: the chosen repository, else the workspace.

        If it is on another machine only, the mirror in Handloom's home.
        """
        if self._own is not None and (machine := self._runtime.workspace_host):
            return str(mirror_folder(self._own.home, machine, self.sandbox_folder))
        return str(Path(self._info.workspace) / self._repository.name) if self._repository else self._info.workspace

    @property
    def needs_sandbox(self) -> bool:
        """Whether the project can only be read when the sandbox runs."""
        return bool(self._repository or self._runtime.workspace_host)

    @property
    def exists(self) -> bool:
        """Whether there is any memory."""
        return self._own is not None

    @property
    def home(self) -> Path:
        """Handloom's home."""
        assert self._own is not None
        return self._own.home

    @property
    def sandbox_folder(self) -> str:
        """The project's folder inside the sandbox."""
        return folder_of(self._repository, self._runtime.working_dir)

    def allow_skills(self) -> None:
        """Let the sandbox read the user's skills, if there are any. Call it before the sandbox starts. Blocks."""
        if self._own is not None and (folder := self._own.home / "skills").is_dir():
            self._runtime.allow(folder=str(folder))

    async def answer(self, envelope: Envelope, history: History) -> None:
        """Answer a recall with exactly one observation. Raises StoreError."""
        action = envelope.event
        assert isinstance(action, RecallAction)
        library, known = Library(), Known()
        asking = asyncio.create_task(self.look_around())
        try:
            if self._own is not None:
                library = (await self.look()).library
                if not library.is_empty or action.recall_type is RecallType.KNOWLEDGE:
                    known = known_in(View.of(await history()).events)
        except Exception as error:  # the boundary to foreign files: the agent goes on
            log.exception("conversation %s has no knowledge", self._info.id)
            text = f"Knowledge could not be loaded, so the agent works without it: {type(error).__name__}: {error}"
            self._report(ERROR_MEMORY, text, level="error")
        found = recall(
            action,
            workspace=self._runtime.working_dir,
            now=datetime.now(UTC),
            repository=self._repository,
            branch=await self._branch() if self._repository else "",
            library=library,
            known=known,
            facts=await self._facts_by(asking),
            hosts=self._runtime.web_hosts,
            secrets=await asyncio.to_thread(self._secret_descriptions),
            conversation_instructions=self.instructions,
        )
        await self._stream.append(await self._add_facts(found), EventSource.ENVIRONMENT, envelope.id)

    async def look_around(self) -> None:
        """Find out what the agent is told about where its commands run; nothing without memory."""
        if self._own is None:
            return
        try:
            self._facts = await self._runtime.facts()
        except Exception:  # the boundary to the runtime: the agent goes on without the facts
            log.exception("conversation %s has no facts about its sandbox", self._info.id)

    async def _facts_by(self, asking: asyncio.Task[None]) -> Mapping[str, str]:
        """The facts of now; if finding them takes long, those of before, and the next message has the new ones."""
        await asyncio.wait([asking], timeout=FACTS_WAIT_S)
        return self._facts

    async def _branch(self) -> str:
        if not self._runtime.workspace_host:
            return await asyncio.to_thread(branch_of, self.folder)
        try:
            head = await self._runtime.read_file(posixpath.join(self.sandbox_folder, ".git/HEAD"), MAX_HEAD_BYTES)
        except HandloomError:  # reported when something needs the file
            return ""
        return branch_in(head or b"")

    def _secret_descriptions(self) -> Mapping[str, str]:
        try:
            return self._secrets()
        except ConfigurationError as error:
            log.warning("conversation %s gets no descriptions of secrets: %s", self._info.id, error)
            return {}

    async def refresh(self) -> None:
        """Read the folders again after the user changed the trust in the folder. Raises StoreError."""
        if self.exists:
            await self.look()

    async def look(self, *, reports: bool = True) -> Gathered:
        """Read the folders, and report untrusted and broken files. Raises StoreError."""
        assert self._own is not None
        self.along = await self._find_along()
        errors = await self._refresh_mirror()
        gathered = await asyncio.to_thread(self._gather, self._own, self.along)
        if errors:
            library = replace(gathered.library, problems=(*errors, *gathered.problems))
            gathered = replace(gathered, library=library)
        self.gathered = gathered
        if reports:
            self._report_files(gathered)
        return gathered

    async def _refresh_mirror(self) -> list[str]:
        """Update the mirror of a project on another machine, and return errors, one line each."""
        if not (machine := self._runtime.workspace_host):
            return []
        try:
            return await refresh(self._runtime, self.sandbox_folder, self.along, Path(self.folder))
        except RuntimeUnavailableError:  # reported elsewhere
            return []
        except TimeoutError:
            return [f"{machine} answered too slowly; the files of the project that were read before are used."]
        except OSError as error:
            return [f"{self.folder}: {error.strerror or error}"]

    def _gather(self, own: UserFolders, along: Sequence[str]) -> Gathered:
        top = self.sandbox_folder
        if self._runtime.workspace_host and self._policy.mode == ALWAYS:
            standing = self._policy.state_of(survey_project(self.folder, along))
            self._policy.store.approve(standing.survey.folder, standing.waiting)
        return gather(
            own,
            self._policy,
            self.folder,
            along=along,
            project_path=lambda path: posixpath.join(top, path),
            user_path=lambda path: "" if self._runtime.is_elsewhere else str(path),
        )

    async def _find_along(self) -> list[str]:
        """Return the folders below the project's folder down to where the agent worked last."""
        worked = EventFilter(kinds=frozenset(f"observation:{one.kind}" for one in _WORK))
        top = self.sandbox_folder.rstrip("/")
        for envelope in reversed(await self._stream.page(limit=LOOKED_BACK, where=worked)):
            match envelope.event:
                case CmdOutputObservation(hidden=False, metadata=metadata):
                    return folders_along(top, metadata.working_dir or "")
                case FileEditObservation(path=path) | FileReadObservation(path=path):
                    return folders_along(top, posixpath.dirname(path))
        return []

    def _report_files(self, gathered: Gathered) -> None:
        standing, problems, text = gathered.standing, gathered.problems, ""
        if standing.waiting and self._policy.mode != NEVER:
            what = summary(Survey("", standing.waiting))
            again = " You trusted an earlier version of it." if standing.changed else ""
            text = (
                f"This folder contains {what}, which you have not trusted yet and which are not used.{again} "
                f"Review them with /trust, or: handloom trust give {standing.survey.folder}"
            )
        self._report(UNTRUSTED, text)
        lines = list(problems[:SHOWN_PROBLEMS])
        if more := len(problems) - len(lines):
            lines.append(f"and {more} more: /skills")
        self._report(KNOWLEDGE_PROBLEMS, "\n".join(lines))

    def _report(self, status: str, text: str, *, level: Literal["info", "error"] = "info") -> None:
        """Publish a status message if it has changed."""
        if self._statuses.get(status, "") != text:
            self._statuses[status] = text
            self._frames.publish(Status(level, status, text))


def summary(survey: Survey) -> str:
    """Return the number of files by kind, as text for the user."""
    parts = []
    for kind in Kind:
        if count := len(survey.of(kind)):
            many = {Kind.INSTRUCTIONS: "files with instructions", Kind.HOOKS: "hooks", Kind.MCP: "MCP servers"}
            one = {Kind.INSTRUCTIONS: "instructions", Kind.HOOKS: "hooks", Kind.MCP: "MCP servers"}
            parts.append(one.get(kind, f"a {kind}") if count == 1 else f"{count} {many.get(kind, f'{kind}s')}")
    return ", ".join(parts).replace("a agent", "an agent") or "nothing"


def folders_along(top: str, folder: str) -> list[str]:
    """Return the folders from below `top` to `folder`, relative to `top`; none if it is not below."""
    if not folder.startswith(f"{top}/"):
        return []
    parts = [part for part in posixpath.normpath(folder)[len(top) :].split("/") if part]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def branch_of(folder: str) -> str:
    """Return the checked out branch, read without git, or "". Blocks."""
    try:
        with FolderReader(folder) as reader:
            head = reader.read(".git/HEAD", MAX_HEAD_BYTES) or b""
    except (OSError, UnreadableError):
        return ""
    return branch_in(head)


def branch_in(head: bytes) -> str:
    """Return the branch in git's HEAD, or ""."""
    text, prefix = head.decode("utf-8", "replace").strip(), "ref: refs/heads/"
    name = text.removeprefix(prefix) if text.startswith(prefix) else ""
    return name if name.isprintable() else ""


async def with_saved_facts(found: Recalled, home: Path, workspace: str, redactor: Redactor) -> Recalled:
    """Return the answer with the user's saved facts, if it is the first of a conversation."""
    if not isinstance(found, RecallObservation) or found.recall_type is not RecallType.WORKSPACE_CONTEXT:
        return found
    try:
        facts = facts_text(await asyncio.to_thread(SavedFacts(home).of, workspace))
    except ConfigurationError as error:
        log.warning("saved facts cannot be read: %s", error)
        return found
    if not facts:
        return found
    text = "\n".join(filter(None, [found.conversation_instructions, redactor.redact_text(facts)]))
    return found.model_copy(update={"conversation_instructions": text})


def recall(
    action: RecallAction,
    *,
    workspace: str,
    now: datetime,
    repository: Repository | None = None,
    branch: str = "",
    library: Library = Library(),  # noqa: B008  # frozen
    known: Known = Known(),  # frozen
    facts: Mapping[str, str] | None = None,
    hosts: Mapping[str, int] | None = None,
    secrets: Mapping[str, str] | None = None,
    conversation_instructions: str = "",
) -> Recalled:
    """Answer a recall: at the start the workspace, instructions and date, later the knowledge for a message. Pure.

    `workspace` is the working folder in the sandbox, which contains the folder of the `repository`; `now` is aware.
    `known` is what the agent's history has: new parts of the project's instructions are added to the knowledge, and of
    the `facts` about the environment those that have changed are told again.
    """
    facts = facts or {}
    knowledge = [
        MicroagentKnowledge(name=found.name, trigger=found.trigger, content=found.content)
        for found in library.recall(action.query, known.knowledge)
    ]
    if action.recall_type is RecallType.WORKSPACE_CONTEXT:
        more = (library.instructions_of(YOURS), library.skill_list())
        return RecallObservation(
            content="Added workspace context",
            recall_type=RecallType.WORKSPACE_CONTEXT,
            working_dir=workspace,
            repo_name=repository.name if repository else "",
            repo_directory=folder_of(repository, workspace) if repository else "",
            repo_branch=branch if repository else "",
            repo_instructions=library.instructions_of(PROJECT),
            runtime_hosts=dict(hosts or {}),
            additional_agent_instructions="\n\n".join(filter(None, more)),
            date=now.astimezone(UTC).date().isoformat(),
            custom_secrets_descriptions=dict(secrets or {}),
            conversation_instructions=conversation_instructions,
            microagent_knowledge=knowledge,
            environment=dict(facts),
        )
    for path, text in library.parts_of(PROJECT):
        if text not in known.instructions and (path, text) not in known.knowledge:
            knowledge.insert(0, MicroagentKnowledge(name=path, trigger=WORKED_IN, content=text))
    changed = {name: value for name, value in facts.items() if known.facts.get(name) != value}
    if not knowledge and not changed:
        return NullObservation()
    return RecallObservation(
        content=RETRIEVED if knowledge else CHANGED,
        recall_type=RecallType.KNOWLEDGE,
        microagent_knowledge=knowledge,
        environment=changed,
    )


def known_in(events: Sequence[Envelope]) -> Known:
    """Return what the events of a view have recalled."""
    knowledge: set[tuple[str, str]] = set()
    instructions, facts = "", dict[str, str]()
    for envelope in events:
        if isinstance(envelope.event, RecallObservation):
            knowledge |= {(one.name, one.content) for one in envelope.event.microagent_knowledge}
            instructions = envelope.event.repo_instructions or instructions
            facts |= envelope.event.environment
    return Known(frozenset(knowledge), instructions, facts)
