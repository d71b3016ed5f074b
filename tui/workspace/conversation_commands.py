"""Conversations on the screen: begun, opened, gone through, closed; their model, their sandbox. A mixin of the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.content import Content

from tui.commands import keyed
from tui.delegation.commands import Delegates, moved
from tui.dialogs.dialog import Choice, ChoiceScreen, SureScreen, TextScreen
from tui.dialogs.line_input import LineScreen
from tui.i18n import _
from tui.models.start_screen import StartScreen, with_served
from tui.replay.follow_commands import follow, read_along
from tui.workspace.tab_bar import TabStrip

if TYPE_CHECKING:
    from core.conversations.conversation_manager import ConversationManager
    from tui.workspace.conversation import ConversationTab
    from tui.workspace.tab import Tab


DEMO = "demo"
DEMO_TASK = _("Show me what you can do.")
"""Stands in the prompt of the demo, so that Enter is all it takes."""
TITLE_CHARS = 120
"""A longer name is no name."""


class Conversations(Delegates):
    """The commands for conversations, as methods of the app."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._closed_ids: list[str] = []
        """The conversations of closed tabs, the latest last."""

    def on_tab_strip_new_wanted(self) -> None:
        """A click on the plus."""
        self.do_conv_new()

    def on_tab_strip_close_wanted(self, message: TabStrip.CloseWanted) -> None:
        """A click with the middle button."""
        if 0 <= message.index < len(self.open_tabs):
            self.close_tab(self.open_tabs[message.index])

    def do_conv_new(self) -> None:
        self.attempt(self.new_conversation())

    def do_conv_goto(self, digit: str) -> None:
        if int(digit) <= len(self.open_tabs):
            self.show_tab(self.open_tabs[int(digit) - 1])
        else:
            self.flash(_("There is no tab {digit}.").format(digit=digit))

    def do_conv_next(self) -> None:
        self._step(1)

    def do_conv_prev(self) -> None:
        self._step(-1)

    def _step(self, step: int) -> None:
        if self.current is not None:
            index = self.open_tabs.index(self.current) + step
            self.show_tab(self.open_tabs[index % len(self.open_tabs)])

    def do_conv_left(self) -> None:
        self._move(-1)

    def do_conv_right(self) -> None:
        self._move(1)

    def _move(self, step: int) -> None:
        if self.current is None:
            return
        order = moved([tab.level for tab in self.open_tabs], self.open_tabs.index(self.current), step)
        self.open_tabs[:] = [self.open_tabs[index] for index in order]
        self.wake(self.current)

    def do_conv_rename(self) -> None:
        tab = self.living
        if tab is None:
            return

        def chosen(text: str | None) -> None:
            title = " ".join((text or "").split())[:TITLE_CHARS]
            if title:
                self.attempt(tab.session.record.set_title(title))
            elif text is not None:
                self.flash(_("The name cannot be empty. It was not changed."))

        self.push_screen(LineScreen(_("Name of this conversation"), _("A few words"), tab.title), chosen)

    def do_conv_reopen(self) -> None:
        self.attempt(self._reopen())

    async def _reopen(self) -> None:
        if self.manager is None or not self._closed_ids:
            self.flash(_("No tab was closed."))
            return
        await self.add_tab(await self.manager.open(self._closed_ids.pop()))

    def do_conv_close(self) -> None:
        if self.current is not None:
            self.close_tab(self.current)

    def close_tab(self, tab: Tab) -> None:
        """Close a tab, after a question where its agent works."""
        if not tab.running:
            self.attempt(self._close(tab))
            return

        def chosen(yes: bool | None) -> None:
            if yes:
                self.attempt(self._close(tab))

        question = _("The agent is still working in {names}. It will be stopped; what it did is kept.")
        names = _("“{title}”").format(title=tab.title)
        self.push_screen(SureScreen(question.format(names=names), _("close")), chosen)

    async def _close(self, tab: Tab) -> None:
        if tab not in self.open_tabs:
            return
        await self.drop_tab(tab)
        if self.manager is not None and not tab.is_replay and not tab.is_delegate:  # a delegate is its parent's to end
            self._closed_ids.append(tab.id)
            await self.manager.close(tab.id)

    async def drop_tab(self, tab: Tab) -> None:
        """Show it no more; its conversation goes on."""
        index = self.open_tabs.index(tab)
        self.open_tabs.remove(tab)
        beside = self.leave_split(tab)
        if self.current is tab:
            left = self.open_tabs
            self.show_tab(beside or (left[min(index, len(left) - 1)] if left else None))
        elif self.current is not None:
            self.wake(self.current)  # the strip of tabs is another
        self.workers.cancel_group(self, f"search-{tab.id}")
        self.leave_replay(tab)
        await tab.aclose()
        if self.manager is not None and not tab.is_replay:
            self.manager.detach(tab.id)

    def do_conv_model(self) -> None:
        tab = self.living
        if tab is not None:
            self.choose_model(lambda name: self.attempt(self._set_model(tab, name)))

    async def _set_model(self, tab: ConversationTab, name: str) -> None:
        await tab.session.active_model.switch(name)
        self.flash(_("{name} answers from now on.").format(name=name))
        self.wake(tab)

    def do_conv_pause(self) -> None:
        tab = self.living
        if tab is not None:
            self.attempt(tab.session.pause() if tab.running else tab.session.resume())

    def do_conv_sandbox(self) -> None:
        if self.living is not None:
            self.attempt(self._show_sandbox(self.living))

    async def _show_sandbox(self, tab: ConversationTab) -> None:
        from tui.sandbox.sandbox_text import sandbox_text

        assert self.manager is not None
        session, settings = tab.session, self.manager.settings.sandbox
        used, left = await session.runtime.usage(), await session.runtime.left_behind()
        text = sandbox_text(session.runtime.isolation, session.runtime.why_open, settings, used, left)
        await self.push_screen(TextScreen(_("Sandbox"), Content(text)))

    def do_conv_restore(self, name: str = "") -> None:
        if self.living is not None:
            self.attempt(self._restore_file(self.living, name))

    async def _restore_file(self, tab: ConversationTab, name: str) -> None:
        restored = await tab.session.leftovers.put_back(name)
        self.flash(_("{name} is back. The sandbox restarts with the next action.").format(name=restored))

    def do_conv_jobs(self) -> None:
        if self.living is not None:
            self.attempt(self._choose_job(self.living))

    async def _choose_job(self, tab: ConversationTab) -> None:
        from tui.sandbox.sandbox_text import job_lines

        jobs = await tab.session.runtime.jobs()
        choices = [Choice(str(job.pid), *lines) for job, lines in zip(jobs, job_lines(jobs), strict=True)]
        dialog = ChoiceScreen(_("Background jobs: Enter ends one"), choices, empty=_("Nothing runs."))
        chosen = await self.push_screen_wait(dialog)
        if chosen is None:
            return
        named = next(choice.title for choice in choices if choice.key == chosen)
        question = _("End “{job}” and everything that it started?").format(job=named)
        if await self.push_screen_wait(SureScreen(question, _("end it"))):
            await tab.session.runtime.end_job(int(chosen))
            self.flash(_("Ended: {job}").format(job=named))

    # -- opening conversations -----------------------------------------------------------------------------------------

    async def _open_first(self) -> None:
        """The last conversation of this workspace, or a new one; a repository is for a new one."""
        from core.errors import HandloomError, StoreBusyError

        assert self.manager is not None
        wanted = self.options.resume or ""
        if not wanted and not self.options.demo and not self.options.repository:
            here = [c for c in await self.manager.list() if c.workspace == self.options.workspace and not c.parent]
            wanted = here[0].id if here else ""
            if not here and self.options.resume == "":
                self.flash(_("There is no conversation of this folder yet; this is a new one."))
        if wanted:
            try:
                id = await self.manager.store.listing.resolve(wanted)
                places = [c.workspace for c in await self.manager.list() if c.id == id]
                await self.ask_trust(places[0] if places else self.options.workspace)
                await self.add_tab(await self.manager.open(id))
            except StoreBusyError as error:
                await read_along(self, id, error)
                return
            except HandloomError as error:
                self.report(str(error))
            else:
                return
        await self.new_conversation()
        if self.options.demo and self.current is not None and not self.workspace.prompt.text:
            self.workspace.prompt.put(DEMO_TASK)

    async def new_conversation(self, agent: str = "", model: str = "") -> None:
        """Begin one in a new tab, with the model of the options, the agent, the settings or the start screen."""
        try:
            if self.manager is None:
                self.flash(_("Handloom is still starting."))
            else:
                await self._begin_conversation(self.manager, agent, model)
        finally:
            self.take_back_early()  # unless it was said

    async def _begin_conversation(self, manager: ConversationManager, agent: str, model: str) -> None:
        model = self.options.model or model
        if not model and not manager.settings.model:
            chosen = await self._choose_model()
            if chosen is None:
                told = keyed(
                    _(
                        "No model was chosen, so nobody can answer yet. {conv.new} asks again; {app.help} "
                        "shows every key."
                    )
                )
                self.report(told)
                self.show_tab(self.current)
                return
            model = chosen
            if model == DEMO and self.current is None and not self.said_early and not self.workspace.prompt.text:
                self.workspace.prompt.put(DEMO_TASK)
        place, repository = self.options.workspace, self.options.repository
        if model != DEMO and not agent:  # whoever has just read an agent is asked about the rest another time
            await self.ask_trust(place)
        await self.add_tab(await manager.create(workspace=place, model=model, repository=repository, agent=agent))

    async def _choose_model(self) -> str | None:
        assert self.manager is not None
        if self.living is not None:
            return self.living.model_name
        offers = with_served(self.manager.offers(), await self.manager.near_models())
        chosen = await self.push_screen_wait(StartScreen(self.options.workspace, offers, self.pick_model))
        if chosen is None:
            return None
        await self.manager.choose_model(chosen.model, chosen.base_url)
        return str(chosen.model)

    async def show_conversation(self, conversation_id: str) -> None:
        """Bring a conversation to the front, opened where it is not."""
        from core.errors import StoreBusyError

        assert self.manager is not None
        try:
            session = await self.manager.open(conversation_id)
        except StoreBusyError:
            if conversation_id not in await self.manager.open_elsewhere([conversation_id]):
                raise
            await follow(self, conversation_id)
        else:
            await self.add_tab(session)
