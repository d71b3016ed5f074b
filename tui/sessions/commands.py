"""The session manager's place in the app: what it may do, and what its answers lead to. A mixin of the app.

The screen reads and asks; opening, replaying and whatever else leaves it is carried out from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.store.conversations import ConversationInfo
    from tui.sessions.session_rows import Standing
    from tui.sessions.session_search import Whereabouts, Wish
    from tui.workspace.tab import Tab


SAID = 6
"""Messages in a preview."""
SAID_CHARS = 600
BACK_PAGES = 40
"""Pages that the chat loads to come to an event; what is further back is shown in the event log alone."""


class SessionManager(Frame):
    """The session manager, as methods of the app."""

    _manager_place: Whereabouts | None = None
    """Where the user was in the session manager."""

    def do_conv_manager(self) -> None:
        self.attempt(self._manage())

    async def _manage(self) -> None:
        from tui.sessions.screen import SessionsScreen
        from tui.sessions.session_search import Ways, Whereabouts

        if self.manager is None:
            self.flash(_("Handloom is still starting."))
            return
        place = self._manager_place = self._manager_place or Whereabouts()
        store = self.manager.store
        ways = Ways(store, self._standings, self._last_said, store.index, self._rename_stored, self._delete_stored)
        here = self.current.folder if self.current is not None else self.options.workspace
        wish = await self.push_screen_wait(SessionsScreen(ways, here, place))
        if wish is not None:
            await self._grant(wish)

    async def _grant(self, wish: Wish) -> None:
        assert self.manager is not None
        id, event_id = wish.conversation_id, wish.event_id
        match wish.kind:
            case "replay":
                await self.open_replay(id, event_id)
            case "again":
                await self.run_again(id)
            case "export":
                await self.export_conversation(id)
            case "fork":
                (info,) = await self.manager.store.conversations(conversation_id=id)
                await self.fork_from(id, info.event_count - 1 if event_id is None else event_id)
            case _:
                await self.show_conversation(id)
                if event_id is not None and self.current is not None:
                    await self.show_place(self.current, event_id)

    async def show_place(self, tab: Tab, event_id: int) -> None:
        """Have the event log's cursor on an event, and the chat where it was said."""
        for _page in range(BACK_PAGES):
            if not tab.oldest or tab.oldest <= event_id:
                break
            await tab.read_back()
        await self.go_to_event(tab, event_id)
        if self.current is tab:
            self.workspace.chat.go_to_event(event_id)

    # -- what the screen may do ----------------------------------------------------------------------------------------

    async def _standings(self, infos: Sequence[ConversationInfo]) -> Mapping[str, Standing]:
        from tui.sessions.session_rows import Standing

        assert self.manager is not None
        elsewhere = await self.manager.open_elsewhere([info.id for info in infos])
        tabs = {tab.id: tab for tab in self.open_tabs if not tab.is_replay}
        found: dict[str, Standing] = {}
        for info in infos:
            tab = tabs.get(info.id)
            is_here = tab is not None or self.manager.is_open(info.id)
            found[info.id] = Standing(is_here, info.id in elsewhere, tab.mark if tab is not None else None)
        return found

    async def _last_said(self, conversation_id: str) -> Sequence[tuple[str, str]]:
        from core.events import EventSource, MessageAction
        from core.store.reader import EventFilter

        assert self.manager is not None
        wanted = EventFilter(kinds=frozenset({"action:message"}))
        page = await self.manager.store.read(conversation_id, limit=SAID, newest=True, where=wanted)
        names = {EventSource.USER: _("you"), EventSource.AGENT: _("agent")}
        return [
            (names.get(envelope.source, str(envelope.source)), envelope.event.content[:SAID_CHARS])
            for envelope in page
            if isinstance(envelope.event, MessageAction)
        ]

    async def _rename_stored(self, conversation_id: str, title: str) -> None:
        assert self.manager is not None
        await self.manager.rename(conversation_id, title)
        for tab in self.open_tabs:
            if tab.id == conversation_id:
                self.wake(tab)

    async def _delete_stored(self, conversation_id: str, later: bool) -> None:
        from core.errors import UsageError

        assert self.manager is not None
        gone = {conversation_id, *(info.id for info in await self.manager.store.descendants(conversation_id))}
        tabs = [tab for tab in self.open_tabs if tab.id in gone]
        if any(tab.running for tab in tabs):
            raise UsageError(_("The agent is still working in this conversation. Stop it first, then delete it."))
        for tab in tabs:
            await self.drop_tab(tab)
        await self.manager.delete(conversation_id, later=later)
