"""Tabs: the open conversations and replays, which of them is shown, and how they are opened, moved and closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from tui.delegation.delegate_tabs import moved, place_behind
from tui.i18n import _

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession
    from tui.workspace.context import Context
    from tui.workspace.conversation import ConversationTab
    from tui.workspace.tab import Tab


def confirm_stop(app: Context, working: Sequence[Tab], verb: str, then: Callable[[], object]) -> None:
    """Call `then`, after a question if agents are working in these tabs."""
    if not working:
        then()
        return
    from tui.dialogs.dialog import SureScreen

    names = _(", ").join(_("“{title}”").format(title=tab.title) for tab in working)
    question = _("The agent is still working in {names}. It will be stopped; what it did is kept.")

    def chosen(yes: bool | None) -> None:
        if yes:
            then()

    app.push_screen(SureScreen(question.format(names=names), verb), chosen)


class Tabs:
    """The tabs of the workspace."""

    def __init__(self, app: Context, on_shown: Callable[[Tab | None], None]) -> None:
        """`on_shown` draws the tab that was brought to the front."""
        self._app, self._on_shown = app, on_shown
        self.all: list[Tab] = []
        """In the order of the tab bar."""
        self.current: Tab | None = None
        """The tab that is shown."""
        self.previous: Tab | None = None
        """The one that was shown before."""
        self._closed_ids: list[str] = []
        """The ids of closed conversations, the latest last."""

    @property
    def conversation(self) -> ConversationTab | None:
        """The current tab if it is an open conversation; None for a replay."""
        return None if self.current is None or self.current.is_replay else cast("ConversationTab", self.current)

    @property
    def conversations(self) -> list[ConversationTab]:
        """The tabs that are open conversations."""
        return [cast("ConversationTab", tab) for tab in self.all if not tab.is_replay]

    @property
    def folder(self) -> str:
        """The folder of the current tab; without a tab, the workspace folder."""
        return self.current.folder if self.current is not None else self._app.options.workspace

    # -- opening and showing -------------------------------------------------------------------------------------------

    async def add(self, session: AgentSession) -> None:
        """Show a session, in a new tab if it has none."""
        tab = await self.open(session)
        self.show(tab)
        self._app.submission.send_early(tab)

    async def open(self, session: AgentSession, behind: Tab | None = None) -> ConversationTab:
        """The tab of a session, created if there is none, but not shown."""
        from tui.workspace.conversation import ConversationTab

        known = next((tab for tab in self.conversations if tab.id == session.info.id), None)
        if known is None:
            known = ConversationTab(session, self._app.wake, self._app.clock, level=behind.level + 1 if behind else 0)
            self.all.insert(place_behind(self.all, behind), known)
            if self._app.manager is not None:
                await self._app.manager.attach(session.info.id)
            await known.start()
        return known

    def show(self, tab: Tab | None) -> None:
        """Bring a tab to the front; None if no tab is left."""
        if tab is not self.current:
            self.previous = self.current
        self.current = tab
        self._on_shown(tab)

    def show_number(self, digit: str) -> None:
        if int(digit) <= len(self.all):
            self._go_to(self.all[int(digit) - 1])
        else:
            self._app.flash(_("There is no tab {digit}.").format(digit=digit))

    def show_index(self, index: int) -> None:
        """Show the tab at this index, if there is one."""
        if 0 <= index < len(self.all):
            self._go_to(self.all[index])

    def step(self, step: int) -> None:
        """Show the next tab, or with -1 the one before; after the last comes the first."""
        if self.current is not None:
            self._go_to(self.all[(self.all.index(self.current) + step) % len(self.all)])

    def _go_to(self, tab: Tab) -> None:
        """Show a tab that the user chose; what flashed was about the one before."""
        if tab is not self.current:
            self._app.flash("")
        self.show(tab)

    def move(self, step: int) -> None:
        """Move the current tab to the right, or with -1 to the left."""
        if self.current is not None:
            order = moved([tab.level for tab in self.all], self.all.index(self.current), step)
            self.all[:] = [self.all[index] for index in order]
            self._app.wake(self.current)

    # -- closing -------------------------------------------------------------------------------------------------------

    def close_index(self, index: int) -> None:
        """Close the tab at this index, if there is one."""
        if 0 <= index < len(self.all):
            self.close(self.all[index])

    def close(self, tab: Tab) -> None:
        """Close a tab, after a question if its agent works."""
        working = [tab] if tab.running else []
        confirm_stop(self._app, working, _("close"), lambda: self._app.attempt(self._close(tab)))

    async def _close(self, tab: Tab) -> None:
        if tab not in self.all:
            return
        await self.drop(tab)
        manager = self._app.manager
        if manager is not None and not tab.is_replay and not tab.is_delegate:  # its parent ends a delegate
            if tab.is_unused:
                await manager.delete(tab.id)
            else:
                self._closed_ids.append(tab.id)
                await manager.close(tab.id)

    async def drop(self, tab: Tab) -> None:
        """Remove a tab without closing its conversation."""
        index = self.all.index(tab)
        self.all.remove(tab)
        other_side = self._app.workspace.leave_split(tab)
        if self.current is tab:
            self.show(other_side or (self.all[min(index, len(self.all) - 1)] if self.all else None))
        elif self.current is not None:
            self._app.wake(self.current)  # the tab bar has changed
        for group in tab.work_groups:
            self._app.cancel(group)
        await tab.aclose()
        if self._app.manager is not None and not tab.is_replay:
            self._app.manager.detach(tab.id)

    async def reopen(self) -> None:
        """Open the conversation of the tab that was closed last."""
        if self._app.manager is None or not self._closed_ids:
            self._app.flash(_("No tab was closed."))
            return
        await self.add(await self._app.manager.open(self._closed_ids.pop()))
