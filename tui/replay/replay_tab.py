"""ReplayTab: a saved conversation as it was, beside the living ones. It can show and do nothing else.

It is made of a player, which reads, and of the same models as a living tab, which are fed the same events and bytes;
going elsewhere folds fresh ones. It has no session, and imports nothing that could act. State, cost and model are
those of the position. Loaded when the first replay opens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from core.events import AgentStateChangedObservation, Envelope, LLMMetrics, ModeAction
from core.replay.player import SPEEDS, Player
from core.replay.timeline import Highlights, Item, ReplayState
from tui.i18n import _
from tui.replay.transport_bar import Reel
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_status import Mark, mark_of_stored
from tui.workspace.footer import Facts
from tui.workspace.tab import Tab, short_title

if TYPE_CHECKING:
    from core.store.bookmarks import Bookmarks
    from core.store.conversations import ConversationInfo


ENOUGH_BLOCKS = 30
"""Of a chat: they fill every screen."""
PAGES_BACK = 3
"""That are read for them, where most events of a page are none that a chat shows."""


class ReplayTab(Tab):
    """A saved conversation. `run` does what the user wants of it; whoever shows it cancels that for another wish."""

    is_replay = True

    def __init__(
        self,
        player: Player,
        info: ConversationInfo,
        book: Bookmarks | None,
        wake: Callable[[ReplayTab], None],
        resources: AsyncExitStack,
    ) -> None:
        super().__init__(player, wake)
        self.player = player
        self.info = info
        self.playing = False
        """Whether it goes on by itself."""
        self.target: int | None = None
        """The event that it is on the way to."""
        self.marks: list[int] = []
        """Events that the user marked, in order."""
        self.signs = Highlights()
        self.hits: Sequence[int] = ()
        """Events in which was found what the user looks for, in order."""
        self.words = ""
        """What the user looks for; clean."""
        self._book = book
        self._state: Envelope | None = None
        self._mode: Envelope | None = None
        self._spent: LLMMetrics | None = None
        self._resources = resources

    # -- what the frame tells ------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def title(self) -> str:
        """That of the conversation; the mark before it says what it is."""
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
        """State, model, cost and answers as they were, and the mode that the user chose; the settings' is in no log."""
        state = self._state.event if self._state is not None else None
        mark, words = Mark.IDLE, _("starting")
        if isinstance(state, AgentStateChangedObservation):
            mark, words = mark_of_stored(str(state.agent_state))
        mode = self._mode.event if self._mode is not None else None
        spent = self._spent or LLMMetrics()
        usage = spent.accumulated_token_usage
        return Facts(
            mark=mark,
            state=words,
            model=sanitize_line(self.model_name, 40),
            context_used=usage.per_turn_token,
            context_window=usage.context_window,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
            estimated=usage.is_estimated,
            cost=spent.accumulated_cost,
            iteration=self.signs.answered(self.player.position.event),
            max_iterations=None,
            workspace=sanitize_line(self.info.workspace, 300),
            confirm_mode=mode.mode if isinstance(mode, ModeAction) and not mode.own else "",
        )

    @property
    def reel(self) -> Reel:
        """What the transport bar shows."""
        player, position = self.player, self.player.position
        here = self.hits.index(position.event) + 1 if position.event in self.hits else 0
        return Reel(
            position=position,
            playing=self.playing,
            speed=player.speed,
            skips_waiting=player.skips_waiting,
            turns=tuple(player.timeline.turns),
            errors=self.signs.errors,
            questions=self.signs.questions,
            marks=tuple(self.marks),
            hits=tuple(self.hits),
            words=self.words,
            hit=here,
        )

    @property
    def why_not(self) -> str:
        """Why nothing can be done in it, where that is not because it is over."""
        return ""

    # -- its life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the time line and the user's marks, and stand before the first event."""
        await self.player.open()
        if self._book is not None:
            self.marks = await asyncio.to_thread(self._book.read, self.id)

    async def read_signs(self) -> None:
        """Read what the log marks by itself; the bar shows it from then on."""
        self.signs = await self.player.timeline.highlights()
        self._wake()

    async def aclose(self) -> None:
        """Give the database free."""
        await self._resources.aclose()

    # -- going on ------------------------------------------------------------------------------------------------------

    @property
    def heading(self) -> int:
        """Where it is, or is on the way to."""
        return self.player.position.event if self.target is None else self.target

    async def run(self, folded: Callable[[], None]) -> None:
        """Go where the user wants it, then on from there if it plays. `folded` is told that the models are fresh ones.

        Cancelling leaves it where it is, between two events.
        """
        if self.target is not None:
            await self._go(self.target, folded)
            self.target = None
        if self.playing:
            await self.player.play(self._show)
            self.playing = False
        self._wake()

    async def _go(self, target: int, folded: Callable[[], None]) -> None:
        if target == self.player.position.event + 1:
            self._show(await self.player.next_event())
        elif target != self.player.position.event or not self.events.rows:
            self._fold(await self.player.seek(target))
            for _page in range(PAGES_BACK):
                if len(self.chat.blocks) < ENOUGH_BLOCKS:
                    await self.read_back()
            folded()

    def _show(self, items: Sequence[Item]) -> None:
        """Take in what comes next, as a living tab takes it."""
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

    def _fold(self, scene: ReplayState) -> None:
        """Have fresh models that show this moment."""
        wanted, plan_shown = self.events.filter, self.plan.shown
        self.reset_models()
        self.plan.shown = plan_shown
        self._oldest = None
        for item in scene.earlier:
            if isinstance(item, Envelope):
                for model in (self.browser, self.plan, self.terminal):
                    model.apply(item)
            else:
                self.terminal.apply_frame(item.frame)
        for item in scene.page:
            self._take(item)
        self._state, self._spent, self._mode = scene.state, scene.spent, scene.mode
        if wanted is not None:
            self.events.set_filter(wanted)
        self._wake()

    # -- what the user sets --------------------------------------------------------------------------------------------

    def set_speed(self, speed: float) -> None:
        """Play at the speed nearest to this one."""
        self.player.speed = min(SPEEDS, key=lambda one: max(one, speed) / min(one, speed))

    def change_speed(self, step: int) -> None:
        """Play faster or slower by one of the speeds."""
        index = SPEEDS.index(self.player.speed) + step
        self.player.speed = SPEEDS[min(max(0, index), len(SPEEDS) - 1)]

    async def toggle_mark(self) -> bool:
        """Mark the event of the position, or unmark it. Answers whether it is marked. Raises StoreError."""
        here = max(0, self.player.position.event)
        marked = here not in self.marks
        changed = sorted({*self.marks, here} if marked else {*self.marks} - {here})
        if self._book is not None:
            await asyncio.to_thread(self._book.write, self.id, changed)
        self.marks = changed
        self._wake()
        return marked

    def last(self) -> int:
        """The newest event."""
        return self.player.count - 1

    def after(self, events: Sequence[int]) -> int | None:
        """The first of these events after where it is, else the first of all; None without any."""
        return next((event for event in events if event > self.heading), events[0] if events else None)

    def before(self, events: Sequence[int]) -> int | None:
        """The last of these events before where it is, else the last of all; None without any."""
        return next((event for event in reversed(events) if event < self.heading), events[-1] if events else None)
