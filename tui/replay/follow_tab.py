"""FollowTab: a conversation that another Handloom has open, read along as it goes on. It can show and do nothing else.

It is a replay that grows: who stands at its end sees what comes, as a living tab shows it; who went back stands still.
Its mark and its state are those of the conversation. One worker runs it, as every replay: nothing is read twice at the
same time, and what the user wants comes before what has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.commands import keyed
from tui.i18n import _
from tui.replay.replay_tab import ReplayTab
from tui.replay.transport_bar import Reel
from tui.workspace.conversation_status import Mark, mark_of_stored
from tui.workspace.footer import Facts
from tui.workspace.tab import short_title

if TYPE_CHECKING:
    from core.replay.log_follower import LogFollower, Owner
    from core.replay.timeline import Item
    from core.store.bookmarks import Bookmarks
    from tui.file_watcher import Watch

FRAME_S = 0.1
"""Between two pieces of much that has come: keys are heard and frames are drawn meanwhile."""


class FollowTab(ReplayTab):
    """Another process's conversation. `rung` has the next `run` look what has come."""

    def __init__(
        self,
        player: LogFollower,
        book: Bookmarks | None,
        wake: Callable[[ReplayTab], None],
        resources: AsyncExitStack,
    ) -> None:
        super().__init__(player, player.info, book, wake, resources)
        self.followed = player
        self.rung = True
        """Whether there may be something that was not read."""
        self.watch: Watch | None = None
        """What rings; None where the system has nothing that could, and only the user does."""
        self.on_owner: Callable[[FollowTab, Owner | None], None] = lambda tab, before: None
        """Told when another process has it, or none, or it was deleted; and which had it before."""
        self.said_free = False
        """Whether the user was told that nobody has it."""
        self.at_end = True
        """Whether what comes is shown."""
        self.busy = False
        """Whether `run` is at work, and sees by itself that it was `rung`."""
        self._signs_upto = 0

    # -- what the frame tells ------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return _("Read: {title}").format(title=self.name)

    @property
    def name(self) -> str:
        """That of the conversation, which its owner may change; clean, one line."""
        return short_title(self.info.title or self.info.first_line) or _("new conversation")

    @property
    def mark(self) -> Mark:
        """As it is now, wherever the reader stands."""
        return self._now()[0]

    def _now(self) -> tuple[Mark, str]:
        """The mark and the words of its newest state."""
        mark, words = mark_of_stored(self.info.state) if self.info.state else (Mark.IDLE, _("starting"))
        if mark is Mark.RUNNING and self.followed.owner is None:
            return Mark.IDLE, _("open nowhere")
        return mark, words

    @property
    def facts(self) -> Facts:
        """As of a replay; at the end as it is now."""
        mark, words = self._now()
        return replace(super().facts, mark=mark, state=words) if self.at_end else super().facts

    @property
    def about_terminal(self) -> str:
        return _("output comes once a command ends") if self.followed.owner is not None else ""

    @property
    def why_not(self) -> str:
        if self.followed.owner is None:
            return keyed(_("Here it can only be read. {replay.live} goes on with it here."))
        text = _("{where} has it open: answer it and write to it there. Here it can only be read.")
        return text.format(where=self.where(self.followed.owner))

    @property
    def reel(self) -> Reel:
        return replace(super().reel, follows=self._follows())

    @staticmethod
    def where(owner: Owner) -> str:
        """A process and its terminal, as the user finds them."""
        text = _("process {pid}").format(pid=owner.pid)
        return f"{text} ({owner.terminal})" if owner.terminal else text

    def _follows(self) -> tuple[str, str]:
        """A glyph and the words that stand first on the bar."""
        owner = self.followed.owner
        if self.followed.is_gone:
            return "✕", _("it was deleted")
        if owner is None:
            return "■", keyed(_("open nowhere: {replay.live} goes on with it here"))
        at = self.where(owner)
        mark, words = self._now()
        if mark is Mark.WAITING and self.watch is not None:
            return mark.glyph, _("{state}: answer in {where}").format(state=words, where=at)
        if self.watch is None:
            return "‖", _("End reads what is new from {where}").format(where=at)
        if not self.at_end:
            return "‖", _("End follows {where}").format(where=at)
        return "●", _("follows {where}").format(where=at)

    # -- its life ------------------------------------------------------------------------------------------------------

    async def read_signs(self) -> None:
        """They come with the events."""

    async def aclose(self) -> None:
        """Hear no bell any more, and give the database free. May be called twice."""
        if self.watch is not None:
            self.watch.close()
            self.watch = None
        await super().aclose()

    def last(self) -> int:
        """The newest event, also of those that nobody has read yet."""
        self.rung = True
        return super().last()

    async def run(self, folded: Callable[[], None]) -> None:
        """As a replay does it; then show what has come since, where it stands at the end.

        Cancelling leaves it between two events; what was not read is read with the next run.
        """
        self.busy = True
        try:
            while await self._run_once(folded) or self.rung:
                pass
        finally:
            self.busy = False

    async def _run_once(self, folded: Callable[[], None]) -> bool:
        """One round of that. Answers whether there may be more."""
        if self.rung:
            await self._look()
        moves = self.target is not None or self.playing
        await super().run(folded)
        if moves:
            self.at_end = self.player.position.is_end
        if self.at_end and (items := await self.followed.new_items()):
            self._show(items)
            await asyncio.sleep(FRAME_S)
            return True
        await self._note_signs()
        return False

    async def _look(self) -> None:
        """Read on; whoever was on the way to the end is on the way to the new one."""
        followed, before, was_gone = self.followed, self.followed.owner, self.followed.is_gone
        to_end = self.target is not None and self.target >= followed.count - 1
        self.rung = False
        try:
            await followed.refresh()
        except BaseException:
            self.rung = True
            raise
        finally:
            if to_end:
                self.target = followed.count - 1
        self.info = followed.info
        if (before, was_gone) != (followed.owner, followed.is_gone):
            self.on_owner(self, before)
        self._wake()

    def _show(self, items: Sequence[Item]) -> None:
        if not self.shown:
            self.unread = True
        super()._show(items)

    async def _note_signs(self) -> None:
        """Have the marks of the log as far as the log is known."""
        if self._signs_upto < (count := self.followed.count):
            self.signs = await self.followed.timeline.highlights(self.signs, self._signs_upto - 1)
            self._signs_upto = count
            self._wake()
