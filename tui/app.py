"""HandloomApp: creates the features, gives them the workspace, and passes messages of widgets on to them.

The first frame needs Textual and the views; what knows events, sessions or models is imported after it, in a thread.
The views are drawn at a limited rate (`tui.workspace.frame_loop`). Errors of background work are reported, and the app
stays usable.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.timer import Timer

from tui.approval.approvals import Approvals
from tui.approval.view import QuestionView
from tui.batch.commands import Batches
from tui.browser.commands import BrowserControl
from tui.browser.picture_view import GraphicsSession
from tui.browser.view import BrowserView
from tui.chat.view import ChatView
from tui.cli.options import StartOptions
from tui.commands import BY_ID, COMMANDS, KEYMAP, Scope
from tui.delegation.delegate_tabs import DelegateTabs
from tui.dialogs.choice_dialog import GuardedScreen, LastKey
from tui.events import commands as event_log
from tui.events.event_tree import EventTree
from tui.events.filter_bar import FilterBar
from tui.events.view import EventsView
from tui.find.commands import show_tally
from tui.i18n import _
from tui.palette.commands import Palette
from tui.prompt.completion_sources import CompletionSources
from tui.prompt.submission import Submission
from tui.prompt.view import Prompt
from tui.replay.commands import refuses, seek
from tui.replay.replay_start import open_replay
from tui.replay.transport_bar import TransportBar
from tui.rerun.commands import Reruns
from tui.sessions.commands import SessionManager
from tui.shortcuts.command import PANE_SCOPES
from tui.shortcuts.commands import shortened
from tui.shortcuts.leader import Leader
from tui.terminal import commands as terminal
from tui.terminal.view import TerminalView
from tui.terminal_io import clipboard, escapes, strip_filter, textual_patches
from tui.terminal_io.glyphs import GLYPHS, in_ascii
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.themes.commands import Themes
from tui.undo.commands import undo_from
from tui.workspace.commands import CopyMode
from tui.workspace.conversation_start import new_conversation, open_first
from tui.workspace.frame_loop import FrameLoop
from tui.workspace.line_view import Copied
from tui.workspace.screen import Workspace
from tui.workspace.tab_bar import TabStrip
from tui.workspace.tabs import Tabs
from tui.workspace.terminal_window import TerminalWindow, crash_report

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from core.errors import HandloomError
    from tui.terminal_io.graphics.graphics_terminal import GraphicsTerminal
    from tui.workspace.tab import Tab

log = logging.getLogger(__name__)

FLASH_S = 3.0
AFTER_FIRST_FRAME = ("core.events", "core.errors", "core.stream")
"""Imported in a thread, so that the first frame does not wait for pydantic."""
TYPED_S = 0.5
"""How long a command's key waits for the focused widget to handle the keys before it."""
ALWAYS_POSSIBLE = frozenset({"app.redraw"})
"""Commands that also work while a dialog is open."""


BEGINNINGS = "/!@"
"""What begins a command, a shell command and a mention, besides letters and digits of a message."""


class HandloomApp(App[None], inherit_bindings=False):
    """The app. It has no keys of Textual's; those to quit are in the table."""

    TITLE = "Handloom"
    CSS = "TextArea > .text-area--placeholder, Input > .input--placeholder { color: $text-muted; }"
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
        textual_patches.install()
        super().__init__()
        self.options = options
        self.clock = clock
        self.manager: ConversationManager | None = None
        self._connect = connect
        self.is_starting = True
        self.connected = asyncio.Event()
        """Set once the store is open."""
        self.last_key = LastKey()
        self.last_words = ""
        """Printed on the normal screen after the end; clean."""
        self._flash_timer: Timer | None = None
        self._typed_early: list[events.Key] | None = []
        """Keys from before the first frame; None afterwards."""
        self._create_features()
        self._theme_problems = self.themes.begin()
        self.stylesheet.set_variables(self.get_css_variables())

    def _create_features(self) -> None:
        self.themes: Themes = Themes(self)
        self.workspace: Workspace = Workspace(self.clock, lambda: self.completion.connect(self.workspace.prompt))
        self.workspace.last_key = lambda: self.last_key
        self.tabs: Tabs = Tabs(self, self._show)
        self.copy_mode: CopyMode = CopyMode(self)
        self.approvals: Approvals = Approvals(self, self.copy_mode.leave)
        self.completion: CompletionSources = CompletionSources(self)
        self.submission: Submission = Submission(self, self.completion, self.approvals)
        self.delegates: DelegateTabs = DelegateTabs(self)
        self.frames: FrameLoop = FrameLoop(self)
        self.leader: Leader = Leader(self)
        self.palette: Palette = Palette(self)
        self.reruns: Reruns = Reruns(self)
        self.sessions: SessionManager = SessionManager(self, self.reruns)
        self.batches: Batches = Batches(self)
        self.browser_control: BrowserControl = BrowserControl(self)
        self.graphics_session: GraphicsSession = GraphicsSession(self)
        self.window: TerminalWindow = TerminalWindow(self)

    # -- opening and closing -------------------------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        return self.workspace

    def on_mount(self) -> None:
        """Draw the first frame; slower work waits for it."""
        problems = [*self._theme_problems, *self.themes.apply(), *shortened(KEYMAP.problems)]
        self.window.open()
        self.frames.start()
        self.call_after_refresh(self.begin, problems)

    def begin(self, problems: list[str]) -> None:
        """Called once, when the first frame is on the screen."""
        self.call_later(self._take_early_keys)
        if problems:
            self.report("\n".join(problems))
        self.themes.watch()
        self.attempt(self._begin())

    async def _begin(self) -> None:
        for module in AFTER_FIRST_FRAME:
            await asyncio.to_thread(import_module, module)
        from core.errors import ConfigurationError, HandloomError, UsageError

        try:
            if (replay := self.options.replay) is not None:
                await open_replay(self, replay.conversation_id, home=replay.home, speed=replay.speed)
                return
            self.manager = await self._connect()
        except HandloomError as error:
            self.leave(error)
            return
        finally:
            gc.enable()
        self.connected.set()
        try:
            if self.options.batch is not None:
                await self.batches.start(self.options.batch)
                return
            await open_first(self)
            self.attempt(terminal.use_ghostty(self))
        except (ConfigurationError, UsageError) as error:
            if self.options.model is None:
                raise  # reported on the screen, where another model can be chosen
            self.leave(error)
        finally:
            self.is_starting = False

    def leave(self, error: HandloomError) -> None:
        """Exit during the start, because the store or the model cannot be used."""
        self.exit(return_code=2, message=f"handloom: {sanitize(str(error))}")

    async def on_unmount(self) -> None:
        """Close every conversation, whichever way the app ends."""
        self.graphics_session.end()
        self.window.close()
        self.last_words = self.window.last_words()
        self.themes.unwatch()
        from core.errors import HandloomError

        unused = [tab.id for tab in self.tabs.conversations if tab.is_unused]
        for tab in self.tabs.all:
            for group in tab.work_groups:
                self.cancel(group)
            await tab.aclose()
        if self.manager is not None:
            for id in unused:
                with suppress(HandloomError):  # then it stays in the list
                    await self.manager.delete(id)
            await self.manager.aclose()

    def _fatal_error(self) -> None:
        """Exit and print a report without secrets: Textual's would show the values of variables."""
        self.bell()
        self._exit_renderables.append(crash_report(self.manager))
        self._close_messages_no_wait()

    # -- what features are given ---------------------------------------------------------------------------------------

    def attempt(self, work: Coroutine[Any, Any, None], group: str = "default", *, exclusive: bool = False) -> None:
        attempt = self._attempt(work)
        task = self.run_worker(attempt, group=group, exclusive=exclusive, exit_on_error=False)._task
        if task is not None:  # cancelled before it starts, both would never be awaited
            task.add_done_callback(lambda _: (attempt.close(), work.close()))

    def cancel(self, group: str) -> None:
        self.workers.cancel_group(self, group)

    async def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        # The boundary for errors of commands: none may crash the app.
        try:
            await work
        except Exception as error:
            errors = await asyncio.to_thread(import_module, "core.errors")
            if isinstance(error, errors.HandloomError):
                self.report(str(error))
            else:
                log.exception("a command failed")
                text = _("Internal error ({error}). Stored data is safe. Try again, or restart Handloom.")
                self.report(text.format(error=f"{type(error).__name__}: {error}"))

    def report(self, message: str) -> None:
        self.workspace.notice.show(sanitize(message))

    def flash(self, message: str) -> None:
        self.workspace.flash(sanitize_line(message, 200))
        if self._flash_timer is not None:
            self._flash_timer.stop()
        self._flash_timer = self.set_timer(FLASH_S, self._end_flash)

    def _end_flash(self) -> None:
        if self.is_running:  # otherwise widgets are being removed
            self.workspace.flash("")

    def emit(self, sequence: str) -> None:
        """Write an escape sequence of `tui.terminal_io.escapes` to the terminal."""
        escapes.write(self._driver, sequence)

    def copy_to_clipboard(self, text: str, note: str = "") -> None:
        if not text:
            return  # keeps what was copied before
        self._clipboard = text
        note = note or _("Copied {count} characters").format(count=f"{len(text):,}")
        self.attempt(self._copy(text, note))

    async def _copy(self, text: str, note: str) -> None:
        self.flash(await clipboard.copy(text, note, os.environ, self.emit, headless=self.is_headless))

    def _show(self, tab: Tab | None) -> None:
        self.approvals.clear()
        self.workspace.show(tab)
        self.frames.draw()

    def wake(self, tab: Tab) -> None:
        self.frames.wake(tab)

    def period_s(self) -> float:
        return self.frames.period_s()

    def watch_title(self, title: str) -> None:
        self.emit(escapes.title(in_ascii(title) if GLYPHS.ascii else title))

    @property
    def reading_width(self) -> int:
        """The most columns of the chat; 0 for no limit, so that copy mode selects no margin."""
        return 0 if self.copy_mode.is_on else max(0, self.options.screen.reading_width)

    @property
    def graphics(self) -> GraphicsTerminal | None:
        """How the terminal draws pictures; None if it does not."""
        return self.graphics_session.terminal

    def get_line_filters(self) -> Sequence[LineFilter]:
        return self.themes.line_filters(super().get_line_filters())

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        self.graphics_session.before_update(renderable)
        super()._display(screen, renderable)

    def _end_update(self) -> None:
        self.graphics_session.write_pixels()
        super()._end_update()

    # -- keys ----------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable a command's key in its scope, and not under a dialog."""
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
                return scope in PANE_SCOPES
            case _:
                return scope is command.scope

    async def action_command(self, command_id: str) -> None:
        await self.do(command_id)

    async def do(self, command_id: str, argument: str = "") -> None:
        """Carry out a command by its id; `argument` is the digit of a tab, or the words after a slash command."""
        command = BY_ID[command_id]
        if refusal := refuses(self, command):
            self.flash(refusal)
            return
        result = command.run_with(self, argument) if command.run_with else command.run and command.run(self)
        if asyncio.iscoroutine(result):
            await result

    async def on_event(self, event: events.Event) -> None:
        """Give a key to the terminal that the user has taken over or to the leader, before all others."""
        if isinstance(event, events.MouseDown) and self.leader.is_armed:
            self.leader.disarm()
        if isinstance(event, events.Key) and not event.is_forwarded:
            if self._typed_early is not None:
                self._typed_early.append(event)
                return
            if terminal.key_to_terminal(self, event):
                return
            if not event.is_printable:
                await self._wait_for_typed_keys()
            self.last_key = LastKey(event.key, self.clock())
            if self.leader.is_armed:
                await self.leader.take(event)
                return
            screen = self.screen_stack[-1] if self.screen_stack else None
            if isinstance(screen, GuardedScreen) and not screen.accepts(event):
                return
            if self._is_for_prompt(event):
                self.workspace.set_focus(self.workspace.prompt)
        await super().on_event(event)

    def _is_for_prompt(self, event: events.Key) -> bool:
        """Whether the focused pane has no use for a letter, so that the user means the prompt."""
        workspace, tab = self.workspace, self.tabs.conversation
        character = event.character or ""  # a terminal's reply that arrives in pieces may look like other characters
        begins_text = character.isalnum() or (character != "" and character in BEGINNINGS)
        if not begins_text or "+" in event.key or self.screen is not workspace or tab is None:
            return False
        if workspace.scope not in PANE_SCOPES or workspace.main_input is not workspace.prompt:
            return False
        is_taken = tab.session.user_control.browser.is_on or bool(workspace.browser.letters)
        return not is_taken and event.key not in workspace.active_bindings

    async def _take_early_keys(self) -> None:
        """Handle the keys from before the first frame, in order."""
        early, self._typed_early = self._typed_early or [], None
        for event in early:
            await self.on_event(event)

    async def _wait_for_typed_keys(self) -> None:
        """Wait until the focused widget has handled the keys before this one, which a command would overtake."""
        handled = asyncio.Event()
        if self.focused is not None and self.focused.call_later(handled.set):
            with suppress(TimeoutError):
                await asyncio.wait_for(handled.wait(), TYPED_S)

    # -- messages of the widgets, passed on to the features ------------------------------------------------------------

    def on_resize(self) -> None:
        self.graphics_session.measure()

    def on_app_focus(self) -> None:
        self.themes.note_focus()

    def on_text_selected(self, event: events.TextSelected) -> None:
        if self.options.screen.copy_on_select and (text := self.screen.get_selected_text()):
            self.copy_to_clipboard(text)

    def on_copied(self, message: Copied) -> None:
        self.copy_to_clipboard(message.text, message.note)
        if not message.text:
            self.flash(message.note)

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self.submission.handle(message)

    def on_prompt_failed(self, message: Prompt.Failed) -> None:
        self.report(message.reason)

    def on_prompt_picture_attached(self) -> None:
        self.submission.warn_of_picture()

    def on_prompt_scroll_wanted(self, message: Prompt.ScrollWanted) -> None:
        """Scroll a long question, else the chat; the prompt keeps the focus."""
        question = self.workspace.question
        if question is None or not question.scroll_body(message.where):
            self.workspace.chat.action_go(message.where)

    async def on_prompt_help_wanted(self) -> None:
        await self.do("app.help")

    def on_question_view_taken(self, message: QuestionView.Taken) -> None:
        self.approvals.take(message)

    def on_chat_view_older_wanted(self, message: ChatView.OlderWanted) -> None:
        tab = self.workspace.chats.tab_of(message.view)
        if tab is not None:
            self.attempt(tab.read_back())

    def on_chat_view_undo_wanted(self, message: ChatView.UndoWanted) -> None:
        undo_from(self, message)

    def on_chats_other_chosen(self) -> None:
        if self.workspace.split_tab is not None:
            self.tabs.show(self.workspace.split_tab)

    def on_tab_strip_chosen(self, message: TabStrip.Chosen) -> None:
        self.tabs.show_index(message.index)

    def on_tab_strip_close_wanted(self, message: TabStrip.CloseWanted) -> None:
        self.tabs.close_index(message.index)

    def on_tab_strip_new_wanted(self) -> None:
        self.attempt(new_conversation(self))

    def on_tab_strip_pane_chosen(self, message: TabStrip.PaneChosen) -> None:
        self.workspace.show_pane(message.pane)

    def on_events_view_older_wanted(self) -> None:
        event_log.read_back(self)

    def on_events_view_action_requested(self, message: EventsView.ActionRequested) -> None:
        event_log.act(self, message)

    def on_events_view_moved(self) -> None:
        event_log.show_detail(self)

    def on_event_tree_shown(self) -> None:
        event_log.show_detail(self)

    def on_event_tree_raw_wanted(self, message: EventTree.RawWanted) -> None:
        event_log.show_raw(self, message.event_id)

    def on_filter_bar_applied(self, message: FilterBar.Applied) -> None:
        event_log.apply_filter(self, message.filter)

    def on_tally_changed(self) -> None:
        show_tally(self)

    def on_terminal_view_typed(self, message: TerminalView.Typed) -> None:
        terminal.type_into_terminal(self, message.data)

    def on_terminal_view_resized(self) -> None:
        terminal.resize_terminal(self)

    def on_input_hint_chosen(self) -> None:
        terminal.toggle_control(self)

    def on_browser_view_action_requested(self, message: BrowserView.ActionRequested) -> None:
        self.browser_control.act(message)

    def on_transport_bar_seek_requested(self, message: TransportBar.SeekRequested) -> None:
        seek(self, message.fraction)
