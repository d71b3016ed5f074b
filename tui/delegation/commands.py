"""Delegates on the screen: a tab for each at work, behind its parent's, gone when it is done. A mixin of the app.

What a delegate asks is asked in its tab, so a conversation that is shown is one that somebody attends to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession
    from core.store.conversations import ConversationInfo
    from tui.workspace.conversation import ConversationTab
    from tui.workspace.tab import Tab


def as_tree(conversations: Sequence[ConversationInfo]) -> list[tuple[int, ConversationInfo]]:
    """Conversations with their level, each behind the one that delegated to it; else in the order that they have."""
    ids = {info.id for info in conversations}
    children: dict[str, list[ConversationInfo]] = {}
    for info in conversations:
        children.setdefault(info.parent if info.parent in ids else "", []).append(info)
    found: list[tuple[int, ConversationInfo]] = []

    def add(parent: str, level: int) -> None:
        for info in children.get(parent, ()):
            found.append((level, info))
            add(info.id, level + 1)

    add("", 0)
    return found


def place_behind(tabs: Sequence[Tab], parent: Tab | None) -> int:
    """Where a new tab belongs: behind its parent and all that the parent has begun; without one, at the end."""
    if parent is None:
        return len(tabs)
    place = tabs.index(parent) + 1
    while place < len(tabs) and tabs[place].level > parent.level:
        place += 1
    return place


def moved(levels: Sequence[int], index: int, step: int) -> list[int]:
    """The order of tabs once one has changed places with the next (`step` 1) or the one before (-1) of its level.

    Each takes along what it has begun. The order as it was where there is none.
    """

    def end(start: int) -> int:
        after = start + 1
        while after < len(levels) and levels[after] > levels[start]:
            after += 1
        return after

    order = list(range(len(levels)))
    first, middle = index, end(index)
    if step < 0:
        first, middle = index - 1, index
        while first >= 0 and levels[first] > levels[index]:
            first -= 1
    if first < 0 or middle >= len(levels) or levels[first] != levels[middle]:
        return order
    last = end(middle)
    return [*order[:first], *order[middle:last], *order[first:middle], *order[last:]]


class Delegates(Frame):
    """Keeps the tabs of delegates in step with what is at work."""

    _following = False

    def follow_delegates(self) -> None:
        """See to it that every delegate at work has its tab, and that none is left of those that are done."""
        if not self._following and (self._without_tab() or self._done()):
            self._following = True
            self.attempt(self._follow())

    async def _follow(self) -> None:
        try:
            for parent, child in self._without_tab():
                await self.open_tab(child, behind=parent)
            for tab in self._done():
                await self.drop_tab(tab)
        finally:
            self._following = False
        if self.current is not None:
            self.wake(self.current)

    def _without_tab(self) -> Sequence[tuple[ConversationTab, AgentSession]]:
        shown = {tab.id for tab in self.living_tabs}
        return [
            (tab, child) for tab in self.living_tabs for child in tab.session.delegates if child.info.id not in shown
        ]

    def _done(self) -> Sequence[ConversationTab]:
        """Tabs of delegates that are done; the one that the user looks at stays until they look elsewhere."""
        at_work = {child.info.id for tab in self.living_tabs for child in tab.session.delegates}
        return [tab for tab in self.living_tabs if tab.is_delegate and tab.id not in at_work and not tab.shown]
