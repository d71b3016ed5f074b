"""HandloomApp: the frame. Opens, holds the tabs, lets the panes draw, and closes everything behind itself.

The first frame needs Textual and the views; whatever knows events, sessions or models is imported after it, in a
thread. One pump, at its pace (`tui.workspace.frame_rate`) and only while something changed, brings what the shown tab's
models hold to the panes; hidden tabs cost nothing. What goes wrong in the background is told in one message, and the
app stays usable.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer

from tui.chat.view import ChatView
from tui.cli.options import StartOptions
from tui.commands import BY_ID, COMMANDS, Scope, by_leader, keyed
from tui.delegation.commands import place_behind
from tui.dialogs.choice_dialog import GuardedScreen
from tui.dialogs.key_guard import LastKey
from tui.i18n import _
from tui.plan.plan_approval import waits_for_approval
from tui.prompt import Prompt
from tui.shortcuts.leader import MORE, STRIP_AFTER_S, TIMEOUT_S, WhichKey
from tui.terminal_io import strip_filter
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.terminal_io.textual_patches import closed_terminal, escape_bursts, render_cache, terminal_replies
from tui.workspace.crash import Failing
from tui.workspace.footer import Facts
from tui.workspace.frame_rate import Pace
from tui.workspace.handlers import Handlers
from tui.workspace.layout import PANES
from tui.workspace.outside import SURROUNDINGS_CSS
from tui.workspace.screen import Workspace
from tui.workspace.tab_bar import TabItem, TabStrip

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.errors import HandloomError
    from core.session.agent_session import AgentSession
    from tui.workspace.conversation import ConversationTab
    from tui.workspace.tab import Tab

log = logging.getLogger(__name__)

FLASH_S = 3.0
AFTER_FIRST_FRAME = ("core.events", "core.errors", "core.stream", "tui.workspace.conversation", "tui.approval.question")
"""Imported in a thread, so that the first frame neither waits for pydantic nor stalls over it."""
TYPED_S = 0.5
"""For how long a key waits for the widget that has those before it: one that hangs does not hold the commands."""
ALWAYS_POSSIBLE = frozenset({"app.redraw"})
"""Commands that also answer while a dialog is up."""


class HandloomApp(Failing, Handlers, App[None], inherit_bindings=False):
    """The workspace as a program. Without Textual's own keys: those to quit with are the table's."""

    TITLE = "Handloom"
    CSS = SURROUNDINGS_CSS
    ENABLE_COMMAND_PALETTE = False  # ours is bound by the table
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(c.keys), f"command('{c.id}')", c.title, show=False, priority=True, id=c.id)
        for c in COMMANDS
        if c.keys and not c.native
    ]

    def __init__(
        self,
        connect: Callable[[], Awaitable[ConversationManager]],
        options: StartOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        strip_filter.install()  # before anything can be drawn
        terminal_replies.install()
        escape_bursts.install()
        closed_terminal.install()
        render_cache.install()
        super().__init__()
        self.options = options
        self.prepare_look()
        self.prepare_outside()
        self.manager: ConversationManager | None = None
        self.open_tabs: list[Tab] = []
        self.current: Tab | None = None
        self.workspace = Workspace(clock, self.serve_prompt)
        self.clock = clock
        self._connect = connect
        self.is_starting = True
        self.connected = asyncio.Event()
        """Set once there is a manager."""
        self._pump_timer: Timer | None = None
        self._pace = Pace()
        self._elapsed_timer: Timer | None = None
        self._leader_timers: list[Timer] = []
        self._flash_timer: Timer | None = None
        self._asked: tuple[str, object] | None = None
        self._typed_early: list[events.Key] | None = []
        """Keys from before there was anything that could take them; None from the first frame on."""
        self.last_key = LastKey()
        self.workspace.last_key = lambda: self.last_key

    # -- opening and closing -------------------------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """The workspace is the only screen that is always there."""
        return self.workspace

    def on_mount(self) -> None:
        """Take the theme; what is slower waits until the first frame is out."""
        problems = [*self.begin_theme(), *self.begin_keys()]
        self.begin_title()
        self.end_with_signals()
        self._elapsed_timer = self.set_interval(1.0, self._wake_current, pause=True)
        self.call_after_refresh(self.begin, problems)

    def begin(self, problems: list[str]) -> None:
        """Called once, when the first frame is on the screen."""
        self.call_later(self._hear_early)
        if problems:
            self.report("\n".join(problems))
        self.watch_themes()
        self.attempt(self._begin())

    async def _begin(self) -> None:
        for module in AFTER_FIRST_FRAME:
            await asyncio.to_thread(import_module, module)
        from core.errors import ConfigurationError, HandloomError, UsageError

        try:
            if (replay := self.options.replay) is not None:
                await self.open_replay(replay.conversation_id, home=replay.home, speed=replay.speed)
                return
            self.manager = await self._connect()
        except HandloomError as error:
            self.leave(error)
            return
        self.connected.set()
        try:
            await self._open_first()
            self.attempt(self.hurry_terminals())
        except (ConfigurationError, UsageError) as error:
            if self.options.model is None:
                raise  # told on the screen, where another model can be chosen
            self.leave(error)
        finally:
            self.is_starting = False

    def leave(self, error: HandloomError) -> None:
        """End at the start: without a store, or with a model that cannot be used, there is nothing to show."""
        self.exit(return_code=2, message=f"handloom: {sanitize(str(error))}")

    async def on_unmount(self) -> None:
        """Close every conversation, whichever way the app ends."""
        self.end_pictures()
        self.end_title()
        self.keep_last_words()
        self.unwatch_themes()
        for tab in self.open_tabs:
            self.leave_replay(tab)
            await tab.aclose()
        if self.manager is not None:
            await self.manager.aclose()

    def attempt(self, work: Coroutine[Any, Any, None], group: str = "default", *, exclusive: bool = False) -> None:
        """Do something in the background; what goes wrong is told, and the app goes on.

        If it is exclusive, what is under way in its group is cancelled.
        """
        attempt = self._attempt(work)
        task = self.run_worker(attempt, group=group, exclusive=exclusive, exit_on_error=False)._task
        if task is not None:  # one that is cancelled before it begins would leave both as never awaited
            task.add_done_callback(lambda _: (attempt.close(), work.close()))

    async def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        # The boundary between what the user asked for and the frame: nothing below may take the screen down.
        try:
            await work
        except Exception as error:
            errors = await asyncio.to_thread(import_module, "core.errors")
            if isinstance(error, errors.HandloomError):
                self.report(str(error))
            else:
                log.exception("a command failed")
                told = _("Handloom made a mistake ({error}). What was stored is safe; try again, or restart.")
                self.report(told.format(error=f"{type(error).__name__}: {error}"))

    def report(self, message: str) -> None:
        """Tell what went wrong and what to do next, until Esc."""
        self.workspace.notice.tell(sanitize(message))

    def flash(self, message: str) -> None:
        """Tell for three seconds what was done."""
        self.workspace.flash(sanitize_line(message, 200))
        if self._flash_timer is not None:
            self._flash_timer.stop()
        self._flash_timer = self.set_timer(FLASH_S, self._end_flash)

    def _end_flash(self) -> None:
        if self.is_running:  # at the end the parts of the screen go one by one
            self.workspace.flash("")

    # -- tabs ----------------------------------------------------------------------------------------------------------

    async def add_tab(self, session: AgentSession) -> None:
        """Show a session in a tab of its own, or the tab that has it already."""
        known = await self.open_tab(session)
        self.show_tab(known)
        self.say_early(known)

    @property
    def living(self) -> ConversationTab | None:
        """The shown tab, where something can be done in it; None for a replay."""
        return None if self.current is None or self.current.is_replay else cast("ConversationTab", self.current)

    @property
    def living_tabs(self) -> list[ConversationTab]:
        """The open tabs in which something can be done."""
        return [cast("ConversationTab", tab) for tab in self.open_tabs if not tab.is_replay]

    async def open_tab(self, session: AgentSession, behind: Tab | None = None) -> ConversationTab:
        """A tab for a session, not shown yet; the one that has it already, where there is one."""
        from tui.workspace.conversation import ConversationTab

        known = next((tab for tab in self.living_tabs if tab.id == session.info.id), None)
        if known is None:
            known = ConversationTab(session, self.wake, self.clock, level=behind.level + 1 if behind else 0)
            self.open_tabs.insert(place_behind(self.open_tabs, behind), known)
            if self.manager is not None:
                await self.manager.attach(session.info.id)
            await known.start()
        return known

    def show_tab(self, tab: Tab | None) -> None:
        """Bring a tab to the front; None shows that there is none."""
        if tab is not self.current:
            self._before = self.current
        self.current = tab
        self._asked = None
        self.workspace.ask(None)
        self.workspace.show(tab)
        self._pump()

    def wake(self, tab: Tab) -> None:
        """Something changed in this tab: see to it in the next frame."""
        if self._pump_timer is None and self.is_running:
            delay = self._pace.wait_s(self.clock(), self.workspace.typed_at)
            self._pump_timer = self.set_timer(delay or 0.001, self._pump)

    def period_s(self) -> float:
        """The time between two frames now."""
        return self._pace.period_s(self.clock(), self.workspace.typed_at)

    def _wake_current(self) -> None:
        if self.current is not None:
            self.wake(self.current)

    def _pump(self) -> None:
        """One frame: tabs and footer, and what the shown tab's panes have to draw."""
        if self._pump_timer is not None:
            self._pump_timer.stop()
            self._pump_timer = None
        if not self.is_running:  # the parts go one by one at the end
            return
        self._pace.drawn(self.clock(), time.thread_time())
        tab = self.current
        self.follow_delegates()
        beside = self.workspace.beside
        items = tuple(TabItem("└ " * bool(t.level) + t.title, t.mark, t.unread, t is beside) for t in self.open_tabs)
        self.workspace.tabs.show(items, self.open_tabs.index(tab) if tab else -1)
        if tab is None:
            self.workspace.footer.show(Facts(state=_("no conversation"), workspace=sanitize(self.options.workspace)))
            return
        for shown in filter(None, (tab, beside)):
            shown.note_state()
        self.show_who_has_terminal()
        more = self.workspace.sync()
        self.workspace.footer.show(tab.facts)
        if self.living is not None:
            self._ask(self.living)
        self.workspace.queue.tell([sanitize_line(text, 200) for text in tab.queued])
        self.title = self.title_for(tab)
        self.tell_who_is_away()
        if self._elapsed_timer is not None:
            (self._elapsed_timer.resume if tab.running else self._elapsed_timer.pause)()
        if more:
            self.wake(tab)

    # -- questions -----------------------------------------------------------------------------------------------------

    def _ask(self, tab: ConversationTab) -> None:
        """Show the question of the state that the conversation is in, and no other."""
        state = tab.session.state
        asked: tuple[str, object] | None = None
        if state.halt is not None:
            asked = ("halt", state.halt)
        elif state.awaiting is not None:
            asked = ("action", state.awaiting)
        elif waits_for_approval(state, tab):
            asked = ("plan", tab.plan.version)
        if asked == self._asked:
            return
        self._asked = asked
        if asked is not None:
            self.leave_copy_mode()  # a question that nobody sees looks like a program that hangs
        match asked:
            case None:
                self.workspace.ask(None)
            case ("halt", _halt):
                self.show_halt(state)
            case ("plan", _version):
                self.show_plan(tab)
            case (_kind, int(action_id)):
                self.attempt(self._ask_about(tab, action_id))

    async def _ask_about(self, tab: ConversationTab, action_id: int) -> None:
        """Show the question about an action, unless something else is asked by then."""
        found = await self.asked_about(tab, action_id)
        if found is not None and self.current is tab and self._asked == ("action", action_id):
            self.show_question(*found)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A command's key answers only in its scope, and not under a dialog."""
        if action != "command":
            return super().check_action(action, parameters)
        command = BY_ID[str(parameters[0])]
        if self.screen is not self.workspace:
            return command.id in ALWAYS_POSSIBLE
        scope = self.workspace.scope
        match command.scope:
            case Scope.GLOBAL:
                return True
            case Scope.EMPTY_PROMPT:
                return scope is Scope.PROMPT and not self.workspace.prompt.text
            case Scope.LIST:
                return scope in (Scope.LIST, Scope.CHAT, Scope.EVENTS, Scope.BROWSER)
            case _:
                return scope is command.scope

    async def action_command(self, command_id: str) -> None:
        """Carry out a command of the table."""
        await self.do(command_id)

    async def do(self, command_id: str, argument: str = "") -> None:
        """Carry out a command by its id; `argument` is the digit of a tab, or the words behind a command's name."""
        if refusal := self.refuses(BY_ID[command_id]):
            self.flash(refusal)
            return
        method = getattr(self, BY_ID[command_id].method)
        takes = command_id == "conv.goto" or BY_ID[command_id].words
        result = method(argument) if takes else method()
        if asyncio.iscoroutine(result):
            await result

    @property
    def leader_armed(self) -> bool:
        """Whether the next key belongs to the leader."""
        return bool(self._leader_timers)

    def arm_leader(self, *, revealed: bool = False) -> None:
        """Take the next key as the second one of a command; `revealed` leaves the strip as it is."""
        for timer in self._leader_timers:
            timer.stop()
        self._leader_timers = [self.set_timer(TIMEOUT_S, self.disarm_leader)]
        if not revealed:
            strip = self.workspace.query_one(WhichKey)
            self._leader_timers.append(strip.set_timer(STRIP_AFTER_S, self._reveal_leader))  # which ends with it

    def _reveal_leader(self) -> None:
        if self.leader_armed:  # a timer that has fired may be heard after it was stopped
            self.workspace.query_one(WhichKey).reveal()

    def disarm_leader(self) -> None:
        """Keys mean what they always mean again."""
        for timer in self._leader_timers:
            timer.stop()
        self._leader_timers = []
        self.workspace.query_one(WhichKey).hide()

    async def on_event(self, event: events.Event) -> None:
        """The key after the leader goes nowhere else, nor does one for the terminal that the user has."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            if self._typed_early is not None:
                self._typed_early.append(event)
                return
            if self.key_to_terminal(event):
                return
            if not event.is_printable:
                await self._typed_before()
            self.last_key = LastKey(event.key, self.clock())
        if isinstance(event, events.Key) and self.leader_armed and not event.is_forwarded:
            strip = self.workspace.query_one(WhichKey)
            if event.key in MORE and strip.display:
                self.arm_leader(revealed=True)
                strip.turn()
                return
            self.disarm_leader()
            found = by_leader(event.character or event.key)
            if found is not None:
                await self.do(found[0].id, found[1])
            elif event.key not in ("escape", *BY_ID["app.leader"].keys):
                told = _("{app.leader} {key} is no command; {app.help} shows which there are.")
                self.flash(keyed(told, key=event.character or event.key))
            return
        if isinstance(event, events.Key) and not event.is_forwarded and not self._is_heard(event):
            return
        await super().on_event(event)

    def _is_heard(self, event: events.Key) -> bool:
        """Whether the dialog that is up, if one is, takes this key."""
        screen = self.screen_stack[-1] if self.screen_stack else None
        return not isinstance(screen, GuardedScreen) or screen.hears(event)

    async def _hear_early(self) -> None:
        """Take the keys from before the first frame, in their order."""
        early, self._typed_early = self._typed_early or [], None
        for event in early:
            await self.on_event(event)

    async def _typed_before(self) -> None:
        """Wait until the widget with the focus has heard the keys before this one, which a command would overtake."""
        heard = asyncio.Event()
        if self.focused is not None and self.focused.call_later(heard.set):
            with suppress(TimeoutError):
                await asyncio.wait_for(heard.wait(), TYPED_S)

    # -- what the widgets say ------------------------------------------------------------------------------------------

    def on_prompt_scroll_wanted(self, message: Prompt.ScrollWanted) -> None:
        """Scroll a long question, else the chat, while the prompt keeps the focus."""
        question = self.workspace.question
        if question is None or not question.scroll_body(message.where):
            self.workspace.chat.go(message.where)

    async def on_prompt_help_wanted(self) -> None:
        """A question mark in the empty prompt."""
        await self.do("app.help")

    def on_chat_view_older_wanted(self, message: ChatView.OlderWanted) -> None:
        """Load the page before."""
        tab = self.workspace.chats.tab_of(message.view)
        if tab is not None:
            self.attempt(tab.read_back())

    def on_tab_strip_chosen(self, message: TabStrip.Chosen) -> None:
        """A click on a tab."""
        if 0 <= message.index < len(self.open_tabs):
            self.show_tab(self.open_tabs[message.index])

    def on_tab_strip_pane_chosen(self, message: TabStrip.PaneChosen) -> None:
        """A click on a pane's name."""
        if message.pane in PANES:
            self.workspace.look_at(message.pane)
