"""What each command does: one method `do_<id>` per row of the command table. A test holds that none is missing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.widgets import Input

from tui.answers import Answers
from tui.cards import ApprovalCard
from tui.commands import COMMANDS, all_keys
from tui.delegates import Delegates, as_tree
from tui.footer import MODE_WORDS, MODES
from tui.screens.dialogs import Choice, ChoiceScreen, SureScreen, TextScreen
from tui.screens.help import help_text
from tui.screens.start import StartScreen
from tui.text import sanitize_line

if TYPE_CHECKING:
    from textual.app import App

    from core.manager import ConversationManager
    from core.session import AgentSession
    from tui.conversation import ConversationTab
    from tui.options import StartOptions
    from tui.screens.workspace import Workspace

    _App = App[None]
else:
    _App = object

DEMO_TASK = "Show me what you can do."
"""Stands in the prompt of the demo, so that Enter is all it takes."""
QUIT_WITHIN_S = 2.0
"""How long ctrl+c stays armed: two presses that belong together, not two that happened."""


class TablePalette(Provider):
    """The command table as the palette shows it."""

    def _commands(self) -> list[tuple[str, str, Callable[[], None]]]:
        app: Any = self.app

        def carry_out(command_id: str) -> Callable[[], None]:
            return lambda: app.attempt(app.do(command_id))

        return [
            (command.title, f"{', '.join(all_keys(command))}  {command.help}", carry_out(command.id))
            for command in COMMANDS
            if command.in_palette
        ]

    async def discover(self) -> Hits:
        """Everything, in the table's order."""
        for title, text, run in self._commands():
            yield DiscoveryHit(title, run, help=text)

    async def search(self, query: str) -> Hits:
        """What matches."""
        matcher = self.matcher(query)
        for title, text, run in self._commands():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, matcher.highlight(title), run, help=text)


class Handlers(Answers, Delegates, _App):
    """The commands, as methods of the app."""

    if TYPE_CHECKING:
        options: StartOptions
        manager: ConversationManager | None
        open_tabs: list[ConversationTab]
        current: ConversationTab | None
        workspace: Workspace
        clock: Callable[[], float]

        def attempt(self, work: Coroutine[Any, Any, None]) -> None: ...
        def report(self, message: str) -> None: ...
        def flash(self, message: str) -> None: ...
        def arm_leader(self) -> None: ...
        def show_tab(self, tab: ConversationTab | None) -> None: ...
        def wake(self, tab: ConversationTab) -> None: ...
        async def add_tab(self, session: AgentSession) -> None: ...
        async def _send(self, tab: ConversationTab, text: str, *, queued: bool = False) -> None: ...

    _quit_armed_at = float("-inf")

    # -- workspace -----------------------------------------------------------------------------------------------------

    def do_app_palette(self) -> None:
        self.push_screen(CommandPalette([TablePalette], placeholder="What do you want to do?"))

    def do_app_leader(self) -> None:
        prompt = self.workspace.prompt
        if self.focused is prompt and not prompt.selection.is_empty:
            prompt.action_cut_selection()  # what ctrl+x means everywhere else, where it can mean it
        else:
            self.arm_leader()

    def do_app_help(self) -> None:
        width = min(self.size.width * 9 // 10, 110) - 6  # a dialog without its border, padding and scrollbar
        self.push_screen(TextScreen("Keys", help_text(width)))

    do_list_help = do_app_help

    def do_app_interrupt(self) -> None:
        selected = self.screen.get_selected_text() or self.workspace.prompt.selected_text
        tab = self.current
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self.flash(f"Copied {len(selected)} characters.")
        elif self.workspace.prompt.text:
            self.workspace.prompt.put("")
        elif tab is not None and tab.running:
            self.attempt(tab.session.interrupt())
        elif self.clock() - self._quit_armed_at < QUIT_WITHIN_S:
            self.exit()
        else:
            self._quit_armed_at = self.clock()
            self.flash("Press ctrl+c again to quit.")

    def do_app_back(self) -> None:
        workspace, tab = self.workspace, self.current
        card = workspace.card
        if isinstance(card, ApprovalCard) and isinstance(self.focused, Input):
            card.stop_writing()
        elif workspace.notice.display:
            workspace.notice.clear()
        elif tab is not None and (tab.running or workspace.card is not None):
            self.attempt(tab.session.interrupt())
        elif not workspace.restore():
            workspace.prompt.focus()

    def do_app_redraw(self) -> None:
        self.workspace.chat.go("end")
        self.workspace.events_view.action_end()
        self.workspace.terminal.action_end()
        self.refresh(layout=True)

    def do_app_theme(self) -> None:
        choices = [
            Choice(name, name, ("dark" if theme.dark else "light") + (", now" if name == self.theme else ""))
            for name, theme in sorted(
                self.available_themes.items(), key=lambda pair: (not pair[0].startswith("loom"), pair[0])
            )
        ]

        def chosen(name: str | None) -> None:
            if name is not None:
                self.theme = name

        self.push_screen(ChoiceScreen("Theme", choices), chosen)

    def do_app_quit(self) -> None:
        busy = [tab for tab in self.open_tabs if tab.running]
        if not busy:
            self.exit()
            return

        def chosen(yes: bool | None) -> None:
            if yes:
                self.exit()

        names = ", ".join(f"“{tab.title}”" for tab in busy)
        question = f"The agent is still working in {names}. It will be stopped; what it did is kept."
        self.push_screen(SureScreen(question, "quit"), chosen)

    do_prompt_quit = do_app_quit

    # -- conversations -------------------------------------------------------------------------------------------------

    def do_conv_new(self) -> None:
        self.attempt(self.new_conversation())

    def do_conv_manager(self) -> None:
        self.attempt(self._list_conversations())

    def do_conv_goto(self, digit: str) -> None:
        if int(digit) <= len(self.open_tabs):
            self.show_tab(self.open_tabs[int(digit) - 1])
        else:
            self.flash(f"There is no tab {digit}.")

    def do_conv_next(self) -> None:
        self._step(1)

    def do_conv_prev(self) -> None:
        self._step(-1)

    def _step(self, step: int) -> None:
        if self.current is not None:
            index = self.open_tabs.index(self.current) + step
            self.show_tab(self.open_tabs[index % len(self.open_tabs)])

    def do_conv_close(self) -> None:
        tab = self.current
        if tab is None:
            return
        if not tab.running:
            self.attempt(self._close(tab))
            return

        def chosen(yes: bool | None) -> None:
            if yes:
                self.attempt(self._close(tab))

        question = f"The agent is still working in “{tab.title}”. It will be stopped; what it did is kept."
        self.push_screen(SureScreen(question, "close"), chosen)

    async def _close(self, tab: ConversationTab) -> None:
        if tab not in self.open_tabs:
            return
        await self.drop_tab(tab)
        if self.manager is not None and not tab.is_delegate:  # a delegate is its parent's to end
            await self.manager.close(tab.id)

    async def drop_tab(self, tab: ConversationTab) -> None:
        """Show it no more; its conversation goes on."""
        index = self.open_tabs.index(tab)
        self.open_tabs.remove(tab)
        if self.current is tab:
            left = self.open_tabs
            self.show_tab(left[min(index, len(left) - 1)] if left else None)
        await tab.aclose()
        if self.manager is not None:
            self.manager.detach(tab.id)

    def do_conv_model(self) -> None:
        tab = self.current
        if tab is not None:
            self.choose_model(lambda name: self.attempt(self._set_model(tab, name)))

    def choose_model(self, chosen: Callable[[str], None]) -> None:
        """Let the user choose a model; nothing happens where they go back."""
        if self.manager is None:
            return
        offers = [
            Choice(offer.name, sanitize_line(offer.label, 60), sanitize_line(offer.name, 60))
            for offer in self.manager.offers()
            if offer.is_complete
        ]
        self.push_screen(
            ChoiceScreen("Model", offers, free="PROVIDER/NAME, or choose below"),
            lambda name: chosen(name) if name is not None else None,
        )

    async def _set_model(self, tab: ConversationTab, name: str) -> None:
        await tab.session.set_model(name)
        self.flash(f"{name} answers from now on.")
        self.wake(tab)

    def do_conv_pause(self) -> None:
        tab = self.current
        if tab is not None:
            self.attempt(tab.session.pause() if tab.running else tab.session.resume())

    def do_conv_sandbox(self) -> None:
        if self.current is not None:
            self.attempt(self._show_sandbox(self.current))

    async def _show_sandbox(self, tab: ConversationTab) -> None:
        from tui.sandbox import sandbox_text

        assert self.manager is not None
        session, settings = tab.session, self.manager.settings.sandbox
        text = sandbox_text(session.isolation, session.why_open, settings, await session.usage())
        await self.push_screen(TextScreen("Sandbox", Content(text)))

    def do_conv_jobs(self) -> None:
        if self.current is not None:
            self.attempt(self._choose_job(self.current))

    async def _choose_job(self, tab: ConversationTab) -> None:
        from tui.sandbox import job_lines

        jobs = await tab.session.jobs()
        choices = [Choice(str(job.pid), *lines) for job, lines in zip(jobs, job_lines(jobs), strict=True)]
        dialog = ChoiceScreen("Background jobs: Enter ends one", choices, empty="Nothing runs.")
        chosen = await self.push_screen_wait(dialog)
        if chosen is None:
            return
        named = next(choice.title for choice in choices if choice.key == chosen)
        if await self.push_screen_wait(SureScreen(f"End “{named}” and everything that it started?", "end it")):
            await tab.session.end_job(int(chosen))
            self.flash(f"Ended: {named}")

    # -- panes ---------------------------------------------------------------------------------------------------------

    def do_pane_chat(self) -> None:
        self.workspace.choose_pane("chat")

    def do_pane_events(self) -> None:
        self.workspace.choose_pane("events")

    def do_pane_terminal(self) -> None:
        self.workspace.choose_pane("terminal")

    def do_pane_next(self) -> None:
        self.workspace.cycle(1)

    def do_pane_prev(self) -> None:
        self.workspace.cycle(-1)

    def do_detail_toggle(self) -> None:
        if self.current is None:
            return
        chat = self.current.chat
        if self.focused is self.workspace.chat and self.workspace.chat.cursor is not None:
            self.workspace.chat.action_fold()
            return
        blocks = [block for block in chat.blocks if block.can_fold]
        folded = any(block.folded for block in blocks)
        for block in blocks:
            if block.folded == folded:
                chat.toggle(block)

    def do_prompt_queue(self) -> None:
        tab, text = self.current, self.workspace.prompt.text
        if tab is None or not text.strip():
            return
        self.workspace.prompt.take()
        self.attempt(self._send(tab, text, queued=True))

    def do_queue_drop(self) -> None:
        tab = self.current
        if tab is None or not tab.session.state.queued:
            self.flash("Nothing is queued.")
            return
        last = tab.session.state.queued[-1]
        if not self.workspace.prompt.text:
            self.workspace.prompt.put(last.text)
        self.attempt(tab.session.unqueue(last.id))

    def do_prompt_mode(self) -> None:
        tab = self.current
        if tab is None:
            return
        mode = MODES[(MODES.index(str(tab.session.confirm_mode)) + 1) % len(MODES)]
        tab.session.set_confirm_mode(mode)
        self.flash(f"The agent {MODE_WORDS[mode]} before it acts.")
        self.wake(tab)

    # -- opening conversations -----------------------------------------------------------------------------------------

    async def _open_first(self) -> None:
        """The last conversation of this workspace, or a new one; a repository is for a new one."""
        from core.errors import HandloomError

        assert self.manager is not None
        wanted = self.options.resume or ""
        if not wanted and not self.options.demo and not self.options.repository:
            here = [c for c in await self.manager.list() if c.workspace == self.options.workspace and not c.parent]
            wanted = here[0].id if here else ""
            if not here and self.options.resume == "":
                self.flash("There is no conversation of this folder yet; this is a new one.")
        if wanted:
            try:
                await self.add_tab(await self.manager.open(wanted))
            except HandloomError as error:
                self.report(str(error))
            else:
                return
        await self.new_conversation()
        if self.options.demo and self.current is not None and not self.workspace.prompt.text:
            self.workspace.prompt.put(DEMO_TASK)

    async def new_conversation(self) -> None:
        """Begin one in a new tab, with the model of the options, the settings or the start screen."""
        if self.manager is None:
            self.flash("Handloom is still starting.")
            return
        model = self.options.model or self.manager.settings.model
        if not model:
            chosen = await self._choose_model()
            if chosen is None:
                self.flash("No model was chosen. ctrl+n asks again.")
                return
            model = chosen
        place, repository = self.options.workspace, self.options.repository
        await self.add_tab(await self.manager.create(workspace=place, model=model, repository=repository))

    async def _choose_model(self) -> str | None:
        assert self.manager is not None
        if self.current is not None:
            return self.current.session.model_name
        chosen = await self.push_screen_wait(StartScreen(self.options.workspace, self.manager.offers()))
        if chosen is None:
            return None
        await self.manager.choose_model(chosen.model, chosen.base_url)
        return str(chosen.model)

    async def _list_conversations(self) -> None:
        if self.manager is None:
            self.flash("Handloom is still starting.")
            return
        choices = [
            Choice(
                info.id,
                "  " * level + ("└ " if level else "") + sanitize_line(info.title or "Untitled", 60),
                f"{info.updated_at.astimezone():%d %b %H:%M} · {info.event_count} events · "
                + sanitize_line(f"{info.model} · {info.workspace}", 120),
            )
            for level, info in as_tree(await self.manager.list())
        ]
        chosen = await self.push_screen_wait(ChoiceScreen("Conversations", choices, empty="No conversation matches."))
        if chosen is not None:
            await self.add_tab(await self.manager.open(chosen))

    async def show_event(self, tab: ConversationTab, event_id: int) -> None:
        """An event as it is stored, in JSON."""
        from tui.panes.events.details import details

        envelope = await tab.event(event_id)
        if envelope is not None:
            await self.push_screen(TextScreen(f"Event {event_id}", Content(details(envelope))))
