"""`handloom acp`: serve one editor on standard input and output until it disconnects or the process is asked to end.

`Server` is the agent's side of the connection: its methods, and the sessions that the editor has open. A session is a
conversation of this home and has its id. The first method that needs the manager starts it, so the editor gets its
first answer quickly, and errors in the setup are reported where it can show them.

MCP servers that an editor names are accepted but never started from here: an editor takes them from its own settings or
the project's and does not say which, and a server is a program that runs as the user. The user is told so; a server
starts only after the user has allowed it in Handloom.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from acp.connection import Connection
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

from core.acp import ACP_AGENT
from core.acp.json_rpc import MAX_LINE_BYTES, JsonRpcStream
from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, ExitStatus, UsageError
from core.security.confirmation import ConfirmMode
from core.session.agent_session import AgentSession
from tui.acp.editor_session import EditorSession
from tui.acp.methods import INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, Method, Methods
from tui.acp.prompts import available_commands
from tui.cli.output import notice
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

SERVER_NAME_CELLS = 40
MAX_SERVER_NAMES = 10
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


class Server:
    """The agent's side of one connection. Set `connection` before it reads, and call `aclose` when it has ended."""

    def __init__(self, connect: Callable[[], Awaitable[ConversationManager]]) -> None:
        self.connection: Connection | None = None
        self._connect = connect
        self._connecting: asyncio.Task[ConversationManager] | None = None
        self._sessions: dict[str, EditorSession] = {}
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
        """Stop and store what runs, and close all conversations. Actions that wait for approval stay waiting."""
        for task in self._background:
            task.cancel()
        for editor in self._sessions.values():
            await editor.aclose()
        self._sessions.clear()
        if self._connecting is not None:
            await asyncio.wait([self._connecting])
            if not self._connecting.cancelled() and self._connecting.exception() is None:
                await self._connecting.result().aclose()

    async def manager(self) -> ConversationManager:
        """Return the manager, which the first call starts; a failed start is tried again. Raises HandloomError."""
        failed = self._connecting is not None and self._connecting.done() and self._connecting.exception() is not None
        if self._connecting is None or failed:
            self._connecting = asyncio.ensure_future(self._connect())
        return await asyncio.shield(self._connecting)

    # -- the connection ------------------------------------------------------------------------------------------------

    async def initialize(self, request: InitializeRequest) -> InitializeResponse:
        """Report our capabilities. The protocol version is ours; a client with another one disconnects."""
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
        """Refuse: the keys of models are in the environment."""
        raise RequestError(INVALID_PARAMS, _("Handloom has no login. Set the API key of your model's provider."))

    # -- sessions ------------------------------------------------------------------------------------------------------

    async def new_session(self, request: NewSessionRequest) -> NewSessionResponse:
        """Start a conversation in the editor's folder. Raises HandloomError."""
        self._require_initialized()
        folder = _absolute(request.cwd)
        manager = await self.manager()
        if not manager.settings.model and manager.settings.agent.name != ACP_AGENT:
            raise ConfigurationError(
                _("No model is configured. Set one in the editor's settings: handloom acp --model PROVIDER/NAME.")
            )
        session = await manager.create(workspace=folder)
        await manager.attach(session.id)
        editor = self._add_session(session)
        self._after_response(self._greet(editor, request.mcp_servers or [], request.additional_directories or []))
        return NewSessionResponse(session_id=session.id, modes=_modes(session))

    async def load_session(self, request: LoadSessionRequest) -> LoadSessionResponse:
        """Open an earlier conversation and send it before this returns. Raises HandloomError."""
        editor = await self._reopen(request, replays=True)
        return LoadSessionResponse(modes=_modes(editor.session))

    async def resume_session(self, request: ResumeSessionRequest) -> ResumeSessionResponse:
        """Open an earlier conversation that the editor still shows. Raises HandloomError."""
        editor = await self._reopen(request, replays=False)
        return ResumeSessionResponse(modes=_modes(editor.session))

    async def _reopen(self, request: LoadSessionRequest | ResumeSessionRequest, *, replays: bool) -> EditorSession:
        """Raises RequestError, HandloomError."""
        self._require_initialized()
        folder = _absolute(request.cwd)
        manager = await self.manager()
        async with self._opening:
            editor = self._sessions.get(request.session_id)
            if editor is None:
                if not await manager.store.conversations(conversation_id=request.session_id):
                    raise _no_session(request.session_id)
                editor = self._add_session(await manager.attach(request.session_id))
            elif editor.turn is not None:
                raise RequestError(
                    INVALID_REQUEST, _("This session is running a prompt. Wait until it ends, or cancel it.")
                )
            if replays:
                await editor.replay()
        if (workspace := editor.session.info.workspace) != folder:
            text = _("This conversation works in its own folder: {folder}.")
            editor.say(text.format(folder=sanitize_line(workspace, 300)))
        self._after_response(self._greet(editor, request.mcp_servers or [], request.additional_directories or []))
        return editor

    async def list_sessions(self, request: ListSessionsRequest) -> ListSessionsResponse:
        """List the conversations of this home, or of one folder, newest first. Raises HandloomError."""
        self._require_initialized()
        manager = await self.manager()
        cursor = request.cursor or "0"
        if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
            raise RequestError(INVALID_PARAMS, _("Unknown cursor. List again without a cursor."))
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
        """Stop and close a session, which can be loaded again. Raises RequestError."""
        editor = self._session(request.session_id)
        del self._sessions[request.session_id]
        await editor.stop()
        await editor.aclose()
        await (await self.manager()).close(request.session_id)
        return CloseSessionResponse()

    # -- in a session --------------------------------------------------------------------------------------------------

    async def prompt(self, request: PromptRequest) -> PromptResponse:
        """Send a message to the agent. Raises RequestError, HandloomError."""
        editor = self._session(request.session_id)
        return await editor.prompt(request, (await self.manager()).store.home)

    async def cancel(self, notification: CancelNotification) -> None:
        """Cancel the running prompt. Raises RequestError, StoreError."""
        await self._session(notification.session_id).cancel()

    async def set_mode(self, request: SetSessionModeRequest) -> SetSessionModeResponse:
        """Set which actions need approval, from the next action on. Raises RequestError."""
        editor = self._session(request.session_id)
        if request.mode_id not in set(ConfirmMode):
            known = ", ".join(mode.value for mode in ConfirmMode)
            raise RequestError(INVALID_PARAMS, _("Unknown mode. Choose one of: {modes}.").format(modes=known))
        editor.session.approval.set_mode(request.mode_id)
        return SetSessionModeResponse()

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _require_initialized(self) -> None:
        if not self._is_initialized:
            raise RequestError(INVALID_REQUEST, "Send initialize first.")

    def _session(self, session_id: str) -> EditorSession:
        if (editor := self._sessions.get(session_id)) is None:
            raise _no_session(session_id)
        return editor

    def _add_session(self, session: AgentSession) -> EditorSession:
        assert self.connection is not None
        editor = EditorSession(session, self.connection.send_request, self.connection.send_notification)
        self._sessions[session.id] = editor
        return editor

    def _after_response(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this after the response to the current request is written, which happens before anything else runs."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _greet(self, editor: EditorSession, servers: Sequence[BaseModel], folders: Sequence[str]) -> None:
        """Send the available commands, and what the user should know before the first prompt."""
        manager = await self.manager()
        gathered = await manager.trust.gathered(editor.session.memory.folder)
        editor.outbox.put([await available_commands(manager.store.home, gathered)])
        if gathered.standing.waiting and manager.trust.asks:
            text = _("This folder contains files for agents, which are not used until you trust them: {command}")
            command = f"handloom trust give {gathered.standing.survey.folder}"
            editor.say(text.format(command=sanitize_line(command, 300)))
        runtime = editor.session.runtime
        if runtime.isolation == "none":
            editor.say(_("No sandbox: commands run directly on this machine with your permissions."))
            if runtime.why_open:
                editor.say(f"{sanitize_line(runtime.why_open, 300)}.")
        if folders:
            editor.say(
                _("Additional folders are not opened. Add those that the agent may read to sandbox.readable_paths.")
            )
        if servers:
            names = [sanitize_line(str(getattr(server, "name", "")), SERVER_NAME_CELLS) or "?" for server in servers]
            shown = ", ".join(names[:MAX_SERVER_NAMES]) + (", …" if len(names) > MAX_SERVER_NAMES else "")
            text = _(
                "The editor configured MCP servers: {names}. They are not started from here; approve them in Handloom."
            )
            editor.say(text.format(names=shown))


def _absolute(folder: str) -> str:
    """Raises UsageError."""
    if not os.path.isabs(folder) or "\0" in folder:
        raise UsageError(_("cwd is not an absolute path. Open a folder in the editor, then start the conversation."))
    return os.path.normpath(folder)


def _no_session(id: str) -> RequestError:
    text = _("Session {id} is not loaded. Load it, or start a new one.")
    return RequestError(NOT_FOUND, text.format(id=sanitize_line(id, 60)))


def _modes(session: AgentSession) -> SessionModeState:
    return SessionModeState(
        current_mode_id=session.approval.mode.value,
        available_modes=[
            SessionMode(id=mode.value, name=name, description=description)
            for mode, (name, description) in _MODES.items()
        ],
    )


# -- the command -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def standard_streams() -> AsyncIterator[JsonRpcStream]:
    """The connection on standard input and output, which only the protocol uses meanwhile.

    Whatever else prints goes to standard error; whatever else reads gets nothing. Raises UsageError if they cannot be
    polled, such as a file as input.
    """
    loop = asyncio.get_running_loop()
    incoming, outgoing = _take_over_streams()
    reader, ended = asyncio.StreamReader(limit=MAX_LINE_BYTES), asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(ended)
    try:
        source, _protocol = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), incoming)
        sink, _sink_protocol = await loop.connect_write_pipe(lambda: protocol, outgoing)
    except (ValueError, OSError) as error:
        raise UsageError(
            _("This command talks to an editor through pipes. Configure your editor to start it.")
        ) from error
    watch = asyncio.create_task(_end_with(ended, reader))
    wire = JsonRpcStream(reader, asyncio.StreamWriter(sink, protocol, None, loop))
    try:
        yield wire
    finally:
        watch.cancel()
        await wire.close()
        source.close()


def _take_over_streams() -> tuple[Any, Any]:
    """Duplicate the standard streams, and point their descriptors elsewhere."""
    sys.stdout.flush()
    incoming, outgoing = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


async def _end_with(output: asyncio.StreamReader, reader: asyncio.StreamReader) -> None:
    """End the input when the output is closed, because then the editor is gone."""
    await output.read()
    reader.feed_eof()


async def serve(connect: Callable[[], Awaitable[ConversationManager]]) -> int:
    """Serve the editor; everything is stored at the end. Raises UsageError if the streams are not pipes."""
    if sys.stdin.isatty():
        notice(_("Waiting for an editor on standard input. Ctrl+C quits."))
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    server = Server(connect)
    async with standard_streams() as wire:
        connection = Connection(server.methods, wire, listening=False)
        server.connection = connection
        waits = [asyncio.create_task(connection.main_loop()), asyncio.create_task(interrupted.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            with suppress(Exception):  # what a request raises while it is cancelled must not prevent storing
                await connection.close()
            await server.aclose()
    return ExitStatus.INTERRUPTED if interrupted.is_set() else ExitStatus.FINISHED
