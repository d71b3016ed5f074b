"""The tabs of delegates: one for each that is at work, behind its parent's tab, closed when it is done.

A delegate asks its questions in its own tab.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.session.agent_session import AgentSession
    from core.store.conversations import ConversationInfo
    from tui.workspace.context import Context
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

    Each takes its delegates along. Returns the same order if there is no such tab.
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


class DelegateTabs:
    """Keeps the tabs of delegates in step with the delegates at work."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self._following = False

    def follow(self) -> None:
        """Open a tab for each delegate at work that has none, and close the tabs of those that are done."""
        if not self._following and (self._without_tab() or self._done()):
            self._following = True
            self._app.attempt(self._follow())

    async def _follow(self) -> None:
        tabs = self._app.tabs
        try:
            for parent, child in self._without_tab():
                await tabs.open(child, behind=parent)
            for tab in self._done():
                await tabs.drop(tab)
        finally:
            self._following = False
        if tabs.current is not None:
            self._app.wake(tabs.current)

    def _without_tab(self) -> Sequence[tuple[ConversationTab, AgentSession]]:
        tabs = self._app.tabs.conversations
        shown = {tab.id for tab in tabs}
        return [(tab, child) for tab in tabs for child in tab.session.delegates if child.info.id not in shown]

    def _done(self) -> Sequence[ConversationTab]:
        """Tabs of delegates that are done; the one that the user looks at stays until they look elsewhere."""
        tabs = self._app.tabs.conversations
        at_work = {child.info.id for tab in tabs for child in tab.session.delegates}
        return [tab for tab in tabs if tab.is_delegate and tab.id not in at_work and not tab.shown]
