"""The command of the session manager: the operations of its screen, and what happens with the chosen conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tui.events.commands import go_to_event
from tui.export.commands import export_conversation
from tui.i18n import _
from tui.library.commands import AgentSessions
from tui.replay.replay_start import open_replay
from tui.shortcuts.command import Command, Group
from tui.workspace.conversation_start import fork_from, show_conversation

if TYPE_CHECKING:
    from core.library.all_sessions import AllSessions
    from core.store.conversations import ConversationInfo
    from tui.rerun.commands import Reruns
    from tui.sessions.session_rows import OpenState
    from tui.sessions.session_search import ScreenState, SessionChoice
    from tui.workspace.context import Context
    from tui.workspace.tab import Tab


UPDATING = "sessions of other agents"
PREVIEW_MESSAGES = 6
MESSAGE_CHARS = 600
BACK_PAGES = 40
"""Pages that the chat loads to reach an event; older events are shown only in the event log."""


class SessionManager:
    """The session manager of this workspace."""

    def __init__(self, app: Context, reruns: Reruns) -> None:
        self._app, self._reruns = app, reruns
        self._agents = AgentSessions(app)
        self._state: ScreenState | None = None
        self._sessions: AllSessions | None = None
        """What the list shows while it is open."""

    def open(self) -> None:
        self._app.attempt(self._choose())

    async def _choose(self) -> None:
        if self._app.manager is None:
            self._app.flash(_("Handloom is still starting."))
            return
        await self._agents.ask()
        async with self._agents.opened(self._app.manager.store) as sessions:
            choice = await self._ask(sessions)
            home = await sessions.home_of(choice.conversation_id) if choice is not None and sessions else None
        if choice is not None and home not in (None, self._app.manager.store.home):
            await self._run_choice_of_agent(choice)
        elif choice is not None:
            await self._run_choice(choice)

    async def _ask(self, sessions: AllSessions | None) -> SessionChoice | None:
        """Show the list, and update the sessions of other agents while it is open."""
        from tui.sessions.screen import SessionsScreen
        from tui.sessions.session_search import ScreenState, SessionActions

        assert self._app.manager is not None
        state = self._state = self._state or ScreenState()
        store = self._app.manager.store
        self._sessions = sessions
        actions = SessionActions(
            sessions or store,
            self._open_states,
            self._recent_messages,
            store.index,
            self._rename,
            self._delete,
            self._agents.is_only_copy,
        )
        screen = SessionsScreen(actions, self._app.tabs.folder, state)
        if sessions is not None:
            self._app.attempt(self._agents.update(screen.show_progress), UPDATING, exclusive=True)
        try:
            return await self._app.push_screen_wait(screen)
        finally:
            self._app.cancel(UPDATING)
            self._sessions = None

    async def _run_choice_of_agent(self, choice: SessionChoice) -> None:
        """Do something with a session of another agent, which is only ever read."""
        id, event_id = choice.conversation_id, choice.event_id
        match choice.kind:
            case "export":
                async with self._agents.read_session(id) as copies:
                    await export_conversation(self._app, id, copies)
            case "again":
                self._app.report(_("A session of another agent cannot be run again. Fork it to continue it here."))
            case "fork":
                await self._agents.go_on(id, event_id)
            case _:
                from tui.replay.agent_tab import open_agent_session

                session = await self._agents.session(id)
                await open_agent_session(self._app, id, event_id, self._agents.home, session)

    async def _run_choice(self, choice: SessionChoice) -> None:
        assert self._app.manager is not None
        id, event_id = choice.conversation_id, choice.event_id
        match choice.kind:
            case "replay":
                await open_replay(self._app, id, event_id)
            case "again":
                await self._reruns.open(id)
            case "export":
                await export_conversation(self._app, id)
            case "fork":
                info = await self._app.manager.store.conversation(id)
                await fork_from(self._app, id, info.event_count - 1 if event_id is None else event_id)
            case _:
                await show_conversation(self._app, id)
                if event_id is not None and self._app.tabs.current is not None:
                    await self.show_event(self._app.tabs.current, event_id)

    async def show_event(self, tab: Tab, event_id: int) -> None:
        """Select an event in the event log, and scroll the chat to it."""
        for _page in range(BACK_PAGES):
            if not tab.oldest or tab.oldest <= event_id:
                break
            await tab.read_back()
        await go_to_event(self._app, tab, event_id)
        if self._app.tabs.current is tab:
            self._app.workspace.chat.go_to_event(event_id)

    # -- operations of the screen --------------------------------------------------------------------------------------

    async def _open_states(self, infos: Sequence[ConversationInfo]) -> Mapping[str, OpenState]:
        from tui.sessions.session_rows import OpenState

        assert self._app.manager is not None
        elsewhere = await self._app.manager.open_elsewhere([info.id for info in infos])
        tabs = {tab.id: tab for tab in self._app.tabs.all if not tab.is_replay}
        found: dict[str, OpenState] = {}
        for info in infos:
            tab = tabs.get(info.id)
            is_here = tab is not None or self._app.manager.is_open(info.id)
            note = self._agents.note(info.id)
            found[info.id] = OpenState(is_here, info.id in elsewhere, tab.mark if tab is not None else None, note)
        return found

    async def _recent_messages(self, conversation_id: str) -> Sequence[tuple[str, str]]:
        from core.events import EventSource, MessageAction
        from core.store.reader import EventFilter

        assert self._app.manager is not None
        wanted = EventFilter(kinds=frozenset({"action:message"}))
        sessions = self._sessions
        reader = self._app.manager.store if sessions is None else await sessions.reader_of(conversation_id)
        page = await reader.read(conversation_id, limit=PREVIEW_MESSAGES, newest=True, where=wanted)
        names = {EventSource.USER: _("you"), EventSource.AGENT: _("agent")}
        return [
            (names.get(envelope.source, str(envelope.source)), envelope.event.content[:MESSAGE_CHARS])
            for envelope in page
            if isinstance(envelope.event, MessageAction)
        ]

    async def _rename(self, conversation_id: str, title: str) -> None:
        assert self._app.manager is not None
        await self._app.manager.rename(conversation_id, title)
        for tab in self._app.tabs.all:
            if tab.id == conversation_id:
                self._app.wake(tab)

    async def _delete(self, conversation_id: str, later: bool) -> None:
        assert self._app.manager is not None
        if await self._is_of_agent(conversation_id):
            await self._agents.forget(conversation_id)
            return
        deleted = {conversation_id, *(info.id for info in await self._app.manager.store.descendants(conversation_id))}
        tabs = [tab for tab in self._app.tabs.all if tab.id in deleted]
        if any(tab.running for tab in tabs):
            from core.errors import UsageError

            raise UsageError(_("The agent is still working in this conversation. Stop it first, then delete it."))
        for tab in tabs:
            await self._app.tabs.drop(tab)
        await self._app.manager.delete(conversation_id, later=later)

    async def _is_of_agent(self, conversation_id: str) -> bool:
        assert self._app.manager is not None
        home = None if self._sessions is None else await self._sessions.home_of(conversation_id)
        return home not in (None, self._app.manager.store.home)


ROWS = (
    Command("conv.manager", ("ctrl+s",), "Conversations", "Find, open, rename and delete conversations.",
            Group.CONVERSATIONS, leader="l", slash="sessions", run=lambda app: app.sessions.open(),
            aliases=("resume",), also="history sessions continue load switch"),
)  # fmt: skip
