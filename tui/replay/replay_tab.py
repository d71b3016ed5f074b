"""ReplayTab shows a saved conversation; FollowTab shows one that another Handloom writes. Neither can act.

A ReplayTab has a player, which reads, and the same models as a live tab, fed with the same events and bytes; seeking
builds new models. It has no session, and imports nothing that could act. State, cost and model are those of the
position. A FollowTab is a replay that grows: at its end it shows new events as they come, elsewhere it stays. One
worker runs each tab, and commands of the user come before new events. Loaded when the first replay opens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from core.events import AgentStateChangedObservation, Envelope, LLMMetrics, ModeAction
from core.replay.player import SPEEDS, Player
from core.replay.timeline import NO_HIGHLIGHTS, Highlights, Item, ReplayState
from tui.commands import keyed
from tui.i18n import _
from tui.replay.transport_bar import TransportState
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_status import Mark, mark_of_stored
from tui.workspace.footer import Facts
from tui.workspace.tab import Tab, short_title

if TYPE_CHECKING:
    from core.replay.player import LogFollower, Owner
    from core.replay.timeline import Item
    from core.store.bookmarks import Bookmarks
    from core.store.conversations import ConversationInfo
    from tui.file_watcher import Watch

ENOUGH_BLOCKS = 30
"""Blocks of a chat that fill every screen."""
PAGES_BACK = 3
"""Pages that are read for them, because a chat does not show most events."""


class ReplayTab(Tab):
    """A saved conversation. `run` seeks and plays; a new command cancels it and runs it again."""

    is_replay = True

    def __init__(
        self,
        player: Player,
        info: ConversationInfo,
        bookmark_store: Bookmarks | None,
        wake: Callable[[ReplayTab], None],
        resources: AsyncExitStack,
    ) -> None:
        super().__init__(player, wake)
        self.player = player
        self.info = info
        self.playing = False
        self.target: int | None = None
        """The event that it is going to."""
        self.needs_rebuild = False
        """Whether the events were replaced, so that the position must be drawn again."""
        self.bookmarks: list[int] = []
        self.highlights = Highlights()
        self.hits: Sequence[int] = ()
        """Events that match `query`, in order."""
        self.query = ""
        """Sanitised."""
        self.forks: Callable[[int], Coroutine[Any, Any, None]] | None = None
        """How to go on from an event, if the conversation is not in our store."""
        self._bookmark_store = bookmark_store
        self._state: Envelope | None = None
        self._mode: Envelope | None = None
        self._spent: LLMMetrics | None = None
        self._resources = resources

    # -- facts ---------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def title(self) -> str:
        title = self.info.title or self.info.first_line
        name = short_title(title) or _("new conversation")
        return _("Replay: {title}").format(title=name)

    @property
    def folder(self) -> str:
        return self.info.workspace

    @property
    def model_name(self) -> str:
        return (self._spent.accumulated_token_usage.model if self._spent else "") or self.info.model

    @property
    def mark(self) -> Mark:
        return Mark.REPLAY

    @property
    def facts(self) -> Facts:
        """State, model, cost and iterations at the position, and the mode that the user chose."""
        state = self._state.event if self._state is not None else None
        mark, status = Mark.IDLE, _("starting")
        if isinstance(state, AgentStateChangedObservation):
            mark, status = mark_of_stored(str(state.agent_state))
        mode = self._mode.event if self._mode is not None else None
        spent = self._spent or LLMMetrics()
        usage = spent.accumulated_token_usage
        return Facts(
            mark=mark,
            state=status,
            model=sanitize_line(self.model_name, 40),
            context_used=usage.per_turn_token,
            context_window=usage.context_window,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
            estimated=usage.is_estimated,
            cost=spent.accumulated_cost,
            iteration=self.highlights.answered(self.player.position.event),
            max_iterations=None,
            workspace=sanitize_line(self.info.workspace, 300),
            confirm_mode=mode.mode if isinstance(mode, ModeAction) and not mode.own else "",
        )

    @property
    def transport_state(self) -> TransportState:
        """What the transport bar shows."""
        player, position = self.player, self.player.position
        here = self.hits.index(position.event) + 1 if position.event in self.hits else 0
        return TransportState(
            position=position,
            playing=self.playing,
            speed=player.speed,
            skips_waiting=player.skips_waiting,
            turns=tuple(player.timeline.turns),
            errors=self.highlights.errors,
            questions=self.highlights.questions,
            bookmarks=tuple(self.bookmarks),
            hits=tuple(self.hits),
            query=self.query,
            hit_number=here,
        )

    @property
    def read_only_reason(self) -> str:
        """Why commands are refused, if not because it is a replay."""
        return ""

    # -- life cycle ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the timeline and the bookmarks."""
        await self.player.open()
        if self._bookmark_store is not None:
            self.bookmarks = await asyncio.to_thread(self._bookmark_store.read, self.id)

    async def load_highlights(self) -> None:
        self.highlights = await self.player.timeline.highlights()
        self._wake()

    async def aclose(self) -> None:
        await self._resources.aclose()

    # -- playing -------------------------------------------------------------------------------------------------------

    @property
    def target_event(self) -> int:
        """The position, or the event that it is going to."""
        return self.player.position.event if self.target is None else self.target

    async def run(self, on_rebuilt: Callable[[], None]) -> None:
        """Go to the target, then play if wanted. `on_rebuilt` is called after the models were replaced.

        Cancelling leaves it between two events.
        """
        if self.target is not None:
            await self._seek(self.target, on_rebuilt)
            self.target = None
        if self.playing:
            await self.player.play(self._apply_items)
            self.playing = False
        self._wake()

    async def _seek(self, target: int, on_rebuilt: Callable[[], None]) -> None:
        if target == self.player.position.event + 1 and not self.needs_rebuild:
            self._apply_items(await self.player.next_event())
        elif target != self.player.position.event or not self.events.rows or self.needs_rebuild:
            self._rebuild(await self.player.seek(target))
            self.needs_rebuild = False
            for _page in range(PAGES_BACK):
                if len(self.chat.blocks) < ENOUGH_BLOCKS:
                    await self.read_back()
            on_rebuilt()

    def _apply_items(self, items: Sequence[Item]) -> None:
        """Apply the next items to the models."""
        for item in items:
            self._take(item)
        self._wake()

    def _take(self, item: Item) -> None:
        if not isinstance(item, Envelope):
            for model in self.models:
                model.apply_frame(item.frame)
            return
        if self._oldest is None:
            self._oldest = item.id
        for model in self.models:
            model.apply(item)
        if isinstance(item.event, AgentStateChangedObservation):
            self._state = item
        if isinstance(item.event, ModeAction):
            self._mode = item
        self._spent = getattr(item.event, "llm_metrics", None) or self._spent

    def _rebuild(self, state: ReplayState) -> None:
        """Replace the models by new ones that show this state."""
        wanted, plan_shown = self.events.filter, self.plan.shown
        self.reset_models()
        self.plan.shown = plan_shown
        self._oldest = None
        for item in state.earlier:
            if isinstance(item, Envelope):
                for model in (self.browser, self.plan, self.terminal):
                    model.apply(item)
            else:
                self.terminal.apply_frame(item.frame)
        for item in state.page:
            self._take(item)
        self._state, self._spent, self._mode = state.state, state.spent, state.mode
        if wanted is not None:
            self.events.set_filter(wanted)
        self._wake()

    # -- settings of the user ------------------------------------------------------------------------------------------

    def set_speed(self, speed: float) -> None:
        """Play at the available speed nearest to this one."""
        self.player.speed = min(SPEEDS, key=lambda one: max(one, speed) / min(one, speed))

    def change_speed(self, step: int) -> None:
        """Go up or down by so many of the available speeds."""
        index = SPEEDS.index(self.player.speed) + step
        self.player.speed = SPEEDS[min(max(0, index), len(SPEEDS) - 1)]

    async def toggle_bookmark(self) -> bool:
        """Add or remove a bookmark at the position. Returns whether there is one now. Raises StoreError."""
        here = max(0, self.player.position.event)
        marked = here not in self.bookmarks
        changed = sorted({*self.bookmarks, here} if marked else {*self.bookmarks} - {here})
        if self._bookmark_store is not None:
            await asyncio.to_thread(self._bookmark_store.write, self.id, changed)
        self.bookmarks = changed
        self._wake()
        return marked

    def last_event(self) -> int:
        return self.player.count - 1

    def next_of(self, events: Sequence[int]) -> int | None:
        """The first of these events after the position, else the first of all; None without any."""
        return next((event for event in events if event > self.target_event), events[0] if events else None)

    def previous_of(self, events: Sequence[int]) -> int | None:
        """The last of these events before the position, else the last of all; None without any."""
        return next((event for event in reversed(events) if event < self.target_event), events[-1] if events else None)


FRAME_S = 0.1
"""Pause between two batches of new events, for keys and drawing."""


class FollowTab(ReplayTab):
    """Another process's conversation. After `needs_refresh` is set, the next `run` reads new events."""

    def __init__(
        self,
        player: LogFollower,
        bookmark_store: Bookmarks | None,
        wake: Callable[[ReplayTab], None],
        resources: AsyncExitStack,
    ) -> None:
        super().__init__(player, player.info, bookmark_store, wake, resources)
        self.followed = player
        self.needs_refresh = True
        """Whether there may be new events."""
        self.watch: Watch | None = None
        """None if the system has no file notifications."""
        self.on_owner_change: Callable[[FollowTab, Owner | None], None] = lambda tab, before: None
        """Called with the previous owner when the owner changed or the conversation was deleted."""
        self.reported_free = False
        """Whether the user was told that it has no owner."""
        self.at_end = True
        """Whether new events are shown."""
        self.busy = False
        """Whether `run` is running, and will see `needs_refresh`."""
        self._highlights_upto = 0

    # -- facts ---------------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return _("Read: {title}").format(title=self.name)

    @property
    def name(self) -> str:
        """The conversation's title, which its owner may change; sanitised, one line."""
        return short_title(self.info.title or self.info.first_line) or _("new conversation")

    @property
    def mark(self) -> Mark:
        return self._current_state()[0]

    def _current_state(self) -> tuple[Mark, str]:
        """The mark and text of the newest state."""
        mark, status = mark_of_stored(self.info.state) if self.info.state else (Mark.IDLE, _("starting"))
        if mark is Mark.RUNNING and self.followed.owner is None:
            return Mark.IDLE, _("not open anywhere")
        return mark, status

    @property
    def facts(self) -> Facts:
        """As in a replay; at the end, the current state."""
        mark, status = self._current_state()
        return replace(super().facts, mark=mark, state=status) if self.at_end else super().facts

    @property
    def about_terminal(self) -> str:
        return _("output appears when a command ends") if self.followed.owner is not None else ""

    @property
    def read_only_reason(self) -> str:
        if self.followed.owner is None:
            return keyed(_("This tab is read-only. {replay.live} continues the conversation here."))
        text = _("It is open in {where}: answer and write there. This tab is read-only.")
        return text.format(where=self.describe_owner(self.followed.owner))

    @property
    def transport_state(self) -> TransportState:
        return replace(super().transport_state, follow_status=self._follow_status())

    @staticmethod
    def describe_owner(owner: Owner) -> str:
        """A process and its terminal, for the user."""
        text = _("process {pid}").format(pid=owner.pid)
        return f"{text} ({owner.terminal})" if owner.terminal else text

    def _follow_status(self) -> tuple[str, str]:
        """A glyph and text for the transport bar."""
        owner = self.followed.owner
        if self.followed.is_gone:
            return "✕", _("deleted")
        if owner is None:
            return "■", keyed(_("not open anywhere: {replay.live} continues it here"))
        at = self.describe_owner(owner)
        mark, status = self._current_state()
        if mark is Mark.WAITING and self.watch is not None:
            return mark.glyph, _("{state}: answer in {where}").format(state=status, where=at)
        if self.watch is None:
            return "‖", _("End loads new events from {where}").format(where=at)
        if not self.at_end:
            return "‖", _("End follows {where}").format(where=at)
        return "●", _("follows {where}").format(where=at)

    # -- life cycle ----------------------------------------------------------------------------------------------------

    async def load_highlights(self) -> None:
        """The highlights are updated while events are read."""

    async def aclose(self) -> None:
        """Stop watching, and close the database. May be called twice."""
        if self.watch is not None:
            self.watch.close()
            self.watch = None
        await super().aclose()

    def last_event(self) -> int:
        """The newest event, including those that were not read yet."""
        self.needs_refresh = True
        return super().last_event()

    async def run(self, on_rebuilt: Callable[[], None]) -> None:
        """As in a replay; then, at the end, show new events.

        Cancelling leaves it between two events; the next run reads the rest.
        """
        self.busy = True
        try:
            while await self._run_once(on_rebuilt) or self.needs_refresh:
                pass
        finally:
            self.busy = False

    async def _run_once(self, on_rebuilt: Callable[[], None]) -> bool:
        """One round of `run`. Returns whether there may be more."""
        if self.needs_refresh:
            await self._refresh()
        moves = self.target is not None or self.playing
        await super().run(on_rebuilt)
        if moves:
            self.at_end = self.player.position.is_end
        if self.at_end and (items := await self.followed.new_items()):
            self._apply_items(items)
            await asyncio.sleep(FRAME_S)
            return True
        await self._update_highlights()
        return False

    async def _refresh(self) -> None:
        """Read new facts; a tab that was going to the end goes to the new end."""
        followed, before, was_gone = self.followed, self.followed.owner, self.followed.is_gone
        to_end = self.target is not None and self.target >= followed.count - 1
        self.needs_refresh = False
        try:
            if await followed.refresh():
                self._show_anew()
        except BaseException:
            self.needs_refresh = True
            raise
        finally:
            if to_end:
                self.target = followed.count - 1
        self.info = followed.info
        if (before, was_gone) != (followed.owner, followed.is_gone):
            self.on_owner_change(self, before)
        self._wake()

    def _show_anew(self) -> None:
        """Have the next run show the position in the events that replaced the others."""
        if self.target is None:
            last = self.followed.count - 1
            self.target = last if self.at_end and not self.playing else min(self.player.position.event, last)
        self.needs_rebuild = True
        self.highlights, self._highlights_upto = NO_HIGHLIGHTS, 0
        self.hits, self.query = (), ""

    def _apply_items(self, items: Sequence[Item]) -> None:
        if not self.shown:
            self.unread = True
        super()._apply_items(items)

    async def _update_highlights(self) -> None:
        """Read the highlights of new events."""
        if self._highlights_upto < (count := self.followed.count):
            self.highlights = await self.followed.timeline.highlights(self.highlights, self._highlights_upto - 1)
            self._highlights_upto = count
            self._wake()
