"""The agent's side of one connection: its methods, and the sessions that the editor has open.

A session is a conversation of this home and has its id. The first method that needs the manager starts it, so the
editor gets its first answer quickly, and errors in the setup are reported where it can show them.

MCP servers that an editor names are accepted but never started from here: an editor takes them from its own settings or
the project's and does not say which, and a server is a program that runs as the user. `note_on` tells the user so; a
server starts only after the user has allowed it in Handloom.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AgentCapabilities,
    AuthenticateRequest,
    CancelNotification,
    CloseSessionRequest,
    CloseSessionResponse,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionRequest,
    NewSessionResponse,
    PromptCapabilities,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SessionResumeCapabilities,
    SetSessionModeRequest,
    SetSessionModeResponse,
)
from pydantic import BaseModel

from core.acp.acp_selection import OTHER
from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, UsageError
from core.security.confirmation import ConfirmMode
from core.session.agent_session import AgentSession
from tui.acp import editor_commands
from tui.acp.editor_session import EditorSession
from tui.acp.methods import INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, Method, Methods
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

SERVERS_NAME_CELLS = 40
SHOWN = 10


def note_on(servers: Sequence[BaseModel]) -> str:
    """What to tell the user of them; empty where there are none."""
    names = [sanitize_line(str(getattr(server, "name", "")), SERVERS_NAME_CELLS) or "?" for server in servers]
    if not names:
        return ""
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    told = _(
        "The editor names MCP servers: {names}. They are not started from here; they need your consent in Handloom."
    )
    return told.format(names=shown)


NAME_CELLS = 100
SESSIONS_PER_PAGE = 50
_MODES = {
    ConfirmMode.ALWAYS: (_("Approve everything"), _("Every action waits for your approval.")),
    ConfirmMode.RISKY: (_("Approve risky actions"), _("Actions of high or unknown risk wait for your approval.")),
    ConfirmMode.AUTO_EDIT: (
        _("Auto-approve edits"),
        _("Files in the workspace are edited without asking; everything else waits."),
    ),
    ConfirmMode.PLAN: (_("Plan only"), _("The agent reads and plans, and changes nothing.")),
    ConfirmMode.NEVER: (_("Full auto"), _("Only actions that untrusted content may have caused wait.")),
}


class Connection(Protocol):
    """What is needed of the library's connection."""

    async def send_request(self, method: str, params: Any = None) -> Any: ...
    async def send_notification(self, method: str, params: Any = None) -> None: ...


class Server:
    """One connection's side of ours. Give it the `connection` before it reads; `aclose` it when that has ended."""

    def __init__(self, connect: Callable[[], Awaitable[ConversationManager]]) -> None:
        self.connection: Connection | None = None
        self._connect = connect
        self._connecting: asyncio.Task[ConversationManager] | None = None
        self._talks: dict[str, EditorSession] = {}
        self._opening = asyncio.Lock()
        self._is_initialized = False
        self._background: set[asyncio.Task[None]] = set()
        self.methods = Methods(
            requests={
                "initialize": Method(InitializeRequest, self.initialize),
                "authenticate": Method(AuthenticateRequest, self.authenticate),
                "session/new": Method(NewSessionRequest, self.new_session),
                "session/load": Method(LoadSessionRequest, self.load_session),
                "session/resume": Method(ResumeSessionRequest, self.resume_session),
                "session/list": Method(ListSessionsRequest, self.list_sessions),
                "session/prompt": Method(PromptRequest, self.prompt),
                "session/set_mode": Method(SetSessionModeRequest, self.set_mode),
                "session/close": Method(CloseSessionRequest, self.close_session),
            },
            notifications={"session/cancel": Method(CancelNotification, self.cancel)},
        )

    async def aclose(self) -> None:
        """Stop what runs, store it, and close every conversation. Questions that wait stay waiting."""
        for task in self._background:
            task.cancel()
        for talk in self._talks.values():
            await talk.aclose()
        self._talks.clear()
        if self._connecting is not None:
            await asyncio.wait([self._connecting])
            if not self._connecting.cancelled() and self._connecting.exception() is None:
                await self._connecting.result().aclose()

    async def manager(self) -> ConversationManager:
        """The manager, started with the first call; one that could not be is tried again. Raises HandloomError."""
        failed = self._connecting is not None and self._connecting.done() and self._connecting.exception() is not None
        if self._connecting is None or failed:
            self._connecting = asyncio.ensure_future(self._connect())
        return await asyncio.shield(self._connecting)

    # -- the connection ------------------------------------------------------------------------------------------------

    async def initialize(self, request: InitializeRequest) -> InitializeResponse:
        """Say what there is here. The version is ours: a client that does not speak it goes."""
        self._is_initialized = True
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    close=SessionCloseCapabilities(),
                    resume=SessionResumeCapabilities(),
                ),
            ),
            auth_methods=[],
            agent_info=Implementation(name="handloom", title="Handloom", version=version("handloom")),
        )

    async def authenticate(self, request: AuthenticateRequest) -> None:
        """There is nothing to log in to: keys of models are in the environment."""
        raise RequestError(INVALID_PARAMS, _("Handloom has no log-in. Set the key of your model's provider."))

    # -- sessions ------------------------------------------------------------------------------------------------------

    async def new_session(self, request: NewSessionRequest) -> NewSessionResponse:
        """A new conversation in the editor's folder. Raises HandloomError."""
        self._require_initialized()
        folder = _absolute(request.cwd)
        manager = await self.manager()
        if not manager.settings.model and manager.settings.agent.name != OTHER:
            raise ConfigurationError(
                _("No model is configured. Give one in the editor's settings: handloom acp --model PROVIDER/NAME.")
            )
        session = await manager.create(workspace=folder)
        await manager.attach(session.id)
        talk = self._opened(session)
        self._after_the_answer(self._greet(talk, request.mcp_servers or [], request.additional_directories or []))
        return NewSessionResponse(session_id=session.id, modes=_modes(session))

    async def load_session(self, request: LoadSessionRequest) -> LoadSessionResponse:
        """An earlier conversation, told again before this returns. Raises HandloomError."""
        talk = await self._opened_again(request, tells=True)
        return LoadSessionResponse(modes=_modes(talk.session))

    async def resume_session(self, request: ResumeSessionRequest) -> ResumeSessionResponse:
        """An earlier conversation, gone on with by an editor that still shows it. Raises HandloomError."""
        talk = await self._opened_again(request, tells=False)
        return ResumeSessionResponse(modes=_modes(talk.session))

    async def _opened_again(self, request: LoadSessionRequest | ResumeSessionRequest, *, tells: bool) -> EditorSession:
        """The conversation of this id, with all of it told where that is wanted. Raises RequestError, HandloomError."""
        self._require_initialized()
        folder = _absolute(request.cwd)
        manager = await self.manager()
        async with self._opening:
            talk = self._talks.get(request.session_id)
            if talk is None:
                session = await self._stored(manager, request.session_id)
                talk = self._opened(session)
            elif talk.turn is not None:
                raise RequestError(INVALID_REQUEST, _("A prompt runs in this session. Wait for its end, or cancel it."))
            if tells:
                await talk.replay()
        if (works_in := talk.session.info.workspace) != folder:
            talk.say(
                _("This conversation works in its own folder: {folder}.").format(folder=sanitize_line(works_in, 300))
            )
        self._after_the_answer(self._greet(talk, request.mcp_servers or [], request.additional_directories or []))
        return talk

    async def _stored(self, manager: ConversationManager, id: str) -> AgentSession:
        """The conversation of this id, opened. Raises RequestError for an unknown one, HandloomError."""
        if not await manager.store.conversations(conversation_id=id):
            raise _no_session(id)
        return await manager.attach(id)

    async def list_sessions(self, request: ListSessionsRequest) -> ListSessionsResponse:
        """The conversations of this home, or of one folder, the newest first. Raises HandloomError."""
        self._require_initialized()
        manager = await self.manager()
        cursor = request.cursor or "0"
        if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
            raise RequestError(INVALID_PARAMS, _("The cursor is none of ours. Begin again without one."))
        first = int(cursor)
        found = [info for info in await manager.list() if not info.parent]
        if request.cwd is not None:
            folder = _absolute(request.cwd)
            found = [info for info in found if info.workspace == folder]
        page = found[first : first + SESSIONS_PER_PAGE]
        sessions = [
            SessionInfo(
                session_id=info.id,
                cwd=info.workspace,
                title=sanitize_line(info.title or info.first_line, NAME_CELLS) or None,
                updated_at=info.updated_at.isoformat(),
            )
            for info in page
        ]
        more = first + len(page) < len(found)
        return ListSessionsResponse(sessions=sessions, next_cursor=str(first + len(page)) if more else None)

    async def close_session(self, request: CloseSessionRequest) -> CloseSessionResponse:
        """Stop what runs in a session, and close it; it can be loaded again. Raises RequestError."""
        talk = self._talk(request.session_id)
        del self._talks[request.session_id]
        await talk.leave()
        await talk.aclose()
        await (await self.manager()).close(request.session_id)
        return CloseSessionResponse()

    # -- in a session --------------------------------------------------------------------------------------------------

    async def prompt(self, request: PromptRequest) -> PromptResponse:
        """Say something to the agent. Raises RequestError, HandloomError."""
        talk = self._talk(request.session_id)
        return await talk.prompt(request, (await self.manager()).store.home)

    async def cancel(self, notification: CancelNotification) -> None:
        """Stop the prompt that runs, if one does. Raises RequestError, StoreError."""
        await self._talk(notification.session_id).cancel()

    async def set_mode(self, request: SetSessionModeRequest) -> SetSessionModeResponse:
        """Ask for more or less from the next answer on. Raises RequestError."""
        talk = self._talk(request.session_id)
        if request.mode_id not in set(ConfirmMode):
            known = ", ".join(mode.value for mode in ConfirmMode)
            raise RequestError(INVALID_PARAMS, _("There is no such mode. Choose one of: {modes}.").format(modes=known))
        talk.session.approval.set_mode(request.mode_id)
        return SetSessionModeResponse()

    # -- what they need ------------------------------------------------------------------------------------------------

    def _require_initialized(self) -> None:
        if not self._is_initialized:
            raise RequestError(INVALID_REQUEST, "Send initialize first.")

    def _talk(self, session_id: str) -> EditorSession:
        if (talk := self._talks.get(session_id)) is None:
            raise _no_session(session_id)
        return talk

    def _opened(self, session: AgentSession) -> EditorSession:
        assert self.connection is not None
        talk = EditorSession(session, self.connection.send_request, self.connection.send_notification)
        self._talks[session.id] = talk
        return talk

    def _after_the_answer(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it once the answer to the present request is written, which happens before anything else runs."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _greet(self, talk: EditorSession, servers: Sequence[BaseModel], folders: Sequence[str]) -> None:
        """Tell what can be commanded, and what the user should know before the first prompt."""
        manager = await self.manager()
        gathered = await manager.trust.gathered(talk.session.recollection.folder)
        talk.outbox.put([await editor_commands.available(manager.store.home, gathered)])
        if gathered.standing.waiting and manager.trust.asks:
            told = _("This folder brings files for agents, which do not count before you have said yes: {command}")
            command = f"handloom trust give {gathered.standing.survey.folder}"
            talk.say(told.format(command=sanitize_line(command, 300)))
        runtime = talk.session.runtime
        if runtime.isolation == "none":
            talk.say(_("No sandbox: commands run directly on this machine with your permissions."))
            if runtime.why_open:
                talk.say(f"{sanitize_line(runtime.why_open, 300)}.")
        if folders:
            talk.say(_("Further folders are not opened. Name those that may be read in sandbox.readable_paths."))
        if note := note_on(servers):
            talk.say(note)


def _absolute(folder: str) -> str:
    """The folder as we name it. Raises UsageError."""
    if not os.path.isabs(folder) or "\0" in folder:
        raise UsageError(_("cwd is no absolute path. Open a folder in the editor, then begin the conversation."))
    return os.path.normpath(folder)


def _no_session(id: str) -> RequestError:
    told = _("There is no session {id} here. Load it, or begin a new one.")
    return RequestError(NOT_FOUND, told.format(id=sanitize_line(id, 60)))


def _modes(session: AgentSession) -> SessionModeState:
    return SessionModeState(
        current_mode_id=session.approval.mode.value,
        available_modes=[
            SessionMode(id=mode.value, name=name, description=description)
            for mode, (name, description) in _MODES.items()
        ],
    )
