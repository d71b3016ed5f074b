"""Replays on the screen: opened, played, gone through, searched, marked, left. A mixin of the app.

Each replay has one worker: what the user wants next cancels it and begins another, so a held key never waits in line.
Whatever acts on a conversation is refused here, in one place, with the reason.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from core.home import home_folder
from tui.commands import Command, keyed
from tui.dialogs.line_input import LineScreen
from tui.i18n import _
from tui.replay.follow_commands import take_over
from tui.replay.transport_bar import Transport
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.store.bookmarks import Bookmarks
    from core.store.conversations import ConversationInfo
    from core.store.reader import EventReader
    from tui.replay.follow_tab import FollowTab
    from tui.replay.replay_tab import ReplayTab
    from tui.workspace.tab import Tab

    T = TypeVar("T", bound=ReplayTab)


MOST_HITS = 1000
"""Places that a search finds; who has more looks for something else."""
WHY_NOT = _("This is a replay: it shows what was, and nothing can be done in it. b goes to the conversation.")
NO_WORKSPACE = _("Only a replay is open here, without models and sandboxes. Start `handloom` for that.")
NEEDS_WORKSPACE = frozenset(
    {"conv.new", "conv.manager", "conv.reopen", "conv.statistics", "conv.again", "app.settings"}
)
"""Commands that mean nothing where only a replay is open."""


class Replaying(Frame):
    """The commands for replays, as methods of the app."""

    @property
    def replay(self) -> ReplayTab | None:
        """The shown tab, where it is a replay."""
        from tui.replay.replay_tab import ReplayTab

        return self.current if isinstance(self.current, ReplayTab) else None

    # -- opening -------------------------------------------------------------------------------------------------------

    async def open_replay(
        self, conversation_id: str, event_id: int | None = None, *, home: Path | None = None, speed: float = 1.0
    ) -> None:
        """Show a saved conversation as it was: after an event and paused, else played from its beginning.

        `home` is that of the app unless the conversation is kept elsewhere. Raises HandloomError.
        """
        await asyncio.to_thread(import_module, "tui.replay.replay_tab")
        from core.replay.player import Player
        from tui.replay.replay_tab import ReplayTab

        tab = await self._opened(
            conversation_id,
            home or self._home,
            lambda reader, info, book, resources: ReplayTab(Player(reader, info.id), info, book, self.wake, resources),
        )
        tab.set_speed(speed)
        tab.playing = event_id is None
        self.replay_to(tab, event_id)
        self.attempt(tab.read_signs(), f"signs-{id(tab)}")

    async def open_followed(self, conversation_id: str) -> FollowTab:
        """Show a conversation that another process has open at its end, but do not read on. Raises HandloomError."""
        await asyncio.to_thread(import_module, "tui.replay.follow_tab")
        from core.replay.log_follower import LogFollower
        from tui.replay.follow_tab import FollowTab

        return await self._opened(
            conversation_id,
            self._home,
            lambda reader, info, book, resources: FollowTab(LogFollower(reader, info), book, self.wake, resources),
        )

    async def _opened(
        self,
        conversation_id: str,
        home: Path,
        make: Callable[[EventReader, ConversationInfo, Bookmarks, AsyncExitStack], T],
    ) -> T:
        """A new tab for a conversation of this home, shown. Raises HandloomError."""
        from core.errors import UsageError
        from core.store.bookmarks import Bookmarks
        from core.store.reader import EventReader

        async with AsyncExitStack() as stack:
            reader = await stack.enter_async_context(EventReader(home))
            found = await reader.conversations(conversation_id=conversation_id)
            if not found:
                told = f"There is no conversation {conversation_id}. `handloom list` shows all conversations."
                raise UsageError(told)
            resources = AsyncExitStack()
            tab = make(reader, found[0], Bookmarks(home), resources)
            await tab.start()
            resources.push_async_callback(stack.pop_all().aclose)
        self.open_tabs.append(tab)
        self.show_tab(tab)
        return tab

    @property
    def _home(self) -> Path:
        """Where the conversations of this app are kept."""
        return self.manager.store.home if self.manager is not None else self.options.home or home_folder(os.environ)

    def refuses(self, command: Command) -> str:
        """Why a command cannot be given here; empty where it can."""
        if self.options.replay is not None and command.id in NEEDS_WORKSPACE:
            return NO_WORKSPACE
        if not command.acts or self.current is None or not self.current.is_replay:
            return ""
        return (self.replay and self.replay.why_not) or WHY_NOT

    def do_replay_open(self) -> None:
        if self.current is not None and not self.current.is_replay:
            self.attempt(self.open_replay(self.current.id))
        elif self.current is not None:
            self.flash(_("This is a replay already."))

    # -- going ---------------------------------------------------------------------------------------------------------

    def replay_to(self, tab: ReplayTab, event_id: int | None = None) -> None:
        """Go to an event, where one is named, then on if it plays. Takes the place of what the tab was doing."""
        if event_id is not None:
            tab.target = max(-1, min(event_id, tab.player.count - 1))
        self.attempt(tab.run(lambda: self._folded(tab)), f"replay-{id(tab)}", exclusive=True)
        self.wake(tab)

    def _folded(self, tab: ReplayTab) -> None:
        """The tab's models are others."""
        if tab is self.current:
            self.workspace.show(tab)

    def leave_replay(self, tab: Tab) -> None:
        """End what a replay does, before its tab closes."""
        for group in ("replay", "signs"):
            self.workers.cancel_group(self, f"{group}-{id(tab)}")

    def _go(self, target: Callable[[ReplayTab], int | None], none: str = "", *, plays: bool = False) -> None:
        """Go where `target` says, and stand still there unless it `plays` on."""
        tab = self.replay
        if tab is None:
            return
        event = target(tab)
        if event is None:
            self.flash(none)
            return
        tab.playing = tab.playing and plays
        self.replay_to(tab, event)

    def do_replay_play(self) -> None:
        if (tab := self.replay) is None:
            return
        tab.playing = not tab.playing
        self.replay_to(tab, -1 if tab.playing and tab.player.position.is_end else None)

    def do_replay_next(self) -> None:
        self._go(lambda tab: tab.heading + 1)

    def do_replay_prev(self) -> None:
        self._go(lambda tab: tab.heading - 1)

    def do_replay_next_turn(self) -> None:
        self._go(
            lambda tab: next((turn for turn in tab.player.timeline.turns if turn > tab.heading), tab.player.count - 1)
        )

    def do_replay_prev_turn(self) -> None:
        self._go(lambda tab: next((turn for turn in reversed(tab.player.timeline.turns) if turn < tab.heading), 0))

    def do_replay_first(self) -> None:
        self._go(lambda tab: 0)

    def do_replay_last(self) -> None:
        self._go(lambda tab: tab.last())

    def on_transport_sought(self, message: Transport.Sought) -> None:
        """A digit, or a click on the line."""
        self._go(lambda tab: tab.player.at_fraction(message.fraction), plays=True)

    def do_replay_goto(self) -> None:
        tab = self.replay
        if tab is None:
            return
        count = tab.player.count

        def chosen(text: str | None) -> None:
            wanted = (text or "").strip()
            if (moment := seconds_of(wanted)) is not None:
                self._go(lambda tab: tab.player.at_offset(moment))
            elif (number := wanted.lstrip("#")[:18]).isascii() and number.isdigit() and 1 <= int(number) <= count:
                self._go(lambda tab: int(number) - 1)
            elif wanted:
                self.flash(_("There are the events 1 to {last}; a time is written as 12:45.").format(last=count))

        hint = _("1 to {last}, or a time since the beginning: 12:45").format(last=count)
        self.push_screen(LineScreen(_("Go to event"), hint), chosen)

    # -- pace ----------------------------------------------------------------------------------------------------------

    def do_replay_faster(self) -> None:
        self._pace_by(1)

    def do_replay_slower(self) -> None:
        self._pace_by(-1)

    def _pace_by(self, step: int) -> None:
        if (tab := self.replay) is not None:
            tab.change_speed(step)
            self.replay_to(tab)

    def do_replay_skip(self) -> None:
        if (tab := self.replay) is not None:
            tab.player.skips_waiting = not tab.player.skips_waiting
            self.replay_to(tab)

    # -- marks and search ----------------------------------------------------------------------------------------------

    def do_replay_mark(self) -> None:
        if (tab := self.replay) is not None:
            self.attempt(self._mark(tab))

    async def _mark(self, tab: ReplayTab) -> None:
        told = _("Event {n} is marked; ' goes to the next mark.") if await tab.toggle_mark() else _("The mark is gone.")
        self.flash(told.format(n=max(0, tab.player.position.event) + 1))

    def do_replay_next_mark(self) -> None:
        self._go(
            lambda tab: tab.after(tab.marks),
            keyed(_("Nothing is marked; {replay.mark} marks the event that is shown.")),
        )

    def do_replay_search(self) -> None:
        tab = self.replay
        if tab is None:
            return

        def chosen(text: str | None) -> None:
            if text is not None:
                self.attempt(self._search_replay(tab, text.strip()))

        hint = _('Words, word*, or "words side by side"')
        self.push_screen(LineScreen(_("Search this conversation"), hint, tab.words), chosen)

    async def _search_replay(self, tab: ReplayTab, words: str) -> None:
        tab.words = sanitize_line(words, 30)
        tab.hits = await tab.player.timeline.search(words, MOST_HITS) if words else ()
        self.wake(tab)
        if words:
            told = _("“{words}” is not in this conversation.").format(words=tab.words)
            self._go(lambda tab: tab.after(tab.hits), told)

    def do_replay_next_hit(self) -> None:
        self._go(lambda tab: tab.after(tab.hits), _("Nothing is looked for; / searches."))

    def do_replay_prev_hit(self) -> None:
        self._go(lambda tab: tab.before(tab.hits), _("Nothing is looked for; / searches."))

    # -- leaving -------------------------------------------------------------------------------------------------------

    def do_replay_live(self) -> None:
        if (tab := self.replay) is not None:
            self.attempt(self._to_live(tab))

    async def _to_live(self, tab: ReplayTab) -> None:
        from tui.replay.follow_tab import FollowTab

        if self.manager is None:
            self.flash(NO_WORKSPACE)
            return
        if isinstance(tab, FollowTab):
            await take_over(self, tab)
            return
        await self.show_conversation(tab.id)
        await self.drop_tab(tab)

    def do_replay_fork(self) -> None:
        tab = self.replay
        if tab is None:
            return
        if self.manager is None:
            self.flash(NO_WORKSPACE)
        elif tab.player.position.event < 0:
            self.flash(_("Nothing has happened yet. Go to the event from which to begin."))
        else:
            self.attempt(self.fork_from(tab.id, tab.player.position.event))


def seconds_of(text: str) -> int | None:
    """Seconds of a time such as 0:07, 12:45 or 1:02:03; None where it is none."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total
