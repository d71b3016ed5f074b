"""What core needs from others: a runtime, a model, an agent. Protocols only.

The composition root chooses the implementations, so core knows no sandbox and no provider, and a test can pass a public
double.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from core.checkpoints.model import Checkpoint, FileChange, Restored
from core.events import Action, Envelope, Event, Frame, LLMMetrics, Observation, PageShown, TokenUsage
from core.sandbox_types import Connect, Denials, GitAccess, Job, Port, SandboxUsage, Say, silently

FrameSink = Callable[[Frame], None]
"""Takes live frames. Never blocks, never raises."""
Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Starts a task of a conversation, in its task group."""


class Executor(Protocol):
    """Carries out actions; a runtime is one."""

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """Carry out one action, as `Runtime.execute`."""
        ...


class Runtime(Protocol):
    """Where actions are carried out: a sandbox, or the user's own machine."""

    @property
    def isolation(self) -> str:
        """The kind of isolation, for people: `none`, `docker`, ..."""
        ...

    @property
    def why_open(self) -> str:
        """Why there is no isolation although the settings want it, for the user; empty otherwise."""
        ...

    @property
    def is_elsewhere(self) -> bool:
        """Whether its workspace is not a folder of this machine; then delegates share the sandbox."""
        ...

    @property
    def workspace_host(self) -> str:
        """The machine that has the only copy of the workspace, as HOST:PORT; empty if a folder here has it too."""
        ...

    @property
    def web_hosts(self) -> Mapping[str, int]:
        """Addresses of web servers inside, as the user reaches them, each with its port; known once it runs.

        Foreign text, bounded.
        """
        ...

    async def facts(self) -> Mapping[str, str]:
        """What the agent is told about where its commands run: system, shell, isolation, network, programs and git.

        Texts by name, in order; without those that are not known yet. Returns within a second or two, raises nothing.
        """
        ...

    async def list_folder(self, path: str) -> list[str]:
        """The names in a folder inside, those of folders with a slash at the end; none if there is no such folder.

        `path` is absolute. Foreign text, bounded; only printable names. Raises RuntimeUnavailableError.
        """
        ...

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """The content of a file inside; None if it cannot be read. `path` is absolute.

        Raises UsageError for a longer file, RuntimeUnavailableError.
        """
        ...

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Let programs inside connect to this host or read this folder, because the user named it.

        Call it before `start`; without isolation it does nothing.
        """
        ...

    async def open_hosts(self, hosts: Sequence[str]) -> None:
        """Let programs inside connect to these hosts too, now and after each start; replaces those of the last call.

        Hosts are written as in `sandbox.allowed_hosts`; an invalid one opens nothing, and a rule that denies wins. A
        sandbox without a proxy does nothing.
        """
        ...

    def allow_git(self, access: GitAccess) -> None:
        """Let git inside reach this with the user's tokens and ssh keys, without passing them inside.

        Call it before `start`.
        """
        ...

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Enforce these denials at each start; `denied` is called in a thread.

        Call it before `start`; without isolation nothing is enforced.
        """
        ...

    def keep(self, folder: Path) -> None:
        """Keep what has to outlast the sandbox, such as the history of edits, in this folder.

        Call it before `start`. The runtime owns the folder, and makes it when it is needed.
        """
        ...

    @property
    def working_dir(self) -> str:
        """The folder in which commands start, as the runtime sees it."""
        ...

    async def start(self, say: Say = silently) -> None:
        """Start it, reporting long steps. Raises RuntimeUnavailableError with what to do next.

        May be called again after it died or was closed.
        """
        ...

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """Carry out one action; live output goes to `on_frame`.

        An error inside is an ErrorObservation. Cancelling interrupts the action in the sandbox and returns at once.
        Raises RuntimeUnavailableError if the sandbox itself is gone.
        """
        ...

    async def set_environment(self, variables: Mapping[str, str | None]) -> None:
        """Set variables for commands and cells, now and after each start; None removes one.

        Raises UsageError if one cannot be set, RuntimeUnavailableError.
        """
        ...

    async def usage(self) -> SandboxUsage | None:
        """Its current resource usage; None if it does not run. Raises RuntimeUnavailableError."""
        ...

    async def left_behind(self) -> list[str]:
        """What is in the workspace, was not there before the conversation, and would be executed by programs of the
        user.

        One line each, with the file. Also after the end of the sandbox; empty without isolation.
        """
        ...

    async def put_back(self, name: str) -> str:
        """Restore a file that was moved aside because the user's own programs would execute it. Returns its name.

        An empty name means the only such file. Raises UsageError with the names of those that can be restored.
        """
        ...

    async def came_back(self) -> list[str]:
        """Messages for the user about files that were copied back from a remote workspace, one per line."""
        ...

    def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """The page in the browser as it changes, at most five times a second.

        Waits while the sandbox does not run, and continues with the next one. Close the generator or cancel its reader
        to end it. Raises UsageError if there is no browser.
        """
        ...

    @property
    def runs_servers(self) -> bool:
        """Whether MCP servers run inside, by `run_server`; otherwise each has a sandbox of its own on this machine."""
        ...

    async def run_server(
        self, command: Sequence[str], environ: Mapping[str, str], hosts: Sequence[str], connect: Connect
    ) -> str:
        """Run an MCP server inside, with these variables of its own, and return why it ended; cancelling ends it.

        Waits until the sandbox runs. Once the program has started, `connect` opens its input and output, whose end ends
        it. It may access these hosts. Raises UsageError with what to do if it cannot be started there, and
        RuntimeUnavailableError if the sandbox is gone or cannot be started; the next call waits for the next one.
        """
        ...

    async def jobs(self) -> list[Job]:
        """The background jobs of commands, the oldest first. Raises RuntimeUnavailableError."""
        ...

    async def end_job(self, pid: int) -> None:
        """End a job and its children. Raises UsageError if it is gone, RuntimeUnavailableError."""
        ...

    async def ports(self) -> list[Port]:
        """The ports on which the agent's programs listen. Raises RuntimeUnavailableError."""
        ...

    async def forward_port(self, port: int) -> int:
        """Make a port of the sandbox reachable on this machine's loopback until the sandbox ends.

        Returns the port here: the same one if it is free. Raises RuntimeUnavailableError.
        """
        ...

    async def editor(self) -> str:
        """Start the editor in the sandbox and return its address there, with its token.

        Raises UsageError with the reason if there is none, RuntimeUnavailableError.
        """
        ...

    async def type_keys(self, keys: bytes) -> None:
        """Send keys unchanged to what runs in the terminal. Raises UsageError if nothing does, or reads too slowly.

        Raises RuntimeUnavailableError.
        """
        ...

    async def resize_terminal(self, rows: int, columns: int) -> None:
        """Set the size of the terminal. Raises RuntimeUnavailableError."""
        ...

    async def give_terminal_back(self) -> None:
        """End the action with which the user took over the terminal. Raises RuntimeUnavailableError."""
        ...

    async def rest(self) -> None:
        """Release it while it is not needed; `start` restores it, if possible as it was."""
        ...

    async def aclose(self) -> None:
        """End it and everything that it started. May be called twice."""
        ...


class Checkpoints(Protocol):
    """Checkpoints of the workspace of one conversation. Every method raises CheckpointError."""

    async def take(self, label: str) -> Checkpoint:
        """Take a checkpoint of the workspace. Unchanged files are not stored again. Cancelling leaves nothing."""
        ...

    async def changes(self, one: str, other: str) -> list[FileChange]:
        """How the files of two checkpoints differ."""
        ...

    async def read(self, checkpoint: str, path: str, max_bytes: int) -> bytes | None:
        """The content of a file in a checkpoint; None if it is not in it."""
        ...

    async def amend(self, checkpoint: str, contents: Mapping[str, bytes | None], label: str) -> Checkpoint:
        """A checkpoint with the same files, but with these contents; None removes a file."""
        ...

    async def restore(self, checkpoint: str, paths: Sequence[str] | None = None) -> Restored:
        """Restore the workspace, or these paths, after a checkpoint of it as it is now. All or nothing."""
        ...

    async def unpack(self, checkpoint: str, folder: str) -> None:
        """Write the files of a checkpoint into another folder, which is empty or missing."""
        ...

    async def list(self) -> list[Checkpoint]:
        """The checkpoints of this conversation, oldest first."""
        ...

    async def prune(self, max_bytes: int) -> int:
        """Delete the oldest until all take no more than this; returns how many were deleted."""
        ...

    async def delete(self) -> None:
        """Delete all checkpoints of this conversation."""
        ...


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of the model. `arguments` is the JSON text of the model, not validated."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """A request to a model. Messages and tools have the form of OpenAI's chat completions."""

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    last_observation: str = ""
    """The text of the newest observation, for scripted models that check it."""
    answers_forgotten: int = 0
    """Answers of the model that were condensed and are no longer among the messages."""
    stop: Sequence[str] = ()
    """Where the answer ends; the text itself is not part of it. A provider may ignore it."""


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """A complete answer."""

    id: str
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    """Of this call alone."""
    cost: float | None = None
    """US dollars of this call; None if the price is unknown."""
    finish_reason: str = "stop"
    reasoning: str = ""
    """The reasoning of the model before the answer, if the provider shows it. Not a part of the answer."""
    thinking: tuple[dict[str, Any], ...] = ()
    """The same in blocks that the provider has signed, and wants back between tool calls."""


THINKING_BLOCKS = "thinking_blocks"
"""The field of a message with these blocks, as litellm names it."""
Complete = Callable[[LLMRequest, FrameSink, int], Awaitable[LLMResponse]]
"""`LLM.complete`."""


class LLM(Protocol):
    """A model."""

    @property
    def name(self) -> str:
        """The name that the user gives it: `anthropic/claude-...`, `scripted:demo.yaml`."""
        ...

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Answer; tokens go to `on_frame` as TokenDelta with `cause`, retries as Status.

        Raises ModelError. Cancelling stops the call at the provider and returns within 100 ms.
        """
        ...

    async def aclose(self) -> None:
        """Release the resources of the model. May be called twice."""
        ...


class Agent(Protocol):
    """Turns the answers of a model into actions."""

    @property
    def name(self) -> str:
        """The class name of V0, such as `CodeActAgent`."""
        ...

    def system_message(self) -> Event:
        """The SystemMessageAction that begins a conversation."""
        ...

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Ask the model once and return the resulting events, in order: one or more.

        `metrics` are the costs of the conversation so far; the events carry them with the new cost added. An answer
        that cannot be understood is an ErrorObservation for the model, not an exception. Raises ModelError. Cancelling
        cancels the call.
        """
        ...
