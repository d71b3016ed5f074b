"""What core needs of others: a runtime, a model, an agent. Protocols only.

The implementations are chosen in the composition root, so that core knows no sandbox and no provider, and a test can
hand in a public double.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from core.checkpoints.model import Checkpoint, FileChange, Restored
from core.events import Action, Envelope, Event, Frame, LLMMetrics, Observation, PageShown, TokenUsage
from core.sandbox_types import Denials, Job, SandboxUsage, Say, silently

FrameSink = Callable[[Frame], None]
"""Takes live frames. Never blocks, never raises."""


class Executor(Protocol):
    """Whoever carries out actions; a runtime is one."""

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """Carry out one action, as `Runtime.execute`."""
        ...


class Runtime(Protocol):
    """A place where actions are carried out: a sandbox, or the user's own machine."""

    @property
    def isolation(self) -> str:
        """What separates it from the user's machine, for people: `none`, `docker`, ..."""
        ...

    @property
    def why_open(self) -> str:
        """Why there is no isolation although the settings want it, for the user; empty otherwise."""
        ...

    @property
    def is_elsewhere(self) -> bool:
        """Whether its workspace is not the folder of this machine; then delegates work in the same sandbox."""
        ...

    @property
    def workspace_host(self) -> str:
        """The machine that has the only copy of its workspace, as HOST:PORT; empty where a folder here has it, too."""
        ...

    @property
    def web_hosts(self) -> Mapping[str, int]:
        """Addresses at which the user sees what programs inside serve, each with their port; known once it runs.

        Foreign text, bounded.
        """
        ...

    async def list_folder(self, path: str) -> list[str]:
        """The names in a folder inside, those of folders with a slash behind; none where there is no such folder.

        `path` is absolute. Foreign text, bounded; only what is printable. Raises RuntimeUnavailableError.
        """
        ...

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """The content of a file inside; None where there is none that can be read. `path` is absolute.

        Raises UsageError for one that is longer, RuntimeUnavailableError.
        """
        ...

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Let what runs inside call this host or read this folder, because the user named it.

        To be said before `start`; where nothing is separated, there is nothing to do.
        """
        ...

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Enforce what this says at each start; it is called in a thread.

        To be said before `start`; where nothing is separated, nothing is enforced.
        """
        ...

    def keep(self, folder: Path) -> None:
        """Keep what shall outlast the sandbox, such as the way back of edits, in this folder.

        To be said before `start`. The folder is the runtime's own, and is made when it is needed.
        """
        ...

    @property
    def working_dir(self) -> str:
        """The folder in which commands start, as the runtime sees it."""
        ...

    async def start(self, say: Say = silently) -> None:
        """Make it ready, saying what takes long. Raises RuntimeUnavailableError with what to do next.

        May be called again after it died or was closed.
        """
        ...

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """Carry out one action; live output goes to `on_frame`, the result comes back.

        What goes wrong inside is an ErrorObservation. Cancelling interrupts the action in the sandbox and returns
        at once. Raises RuntimeUnavailableError when the sandbox itself is gone.
        """
        ...

    async def usage(self) -> SandboxUsage | None:
        """What it uses at this moment; None where it does not run. Raises RuntimeUnavailableError."""
        ...

    async def left_behind(self) -> list[str]:
        """What the workspace holds now, and did not before the conversation, that programs of the user would carry out.

        One line each, which names the file. Also after the end of the sandbox; empty where nothing is separated.
        """
        ...

    async def put_back(self, name: str) -> str:
        """Give a file of the workspace its name again that was moved aside because programs of the user would run it.

        An empty name means the only one. The answer is the name. Raises UsageError, which says what there is.
        """
        ...

    async def came_back(self) -> list[str]:
        """What the user should know of how the work came back from a workspace that is elsewhere, a line each."""
        ...

    def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """The page in the browser as it changes, at most five times a second, for as long as somebody reads.

        Waits where the sandbox does not run, and goes on in the next one. Close the generator or cancel its reader to
        end it. Raises UsageError where there is no browser in it.
        """
        ...

    async def jobs(self) -> list[Job]:
        """What commands started and still runs there, the oldest first. Raises RuntimeUnavailableError."""
        ...

    async def end_job(self, pid: int) -> None:
        """End one of them and everything below it. Raises UsageError where it is gone, RuntimeUnavailableError."""
        ...

    async def type_keys(self, keys: bytes) -> None:
        """Keys for what runs in its terminal, as they are. Raises UsageError where nothing does, or reads too slowly.

        Raises RuntimeUnavailableError.
        """
        ...

    async def resize_terminal(self, rows: int, columns: int) -> None:
        """The size of its terminal; what runs in it is told. Raises RuntimeUnavailableError."""
        ...

    async def give_terminal_back(self) -> None:
        """End the action with which the user took the terminal over. Raises RuntimeUnavailableError."""
        ...

    async def rest(self) -> None:
        """Let go of it because nobody needs it for now; `start` has it again, as it was where that can be kept."""
        ...

    async def aclose(self) -> None:
        """End it and everything that it started. May be called twice."""
        ...


class Checkpoints(Protocol):
    """The workspace of one conversation as it was at moments. Every method raises CheckpointError."""

    async def take(self, label: str) -> Checkpoint:
        """Keep the workspace as it is; what has been kept already is not kept again. Cancelling leaves nothing."""
        ...

    async def changes(self, one: str, other: str) -> list[FileChange]:
        """How the files of two checkpoints differ."""
        ...

    async def read(self, checkpoint: str, path: str, max_bytes: int) -> bytes | None:
        """The content of a file then; None where it was not there."""
        ...

    async def amend(self, checkpoint: str, contents: Mapping[str, bytes | None], label: str) -> Checkpoint:
        """Another checkpoint, of the same files but for these, which have these contents or are not there."""
        ...

    async def restore(self, checkpoint: str, paths: Sequence[str] | None = None) -> Restored:
        """Have the workspace, or these paths of it, be as it was then; keeps it as it is first. All or nothing."""
        ...

    async def unpack(self, checkpoint: str, folder: str) -> None:
        """Write the files of a checkpoint into another folder, which is empty or not there."""
        ...

    async def list(self) -> list[Checkpoint]:
        """Those of this conversation, the oldest first."""
        ...

    async def prune(self, max_bytes: int) -> int:
        """Forget the oldest until all take no more than this; says how many were forgotten."""
        ...

    async def delete(self) -> None:
        """Forget all of this conversation."""
        ...


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model wants made. `arguments` is the JSON text as the model wrote it, checked by nobody."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """What a model is asked. Messages and tools are in the form of OpenAI's chat completions."""

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    last_observation: str = ""
    """The text of the newest observation, for models that state what they expect to have seen."""
    answers_forgotten: int = 0
    """Answers of the model that were condensed and are no longer among the messages."""
    stop: Sequence[str] = ()
    """Where the answer ends; the text itself is not part of it. A provider may not heed it."""


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """A whole answer."""

    id: str
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    """Of this call alone."""
    cost: float | None = None
    """US dollars of this call; None where the price is not known."""
    finish_reason: str = "stop"
    reasoning: str = ""
    """What the model thought before it answered, where it lets that be seen. Not a part of the answer."""
    thinking: tuple[dict[str, Any], ...] = ()
    """The same in blocks that its provider has signed, and wants back between tool calls."""


Complete = Callable[[LLMRequest, FrameSink, int], Awaitable[LLMResponse]]
"""`LLM.complete`."""


class LLM(Protocol):
    """A model that answers."""

    @property
    def name(self) -> str:
        """As the user names it: `anthropic/claude-...`, `scripted:demo.yaml`."""
        ...

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Answer; tokens go to `on_frame` as TokenDelta with `cause`, retries as Status.

        Raises ModelError. Cancelling stops the call at the provider and returns within 100 ms.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what the model holds. May be called twice."""
        ...


class Agent(Protocol):
    """What turns a model's answers into actions."""

    @property
    def name(self) -> str:
        """The class name of V0, such as `CodeActAgent`."""
        ...

    def system_message(self) -> Event:
        """The SystemMessageAction that begins a conversation."""
        ...

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Ask the model once and say what follows from its answer, in order: one or more events.

        `metrics` is what the conversation has spent so far; the events come back with it increased. An answer that
        cannot be understood is an ErrorObservation for the model to read, not an exception. Raises ModelError.
        Cancelling cancels the model's call.
        """
        ...
