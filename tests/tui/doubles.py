"""Doubles of what the workspace uses: a manager, its sessions and their streams, all in memory.

They have the shape of `ConversationManager` and `AgentSession`. A test says what happens (`session.say`,
`session.publish`, `session.become`) and reads what the user asked for (`session.wishes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Unpack

from core.agent.registry import AGENTS, Found
from core.approval.network_access import OFFERS_STATUS, HostOffer
from core.controller.exit_reasons import Halt, HaltOption
from core.controller.state import Limits, Pending, Queued
from core.errors import ModelError, ModelErrorKind, UsageError
from core.events import (
    CONVERSATION_TITLE,
    Action,
    AgentState,
    AgentStateChangedObservation,
    BrowseInteractiveAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    Frame,
    LLMMetrics,
    MessageAction,
    PageShown,
    Status,
    TerminalOutput,
    TokenUsage,
)
from core.llm.model_catalogue import KnownModel
from core.llm.settings import LLMSettings
from core.mcp.supervisor import Server
from core.memory.library import UserFolders
from core.protocols import Runtime
from core.sandbox_types import Job, Port, SandboxUsage
from core.secrets.provider_keys import KeyWanted
from core.security.confirmation import Judgement, Verdict
from core.security.patterns import WorkFolders
from core.security.permissions import Permission, Scope
from core.settings.config import AgentSettings, SandboxSettings
from core.settings.editable_settings import EditableSettings, Setting
from core.store.blobs import Blob, BlobRef
from core.store.conversations import ConversationFilter, ConversationInfo
from core.store.event_rows import kind_of
from core.store.reader import EventFilter, Which
from core.stream import EventStreamSubscriber, Frames
from core.trust.folder_trust import FolderTrust
from core.trust.trust_store import ASK, TrustPolicy

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
METRICS = LLMMetrics(
    accumulated_cost=0.0123,
    accumulated_token_usage=TokenUsage(per_turn_token=24_000, context_window=200_000),
)
LIMITS = Limits(max_iterations=100)


@dataclass(frozen=True)
class StateDouble:
    """The controller's state as far as the screen reads it."""

    agent_state: AgentState = AgentState.AWAITING_USER_INPUT
    iteration: int = 0
    reason: str = ""
    allowed: Limits = LIMITS
    halt: Halt | None = None
    tokens: int = 0
    queued: tuple[Queued, ...] = ()
    awaiting: int | None = None
    queue: tuple[Pending, ...] = ()
    planning: bool = False
    is_busy: bool = False
    first_message_id: int | None = None
    metrics: LLMMetrics = METRICS


class StreamDouble:
    """A stream whose events are in a list."""

    def __init__(self, conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self.events: list[Envelope] = []
        self.reads = 0
        self.blobs: dict[str, Blob] = {}
        """By digest."""
        self._subscribers: dict[str, Callable[[Envelope], Awaitable[None]]] = {}

    @property
    def latest_id(self) -> int:
        return len(self.events) - 1

    async def blob(self, ref: BlobRef) -> Blob | None:
        return self.blobs.get(ref.digest)

    def subscribe(
        self,
        subscriber: EventStreamSubscriber,
        callback: Callable[[Envelope], Awaitable[None]],
        callback_id: str,
        types: tuple[type[Event], ...] = (),
    ) -> None:
        assert subscriber is EventStreamSubscriber.MAIN
        self._subscribers[callback_id] = callback

    def unsubscribe(self, subscriber: EventStreamSubscriber, callback_id: str) -> None:
        self._subscribers.pop(callback_id, None)

    @property
    def listeners(self) -> int:
        return len(self._subscribers)

    async def page(
        self, *, before: int | None = None, limit: int = 100, where: EventFilter | None = None
    ) -> list[Envelope]:
        self.reads += 1
        end = len(self.events) if before is None else before
        if where is None:
            return self.events[max(0, end - limit) : end]
        found = [e for e in self.events[:end] if not where.kinds or kind_of(e.event) in where.kinds]
        return [e for e in found if not where.sources or e.source in where.sources][-limit:]

    def store(self, event: Event, source: EventSource = EventSource.AGENT, cause: int | None = None) -> Envelope:
        """Put an event into the log without calling the subscribers."""
        number = len(self.events)
        envelope = Envelope(
            conversation_id=self.conversation_id,
            id=number,
            timestamp=NOW + timedelta(seconds=number),
            source=source,
            cause=cause,
            event=event,
        )
        self.events.append(envelope)
        return envelope

    async def append_by_agent(self, event: Event, cause: int | None = None) -> Envelope:
        """Let the agent do something."""
        return await self.append(event, EventSource.AGENT, cause)

    async def append(self, event: Event, source: EventSource, cause: int | None = None) -> Envelope:
        envelope = self.store(event, source, cause)
        for callback in tuple(self._subscribers.values()):
            await callback(envelope)
        return envelope


@dataclass
class UserTerminalDouble:
    """Who has the terminal, set by the test, and the typed keys."""

    _session: SessionDouble
    is_on: bool = False
    is_ready: bool = False
    typed: bytes = b""
    sizes: list[tuple[int, int]] = field(default_factory=list)

    async def begin(self, rows: int, columns: int) -> None:
        self._session._wish("take_terminal")
        self.is_on = self.is_ready = True
        self.sizes.append((rows, columns))

    def type(self, keys: bytes) -> None:
        self.typed += keys

    def resize(self, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))

    def give_back(self) -> None:
        self.is_on = False


@dataclass
class MemoryDouble:
    """What a session knows about its folder."""

    folder: str
    along: Sequence[str] = ()

    async def refresh(self) -> None:
        """Nothing is known."""


@dataclass
class ConsentDouble:
    """Whether the user has agreed to a conversation from elsewhere."""

    is_needed: bool = False
    origin: str = "elsewhere"


@dataclass
class GuardDouble:
    """The guard's folders and permissions; it judges every action alike."""

    folders: WorkFolders = field(default_factory=lambda: WorkFolders("/nowhere/work", "/nowhere/home"))
    conversation_permissions: list[Permission] = field(default_factory=list)
    project_file: Path = Path("/nowhere/policy.toml")
    judgement: Judgement = field(default_factory=lambda: Judgement(Verdict.ASK, "mode always"))
    """How it judges from now on."""

    async def judge(self, action: Action) -> Judgement:
        return self.judgement


@dataclass
class ApprovalDouble:
    """Takes the user's answers."""

    _session: SessionDouble
    mode: str = "always"
    kept: tuple[str, bool] = ("", True)
    """The mode that was stored last, and whether it is in the settings."""

    def set_mode(self, mode: str) -> None:
        self._session._wish("set_confirm_mode", mode)
        self.mode = mode

    async def reject(self, reason: str = "", action_id: int | None = None) -> None:
        self._session._wish("reject", reason)
        await self._session.become(agent_state=AgentState.AWAITING_USER_INPUT, awaiting=None)

    async def permit(self, text: str, scope: Scope, verdict: Verdict = Verdict.ALLOW) -> None:
        self._session._wish("permit", text, scope, verdict)

    async def confirm(self, action_id: int | None = None) -> None:
        self._session._wish("confirm")
        await self._session.become(agent_state=AgentState.RUNNING, awaiting=None)

    async def confirm_allowed(self, action_id: int | None = None) -> None:
        await self.confirm(action_id)

    async def store_mode(self, mode: str, *, own: bool = False) -> None:
        self.kept = (mode, own)

    async def reject_denied(self, reason: str, action_id: int | None = None) -> None:
        await self.reject(reason, action_id)

    async def revoke(self, permission: Permission) -> None:
        self._session._wish("revoke", str(permission.pattern))
        self._session.guard.conversation_permissions.remove(permission)


@dataclass
class UserBrowserDouble:
    """Who has the browser, set by the test, and the secret texts typed there."""

    _session: SessionDouble
    is_on: bool = False
    hidden: list[str] = field(default_factory=list)

    async def begin(self) -> None:
        self._session._wish("take_browser")
        self.is_on = True
        await self._session.stream.append(_by_user("noop(1)", thought="taken"), EventSource.USER)

    async def do(self, calls: str, hidden: str = "") -> None:
        self._session._wish("browse", calls)
        self.hidden += [hidden] if hidden else []
        await self._session.stream.append(_by_user(calls), EventSource.USER)

    async def settled(self) -> None:
        """Each step is through at once."""

    async def give_back(self) -> None:
        self._session._wish("give_back")
        self.is_on = False
        given = BrowseInteractiveAction.GIVEN_BACK
        await self._session.stream.append(_by_user("noop(1)", thought=given), EventSource.USER)


@dataclass
class UserShellDouble:
    """The user's commands."""

    is_busy: bool = False


class UserControlDouble:
    """The user's actions in the sandbox."""

    def __init__(self, session: SessionDouble) -> None:
        self._session = session
        self.commands = UserShellDouble()
        self.terminal = UserTerminalDouble(session)
        self.browser = UserBrowserDouble(session)

    async def run_command(self, command: str) -> None:
        self._session._wish("run_command", command)
        await self._session.stream.append(CmdRunAction(command=command), EventSource.USER)

    async def prepare(self) -> None:
        self._session._wish("prepare")


class ActiveModelDouble:
    """The model."""

    def __init__(self, session: SessionDouble) -> None:
        self._session = session
        self.name = session.info.model

    async def switch(self, name: str) -> None:
        self._session._wish("set_model", name)
        self.name = name


@dataclass
class SuspensionDouble:
    """Whether it is suspended."""

    is_on: bool = False


@dataclass
class DelegationDouble:
    """Whether a user answers the delegates."""

    attended: bool = False


def _by_user(calls: str, thought: str = "") -> BrowseInteractiveAction:
    return BrowseInteractiveAction(browser_actions=calls, thought=thought, by_user=True)


@dataclass
class PlanningDouble:
    """The plan, and the user's answer."""

    _session: SessionDouble

    async def approve(self, task_list: Sequence[dict[str, Any]]) -> None:
        self._session._wish("approve_plan", *(str(task.get("title")) for task in task_list))
        await self._session.become(planning=False, agent_state=AgentState.RUNNING)

    async def again(self) -> None:
        self._session._wish("plan_again")
        await self._session.become(planning=True)


@dataclass
class NetworkDouble:
    """Hosts that the sandbox refused, and the user's answers."""

    _session: SessionDouble
    offers: tuple[HostOffer, ...] = ()
    opened: tuple[str, ...] = ()

    async def allow(self, host: str, scope: Scope) -> None:
        self._session._wish("allow_host", host, scope)
        self._forget_first()

    async def dismiss(self, host: str) -> None:
        self._session._wish("dismiss_host", host)
        self._forget_first()

    def _forget_first(self) -> None:
        self.offers = self.offers[1:]
        self._session.publish(Status("info", OFFERS_STATUS, ""))


class SessionDouble:
    """A session controlled by the test."""

    def __init__(self, info: ConversationInfo, isolation: str = "none") -> None:
        self.info = info
        self.stream = StreamDouble(info.id)
        self.frames = Frames()
        self.state = StateDouble()
        self.isolation = isolation
        self.why_open = ""
        self.used: SandboxUsage | None = None
        self.running: list[Job] = []
        self.listening: list[Port] = []
        self.editor_address = ""
        self.left: list[str] = []
        self.pages: asyncio.Queue[PageShown] = asyncio.Queue()
        self.watchers = 0
        self.active_model = ActiveModelDouble(self)
        self.wishes: list[tuple[str, ...]] = []
        self.wished = asyncio.Event()
        self.fails_with: Exception | None = None
        self.delegates: list[SessionDouble] = []
        self.delegation = DelegationDouble()
        self.suspension = SuspensionDouble()
        self.user_control = UserControlDouble(self)
        self.consent = ConsentDouble()
        self.memory = MemoryDouble(info.workspace)
        self.guard = GuardDouble()
        self.approval = ApprovalDouble(self)
        self.planning = PlanningDouble(self)
        self.network = NetworkDouble(self)

    @property
    def runtime(self) -> SessionDouble:
        """It is its own sandbox."""
        return self

    @property
    def record(self) -> SessionDouble:
        """It is its own record."""
        return self

    @property
    def leftovers(self) -> SessionDouble:
        """The session itself lists leftovers."""
        return self

    def _wish(self, *wish: str) -> None:
        self.wishes.append(wish)
        self.wished.set()
        if self.fails_with is not None:
            raise self.fails_with

    async def send(self, text: str, image_urls: Sequence[str] = (), context: str = "") -> None:
        self._wish("send", text, *image_urls, *([context] if context else []))
        if self.state.first_message_id is None:
            self.state = replace(self.state, first_message_id=self.stream.latest_id + 1)
        await self.stream.append(MessageAction(content=text), EventSource.USER)

    async def queue(self, text: str, image_urls: Sequence[str] = (), context: str = "") -> None:
        self._wish("queue", text, *image_urls, *([context] if context else []))
        await self.become(queued=(*self.state.queued, Queued(len(self.state.queued), text)))

    async def unqueue(self, message_id: int) -> None:
        self._wish("unqueue", str(message_id))
        await self.become(queued=tuple(queued for queued in self.state.queued if queued.id != message_id))

    async def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """Returns `pages`, which the test fills."""
        self.watchers += 1
        try:
            while True:
                yield await self.pages.get()
        finally:
            self.watchers -= 1

    async def left_behind(self) -> list[str]:
        return self.left

    async def jobs(self) -> list[Job]:
        return self.running

    async def ports(self) -> list[Port]:
        return self.listening

    async def forward_port(self, port: int) -> int:
        self._wish("forward_port", str(port))
        return port + 1

    async def editor(self) -> str:
        if not self.editor_address:
            raise UsageError("There is no editor.")
        return self.editor_address

    async def end_job(self, pid: int) -> None:
        self._wish("end_job", str(pid))
        self.running = [job for job in self.running if job.pid != pid]

    async def usage(self) -> SandboxUsage | None:
        return self.used

    async def interrupt(self) -> None:
        self._wish("interrupt")
        await self.become(agent_state=AgentState.STOPPED, awaiting=None, halt=None)

    async def pause(self) -> None:
        self._wish("pause")
        await self.become(agent_state=AgentState.PAUSED)

    async def resume(self) -> None:
        self._wish("resume")
        await self.become(agent_state=AgentState.RUNNING)

    async def recover(self, option: HaltOption, model: str = "") -> None:
        self._wish("recover", option, *([model] if model else []))
        await self.become(agent_state=AgentState.RUNNING, halt=None)

    async def compact(self, keep: str = "") -> None:
        self._wish("compact", keep)

    async def set_environment(self, variables: Mapping[str, str | None]) -> None:
        self._wish("set_environment", str(dict(variables)))

    async def put_back(self, name: str) -> str:
        self._wish("put_back", name)
        return name or "AGENTS.md"

    async def set_title(self, title: str) -> None:
        self._wish("set_title", title)
        self.info = replace(self.info, title=title)
        self.publish(Status("info", CONVERSATION_TITLE, title))

    # -- controlled by the test ----------------------------------------------------------------------------------------

    async def become(self, **state: object) -> None:
        """Be in another state, and say so on the stream as the controller does."""
        self.state = replace(self.state, **state)  # type: ignore[arg-type]
        changed = AgentStateChangedObservation(agent_state=self.state.agent_state)
        await self.stream.append(changed, EventSource.ENVIRONMENT)

    async def say(self, text: str) -> Envelope:
        """Let the agent say something."""
        return await self.stream.append_by_agent(MessageAction(content=text))

    async def run(self, command: str, output: str, exit_code: int = 0) -> None:
        """Let a command be run, live output and all."""
        action = await self.stream.append_by_agent(CmdRunAction(command=command))
        self.publish(TerminalOutput(action.id, f"$ {command}\r\n{output}".replace("\n", "\r\n").encode()))
        observation = CmdOutputObservation(
            command=command, content=output, metadata=CmdOutputMetadata(exit_code=exit_code)
        )
        await self.stream.append(observation, EventSource.ENVIRONMENT, action.id)

    async def hold(self, event: Event) -> Envelope:
        """Let an action wait for the user's yes."""
        envelope = await self.stream.append_by_agent(event)
        await self.become(agent_state=AgentState.AWAITING_USER_CONFIRMATION, awaiting=envelope.id)
        return envelope

    def publish(self, frame: Frame) -> None:
        """Send a live frame."""
        self.frames.publish(frame)


@dataclass(frozen=True)
class OfferDouble:
    """A model that could be used."""

    name: str
    label: str
    why: str = ""

    @property
    def is_complete(self) -> bool:
        return not self.name.endswith("/")


class StoreDouble:
    """A manager's sessions as a reader lists them."""

    def __init__(self, manager: ManagerDouble) -> None:
        self.home = Path("/dev/null/nowhere")  # where nothing can be made
        self._manager = manager

    @property
    def listing(self) -> StoreDouble:
        return self

    @property
    def _infos(self) -> list[ConversationInfo]:
        return [session.info for session in reversed(self._manager.sessions.values())]

    async def page(
        self, where: ConversationFilter, *, order: str = "updated", offset: int = 0, limit: int = 100
    ) -> list[ConversationInfo]:
        return [info for info in self._infos if where.text in info.title][offset : offset + limit]

    async def user_inputs(self, *, workspace: str, limit: int) -> list[str]:
        return self._manager.user_inputs[:limit]

    async def count(self, where: ConversationFilter) -> int:
        return len(await self.page(where, limit=len(self._infos)))

    async def delegate_counts(self, ids: Sequence[str]) -> dict[str, int]:
        return {}

    async def index(self, should_stop: Callable[[], bool] = lambda: False) -> int:
        return 0

    async def descendants(self, conversation_id: str) -> list[ConversationInfo]:
        return []

    async def resolve(self, text: str) -> str:
        return text

    async def read(self, conversation_id: str, **which: Unpack[Which]) -> list[Envelope]:
        return []


@dataclass
class ServersDouble:
    """A supervisor of MCP servers set by the test; records the user's answers."""

    servers: list[Server] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)
    listeners: set[Any] = field(default_factory=set)
    said: list[tuple[str, ...]] = field(default_factory=list)
    offered: list[dict[str, Any]] = field(default_factory=list)
    """Prompts."""

    def at(self, folder: str, conversation: str = "") -> list[Server]:
        return self.servers

    async def open(self, folder: str, conversation: str = "", runtime: Runtime | None = None) -> None:
        self.said.append(("open", folder))

    def tell(self) -> None:
        for listener in tuple(self.listeners):
            listener(self.servers[0], "")

    async def allow(self, key: str, fingerprint: str) -> None:
        self.said.append(("allow", key, fingerprint))

    async def approve(self, key: str, hashes: Sequence[str]) -> None:
        self.said.append(("approve", key, *hashes))

    async def restart(self, key: str) -> None:
        self.said.append(("restart", key))

    async def prompts(self, key: str) -> list[dict[str, Any]]:
        return self.offered

    async def prompt(self, key: str, name: str, arguments: dict[str, str]) -> str:
        return f"{name}: {arguments}\x1b[2J"


@dataclass
class SettingsDouble:
    """The settings that the screen reads; a test may change them."""

    model: str = ""
    agent: AgentSettings = field(default_factory=AgentSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    llm: LLMSettings = field(default_factory=LLMSettings)


@dataclass
class KeysDouble:
    """The keys of providers."""

    wanted: dict[str, KeyWanted] = field(default_factory=dict)
    """The key that a model lacks."""
    offered: list[tuple[KeyWanted, bool]] = field(default_factory=list)
    added: list[tuple[str, str]] = field(default_factory=list)
    """The variables with their keys."""
    checked: list[tuple[str, str]] = field(default_factory=list)
    """The endpoints without a key that were asked."""
    refusal: str = ""
    """Why every key is refused."""

    async def wanted_by(self, model: str) -> KeyWanted | None:
        return self.wanted.get(model)

    def providers(self) -> list[tuple[KeyWanted, bool]]:
        return self.offered

    async def add(self, wanted: KeyWanted, key: str) -> str:
        if self.refusal:
            raise ModelError(ModelErrorKind.AUTHENTICATION, self.refusal)
        self.added.append((wanted.variable, key))
        self.wanted.pop(wanted.model, None)
        self.offered = [(one, has or one.variable == wanted.variable) for one, has in self.offered]
        return "a file"

    async def check_endpoint(self, url: str, model: str) -> None:
        self.checked.append((url, model))
        if self.refusal:
            raise ModelError(ModelErrorKind.CONNECTION, self.refusal)

    async def add_endpoint(self, url: str, model: str, key: str) -> str:
        await self.add(KeyWanted(model, url, model), key)
        return f"named-{model}"


@dataclass
class ManagerDouble:
    """A manager of session doubles."""

    sessions: dict[str, SessionDouble] = field(default_factory=dict)
    isolation: str = "none"
    closed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    forked: list[tuple[str, int, bool]] = field(default_factory=list)
    viewed: list[str] = field(default_factory=list)
    """Conversations that are shown."""
    settings: SettingsDouble = field(default_factory=SettingsDouble)
    store: Any = field(init=False)
    """A StoreDouble of these sessions, unless a test puts a real one here."""
    user_inputs: list[str] = field(default_factory=list)
    """What earlier sessions sent, the newest first."""
    home: Path = Path("/nonexistent/handloom")
    """Where the settings are written."""
    environ: dict[str, str] = field(default_factory=dict)
    catalogue: list[KnownModel] = field(default_factory=list)
    near: list[KnownModel] = field(default_factory=list)
    chosen: list[tuple[str, str]] = field(default_factory=list)
    is_closed: bool = False
    mcp: ServersDouble = field(default_factory=ServersDouble)
    keys: KeysDouble = field(default_factory=KeysDouble)
    vault: Any = None
    """A Vault, where a test needs one."""
    redact: Callable[[str], str] = str
    trust: FolderTrust = field(init=False)
    """The real one, on the home of this double."""
    fails_with: Exception | None = None
    models: list[OfferDouble] = field(
        default_factory=lambda: [
            OfferDouble("anthropic/claude-test", "Anthropic"),
            OfferDouble("ollama_chat/", "Ollama"),
            OfferDouble("demo", "Demo, without a model"),
        ]
    )

    def __post_init__(self) -> None:
        self.store = StoreDouble(self)
        self.trust = FolderTrust(self.home, UserFolders(self.home), TrustPolicy(self.home, lambda: ASK))

    async def learn_secrets(self) -> None:
        """There is nothing to redact."""

    def is_open(self, conversation_id: str) -> bool:
        return conversation_id in self.viewed

    async def open_elsewhere(self, ids: Sequence[str]) -> set[str]:
        return set()

    def add(
        self, *, workspace: str = "/work", model: str = "demo", title: str = "", repository: str = ""
    ) -> SessionDouble:
        """A conversation that exists already."""
        number = len(self.sessions)
        at = NOW + timedelta(minutes=number)
        info = ConversationInfo(f"c{number}", title, workspace, model, at, at, 3, repository=repository)
        session = SessionDouble(info, self.isolation)
        self.sessions[info.id] = session
        return session

    async def choose_model(self, name: str, api_base: str = "") -> None:
        self.chosen.append((name, api_base))

    async def list(self, *, all: bool = True) -> list[ConversationInfo]:
        since = NOW - timedelta(days=10)
        infos = [session.info for session in reversed(self.sessions.values())]
        return [info for info in infos if all or info.updated_at >= since]

    async def create(
        self,
        *,
        workspace: str,
        model: str = "",
        title: str = "",
        repository: str = "",
        agent: str = "",
        limits: Limits | None = None,
    ) -> SessionDouble:
        if self.fails_with is not None:
            raise self.fails_with
        model = model or self.settings.model
        return self.add(workspace=workspace, model=model, title=title, repository=repository)

    async def open(self, conversation_id: str, *, model: str = "") -> SessionDouble:
        if conversation_id not in self.sessions:
            raise UsageError(f"There is no conversation {conversation_id}. handloom list shows which there are.")
        return self.sessions[conversation_id]

    async def fork(self, conversation_id: str, event_id: int, *, copy_files: bool) -> SessionDouble:
        self.forked.append((conversation_id, event_id, copy_files))
        return self.add(title=f"{conversation_id} (fork)")

    async def agents_for(self, workspace: str) -> Found:
        return Found(dict(AGENTS), [])

    async def attach(self, conversation_id: str) -> SessionDouble:
        self.viewed.append(conversation_id)
        return await self.open(conversation_id)

    def detach(self, conversation_id: str) -> None:
        self.viewed.remove(conversation_id)

    async def close(self, conversation_id: str) -> None:
        self.closed.append(conversation_id)

    async def delete(self, conversation_id: str, *, later: bool = False) -> None:
        self.deleted.append(conversation_id)
        del self.sessions[conversation_id]

    async def aclose(self) -> None:
        self.is_closed = True

    async def local_models(self) -> Sequence[KnownModel]:
        return self.near

    async def known_models(self) -> Sequence[KnownModel]:
        return self.catalogue

    @property
    def book(self) -> EditableSettings:
        return EditableSettings(self.home, self.environ, {})

    async def read_settings(self) -> Sequence[Setting]:
        return self.book.read()[1]

    async def change_setting(self, name: str, value: str | bool) -> Sequence[Setting]:
        return self.book.change(name, value)[1]

    async def reset_setting(self, name: str) -> Sequence[Setting]:
        return self.book.reset(name)[1]

    def offers(self) -> Sequence[OfferDouble]:
        return self.models
