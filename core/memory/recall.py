"""What the agent of a conversation learns from memory, and what the user learns about it.

At each message the folders of the user and the project are read, and memory answers the recall with what counts of
them. What waits for the user's trust, and what is broken, is shown once for each change. An error is shown as well, and
the agent goes on without memory.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from core.errors import ConfigurationError, HandloomError, RuntimeUnavailableError
from core.events import (
    CmdOutputObservation,
    Envelope,
    EventSource,
    FileEditObservation,
    FileReadObservation,
    NullObservation,
    RecallAction,
    RecallObservation,
    RecallType,
    Status,
)
from core.memory.library import Gathered, Library, Own, gather
from core.memory.memory import given_in, recall
from core.memory.remote_mirror import mirror_folder, refresh
from core.memory.saved_facts import SavedFacts, told
from core.memory.view import View
from core.protocols import Runtime
from core.pub_sub import Frames
from core.repository import Repository, folder_of
from core.secrets import Redactor
from core.store.conversations import ConversationInfo
from core.store.reader import EventFilter
from core.stream import EventStream
from core.trust.folder_reader import FolderReader, UnreadableError
from core.trust.folder_survey import Kind, Survey, survey_project
from core.trust.trust_store import ALWAYS, NEVER, TrustPolicy

log = logging.getLogger(__name__)

ERROR_MEMORY = "STATUS$ERROR_MEMORY"
UNTRUSTED = "STATUS$UNTRUSTED_FOLDER"
KNOWLEDGE_PROBLEMS = "STATUS$KNOWLEDGE_PROBLEMS"
SHOWN_PROBLEMS = 3
LOOKED_BACK = 20
"""Results that are searched for the folder of the work: hooks and setup leave some too."""
_WORK = (CmdOutputObservation, FileEditObservation, FileReadObservation)
MAX_HEAD_BYTES = 1024
Recalled = RecallObservation | NullObservation
History = Callable[[], Awaitable[Sequence[Envelope]]]
"""Reads the events of the conversation so far."""


class Recollection:
    """The recall of one conversation. Without `own` there is nothing but the workspace and the date."""

    def __init__(
        self,
        *,
        own: Own | None,
        gate: TrustPolicy,
        info: ConversationInfo,
        runtime: Runtime,
        stream: EventStream,
        frames: Frames,
        secrets: Callable[[], Mapping[str, str]],
        completed: Callable[[Recalled], Awaitable[Recalled]],
    ) -> None:
        self._own = own
        self._gate = gate
        self._info = info
        self._runtime = runtime
        self._stream = stream
        self._frames = frames
        self._secrets = secrets
        """Reads the names and descriptions of the secrets that commands may use. Blocks."""
        self._completed = completed
        """Adds the user's saved facts."""
        self._repository = Repository.parse(info.repository) if info.repository else None
        self._told: dict[str, str] = {}
        self.instructions = ""
        """The user's instructions for this conversation, which its first message carries. Set them before that one."""
        self.along: Sequence[str] = ()
        """The folders from the top of the project to the folder of the work, as of the last look."""
        self.gathered: Gathered | None = None
        """The result of the last look; None before."""

    @property
    def folder(self) -> str:
        """The folder of the project on this machine: that of the chosen repository, else the workspace.

        If only another machine has it, its mirror in Handloom's home.
        """
        if self._own is not None and (machine := self._runtime.workspace_host):
            return str(mirror_folder(self._own.home, machine, self.sandbox_folder))
        return str(Path(self._info.workspace) / self._repository.name) if self._repository else self._info.workspace

    @property
    def needs_sandbox(self) -> bool:
        """Whether the project is known only when the sandbox is there."""
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
        """The folder of the project inside the sandbox."""
        return folder_of(self._repository, self._runtime.working_dir)

    def allow_skills(self) -> None:
        """Let the sandbox read the user's skills, if there are any. Call it before the sandbox starts. Blocks."""
        if self._own is not None and (folder := self._own.home / "skills").is_dir():
            self._runtime.allow(folder=str(folder))

    async def answer(self, envelope: Envelope, history: History) -> None:
        """Answer a recall, with exactly one observation. Raises StoreError."""
        action = envelope.event
        assert isinstance(action, RecallAction)
        library, given, told = Library(), set[tuple[str, str]](), ""
        try:
            if self._own is not None:
                library = (await self.look()).library
                if not library.is_empty:
                    given, told = given_in(View.of(await history()).events)
        except Exception as error:  # the boundary to everything that is written in folders: the agent goes on
            log.exception("conversation %s has no knowledge", self._info.id)
            text = f"Knowledge could not be loaded, so the agent works without: {type(error).__name__}: {error}"
            self._say(ERROR_MEMORY, text, level="error")
        found = recall(
            action,
            workspace=self._runtime.working_dir,
            now=datetime.now(UTC),
            repository=self._repository,
            branch=await self._branch() if self._repository else "",
            library=library,
            given=given,
            told=told,
            hosts=self._runtime.web_hosts,
            secrets=await asyncio.to_thread(self._described),
            conversation_instructions=self.instructions,
        )
        await self._stream.append(await self._completed(found), EventSource.ENVIRONMENT, envelope.id)

    async def _branch(self) -> str:
        """The branch of the chosen repository; empty if it is unknown."""
        if not self._runtime.workspace_host:
            return await asyncio.to_thread(branch_of, self.folder)
        try:
            head = await self._runtime.read_file(posixpath.join(self.sandbox_folder, ".git/HEAD"), MAX_HEAD_BYTES)
        except HandloomError:  # it is told of when something needs it
            return ""
        return branch_in(head or b"")

    def _described(self) -> Mapping[str, str]:
        try:
            return self._secrets()
        except ConfigurationError as error:
            log.warning("conversation %s is told of no secrets: %s", self._info.id, error)
            return {}

    async def refresh(self) -> None:
        """Look again after the user changed the trust in the folder. Raises StoreError."""
        if self.exists:
            await self.look()

    async def look(self, *, tells: bool = True) -> Gathered:
        """Read the folders, and show what the user should know. Raises StoreError."""
        assert self._own is not None
        self.along = await self._along()
        wrong = await self._mirrored()
        gathered = await asyncio.to_thread(self._gather, self._own, self.along)
        if wrong:
            library = replace(gathered.library, problems=(*wrong, *gathered.problems))
            gathered = replace(gathered, library=library)
        self.gathered = gathered
        if tells:
            self._tell(gathered)
        return gathered

    async def _mirrored(self) -> list[str]:
        """Update the mirror of a project on another machine, and return errors, a line each."""
        if not (machine := self._runtime.workspace_host):
            return []
        try:
            return await refresh(self._runtime, self.sandbox_folder, self.along, Path(self.folder))
        except RuntimeUnavailableError:  # its absence is told by others; what is known of it counts
            return []
        except TimeoutError:
            return [f"{machine} was too slow to be asked what the project brings; what is known of it counts."]
        except OSError as error:
            return [f"{self.folder}: {error.strerror or error}"]

    def _gather(self, own: Own, along: Sequence[str]) -> Gathered:
        top = self.sandbox_folder
        if self._runtime.workspace_host and self._gate.mode == ALWAYS:
            standing = self._gate.standing(survey_project(self.folder, along))
            self._gate.store.give(standing.survey.folder, standing.waiting)
        home_place = "" if self._runtime.is_elsewhere else "/"

        def own_place(path: Path) -> str:
            return str(path) if home_place else ""

        return gather(
            own,
            self._gate,
            self.folder,
            along=along,
            project_place=lambda path: posixpath.join(top, path),
            own_place=own_place,
        )

    async def _along(self) -> list[str]:
        """The folders from below the top of the project to where the agent worked last, from the top."""
        worked = EventFilter(kinds=frozenset(f"observation:{one.kind}" for one in _WORK))
        top = self.sandbox_folder.rstrip("/")
        for envelope in reversed(await self._stream.page(limit=LOOKED_BACK, where=worked)):
            match envelope.event:
                case CmdOutputObservation(hidden=False, metadata=metadata):
                    return folders_along(top, metadata.working_dir or "")
                case FileEditObservation(path=path) | FileReadObservation(path=path):
                    return folders_along(top, posixpath.dirname(path))
        return []

    # -- telling -----------------------------------------------------------------------------------------------------

    def _tell(self, gathered: Gathered) -> None:
        standing, problems = gathered.standing, gathered.problems
        waiting = standing.waiting if self._gate.mode != NEVER else ()
        if waiting:
            what = summary(Survey("", waiting))
            again = " It had your trust as it was before." if standing.changed else ""
            text = (
                f"This folder brings {what}; none of it is used, because you have not trusted it.{again} "
                f"Review it with /trust, or: handloom trust give {standing.survey.folder}"
            )
            self._say(UNTRUSTED, text)
        else:
            self._say(UNTRUSTED, "")
        lines = list(problems[:SHOWN_PROBLEMS])
        if more := len(problems) - len(lines):
            lines.append(f"and {more} more: /skills")
        self._say(KNOWLEDGE_PROBLEMS, "\n".join(lines))

    def _say(self, status: str, text: str, *, level: str = "info") -> None:
        if self._told.get(status, "") != text:
            self._told[status] = text
            self._frames.publish(Status("error" if level == "error" else "info", status, text))


def summary(found: Survey) -> str:
    """What was found, for people, by kind and number."""
    parts = []
    for kind in Kind:
        if count := len(found.of(kind)):
            many = {Kind.INSTRUCTIONS: "files with instructions", Kind.HOOKS: "hooks", Kind.MCP: "MCP servers"}
            one = {Kind.INSTRUCTIONS: "instructions", Kind.HOOKS: "hooks", Kind.MCP: "MCP servers"}
            parts.append(one.get(kind, f"a {kind}") if count == 1 else f"{count} {many.get(kind, f'{kind}s')}")
    return ", ".join(parts).replace("a agent", "an agent") or "nothing"


def folders_along(top: str, place: str) -> list[str]:
    """The folders from below `top` to `place`, relative to `top`; none if it is not below."""
    if not place.startswith(f"{top}/"):
        return []
    parts = [part for part in posixpath.normpath(place)[len(top) :].split("/") if part]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def branch_of(folder: str) -> str:
    """The checked out branch, read without git; empty if it is unknown. Blocks."""
    try:
        with FolderReader(folder) as reader:
            head = reader.read(".git/HEAD", MAX_HEAD_BYTES) or b""
    except (OSError, UnreadableError):
        return ""
    return branch_in(head)


def branch_in(head: bytes) -> str:
    """The branch in git's HEAD; empty if it names none."""
    said = head.decode("utf-8", "replace").strip()
    prefix = "ref: refs/heads/"
    name = said[len(prefix) :] if said.startswith(prefix) else ""
    return name if name.isprintable() else ""


async def with_pins(
    found: RecallObservation | NullObservation, home: Path, workspace: str, redactor: Redactor
) -> RecallObservation | NullObservation:
    """The answer of memory, with the user's saved facts at the beginning of a conversation."""
    if not isinstance(found, RecallObservation) or found.recall_type is not RecallType.WORKSPACE_CONTEXT:
        return found
    try:
        text = told(await asyncio.to_thread(SavedFacts(home).of, workspace))
    except ConfigurationError as error:
        log.warning("nothing is remembered: %s", error)
        return found
    if not text:
        return found
    said = "\n".join(filter(None, [found.conversation_instructions, redactor.redact_text(text)]))
    return found.model_copy(update={"conversation_instructions": said})
