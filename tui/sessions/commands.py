"""The session manager: what its screen may do with conversations, and what is done with the one that is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tui.events.commands import go_to_event
from tui.export.commands import export_conversation
from tui.i18n import _
from tui.replay.replay_start import open_replay
from tui.shortcuts.command import Command, Group
from tui.undo.fork import fork_from
from tui.workspace.conversation_start import show_conversation

if TYPE_CHECKING:
    from core.store.conversations import ConversationInfo
    from tui.rerun.commands import Reruns
    from tui.sessions.session_rows import Standing
    from tui.sessions.session_search import Whereabouts, Wish
    from tui.workspace.context import Context
    from tui.workspace.tab import Tab


SAID = 6
"""Messages in a preview."""
SAID_CHARS = 600
BACK_PAGES = 40
"""Pages that the chat loads to come to an event; what is further back is shown in the event log alone."""


class SessionManager:
    """The session manager of this workspace."""

    def __init__(self, app: Context, reruns: Reruns) -> None:
        self._app, self._reruns = app, reruns
        self._place: Whereabouts | None = None
        """Where the user was when they left it."""

    def open(self) -> None:
        """Open the session manager."""
        self._app.attempt(self._manage())

    async def _manage(self) -> None:
        from tui.sessions.screen import SessionsScreen
        from tui.sessions.session_search import Ways, Whereabouts

        if self._app.manager is None:
            self._app.flash(_("Handloom is still starting."))
            return
        place = self._place = self._place or Whereabouts()
        store = self._app.manager.store
        ways = Ways(store, self._standings, self._last_said, store.index, self._rename_stored, self._delete_stored)
        here = self._app.tabs.folder
        wish = await self._app.push_screen_wait(SessionsScreen(ways, here, place))
        if wish is not None:
            await self._grant(wish)

    async def _grant(self, wish: Wish) -> None:
        assert self._app.manager is not None
        id, event_id = wish.conversation_id, wish.event_id
        match wish.kind:
            case "replay":
                await open_replay(self._app, id, event_id)
            case "again":
                await self._reruns.open(id)
            case "export":
                await export_conversation(self._app, id)
            case "fork":
                (info,) = await self._app.manager.store.conversations(conversation_id=id)
                await fork_from(self._app, id, info.event_count - 1 if event_id is None else event_id)
            case _:
                await show_conversation(self._app, id)
                if event_id is not None and self._app.tabs.current is not None:
                    await self.show_place(self._app.tabs.current, event_id)

    async def show_place(self, tab: Tab, event_id: int) -> None:
        """Have the event log's cursor on an event, and the chat where it was said."""
        for _page in range(BACK_PAGES):
            if not tab.oldest or tab.oldest <= event_id:
                break
            await tab.read_back()
        await go_to_event(self._app, tab, event_id)
        if self._app.tabs.current is tab:
            self._app.workspace.chat.go_to_event(event_id)

    # -- what the screen may do ----------------------------------------------------------------------------------------

    async def _standings(self, infos: Sequence[ConversationInfo]) -> Mapping[str, Standing]:
        from tui.sessions.session_rows import Standing

        assert self._app.manager is not None
        elsewhere = await self._app.manager.open_elsewhere([info.id for info in infos])
        tabs = {tab.id: tab for tab in self._app.tabs.all if not tab.is_replay}
        found: dict[str, Standing] = {}
        for info in infos:
            tab = tabs.get(info.id)
            is_here = tab is not None or self._app.manager.is_open(info.id)
            found[info.id] = Standing(is_here, info.id in elsewhere, tab.mark if tab is not None else None)
        return found

    async def _last_said(self, conversation_id: str) -> Sequence[tuple[str, str]]:
        from core.events import EventSource, MessageAction
        from core.store.reader import EventFilter

        assert self._app.manager is not None
        wanted = EventFilter(kinds=frozenset({"action:message"}))
        page = await self._app.manager.store.read(conversation_id, limit=SAID, newest=True, where=wanted)
        names = {EventSource.USER: _("you"), EventSource.AGENT: _("agent")}
        return [
            (names.get(envelope.source, str(envelope.source)), envelope.event.content[:SAID_CHARS])
            for envelope in page
            if isinstance(envelope.event, MessageAction)
        ]

    async def _rename_stored(self, conversation_id: str, title: str) -> None:
        assert self._app.manager is not None
        await self._app.manager.rename(conversation_id, title)
        for tab in self._app.tabs.all:
            if tab.id == conversation_id:
                self._app.wake(tab)

    async def _delete_stored(self, conversation_id: str, later: bool) -> None:
        from core.errors import UsageError

        assert self._app.manager is not None
        gone = {conversation_id, *(info.id for info in await self._app.manager.store.descendants(conversation_id))}
        tabs = [tab for tab in self._app.tabs.all if tab.id in gone]
        if any(tab.running for tab in tabs):
            raise UsageError(_("The agent is still working in this conversation. Stop it first, then delete it."))
        for tab in tabs:
            await self._app.tabs.drop(tab)
        await self._app.manager.delete(conversation_id, later=later)


ROWS = (
    Command("conv.manager", ("ctrl+s",), "Conversations", "Find, open, rename and delete conversations.",
            Group.CONVERSATIONS, leader="l", slash="sessions", run=lambda app: app.sessions.open()),
)  # fmt: skip
