"""Undo, redo, forks, and the consent that an imported conversation needs. A mixin of the app.

What any of them does is the session's and the manager's; here the user is shown it first, and told how it went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.chat.view import ChatView
from tui.commands import keyed
from tui.dialogs.dialog import Choice, ChoiceScreen, SureScreen
from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.events import UndoObservation
    from core.undo.undo import UndoPreview
    from tui.workspace.conversation import ConversationTab


class Undoing(Frame):
    """The commands that go back in a conversation, as methods of the app."""

    # -- undo ----------------------------------------------------------------------------------------------------------

    def do_conv_undo(self) -> None:
        if self.living is not None:
            self.attempt(self._undo(self.living))

    def do_conv_redo(self) -> None:
        if self.living is not None:
            self.attempt(self._redo(self.living))

    def on_chat_view_undo_wanted(self, message: ChatView.UndoWanted) -> None:
        """Undo from a message in the chat on."""
        shown = self.workspace.chats.tab_of(message.view)
        for tab in self.living_tabs:
            if tab is shown:
                self.attempt(self._undo(tab, message.event_id))

    async def _undo(self, tab: ConversationTab, first: int | None = None) -> None:
        from tui.undo.screen import UndoScreen

        assert self.manager is not None
        turns = await tab.session.undo.turns()
        if not turns:
            self.flash(_("There is nothing to undo yet."))
            return
        beside = await self.manager.at_work_beside(tab.session)
        screen = UndoScreen(turns, tab.session.undo.preview, first=first, beside=beside)
        chosen = await self.push_screen_wait(screen)
        if chosen is None:
            return
        done = await tab.session.undo.undo(
            chosen.preview, chat=chosen.chat, files=chosen.files, overwrite=chosen.overwrite
        )  # fmt: skip
        prompt = self.workspace.prompt
        if done.done and chosen.chat and self.current is tab and not prompt.text:
            prompt.put(chosen.preview.text)
            prompt.focus()
        self.have_plan(tab)
        self._tell(done, _("Undone. {files}; {conv.redo} takes that back."))

    async def _redo(self, tab: ConversationTab) -> None:
        from core.undo.undo import Turn
        from tui.undo.screen import UndoScreen

        assert self.manager is not None
        preview = await tab.session.undo.preview_redo()
        said = await tab.event(preview.first)
        assert said is not None

        async def again(first: int) -> UndoPreview:
            return preview

        turns = [Turn(preview.first, preview.text, said.timestamp)]
        beside = await self.manager.at_work_beside(tab.session)
        chosen = await self.push_screen_wait(UndoScreen(turns, again, beside=beside, redo=True))
        if chosen is None:
            return
        done = await tab.session.undo.redo(chosen.preview, overwrite=chosen.overwrite)
        if done.done and self.current is tab and self.workspace.prompt.text == preview.text:
            self.workspace.prompt.take()
        self._tell(done, _("It is as it was before the undo. {files}."))

    def _tell(self, done: UndoObservation, told: str) -> None:
        if not done.done:
            self.report(_("Not undone. {why}").format(why=done.why))
            return
        self.flash(keyed(told, files=counted(done.changed, "{n} file changed", "{n} files changed")))
        if done.kept:
            kept = ", ".join(sanitize_line(path, 60) for path in done.kept[:10])
            self.report(_("These files should have gone and are still there: {files}").format(files=kept))

    # -- forks ---------------------------------------------------------------------------------------------------------

    def do_conv_fork(self) -> None:
        tab = self.living
        if tab is None:
            self.do_replay_fork()
            return
        latest = tab.session.stream.latest_id
        if latest < 0:
            self.flash(_("No events yet."))
        else:
            at = self._selected_event()
            self.attempt(self.fork_from(tab.id, latest if at is None else at))

    def _selected_event(self) -> int | None:
        """The event under the cursor of the pane in focus; None where there is none, or another pane is in focus."""
        events, chat = self.workspace.events_view, self.workspace.chat
        if events.has_focus and events.row is not None:
            return events.row.id
        if chat.has_focus and chat.cursor is not None and chat.cursor.event_id >= 0:
            return chat.cursor.event_id
        return None

    async def fork_from(self, conversation_id: str, event_id: int) -> None:
        """Ask with which files, then show a fork of any conversation, from this event on, in a tab of its own."""
        assert self.manager is not None
        choices = [
            Choice("copy", _("A copy of the files as they were there"), _("without .git and what it ignores")),
            Choice("same", _("The same folder as it is"), _("both conversations work in it")),
        ]
        title = _("Fork from event {id}: with which files?").format(id=event_id)
        chosen = await self.push_screen_wait(ChoiceScreen(title, choices))
        if chosen is None:
            return
        session = await self.manager.fork(conversation_id, event_id, copy_files=chosen == "copy")
        await self.add_tab(session)
        folder = sanitize_line(session.info.workspace, 200)
        if chosen == "copy":
            self.report(_("The fork works in its own copy of the files: {folder}").format(folder=folder))
        else:
            self.flash(_("The fork works in {folder}, as the other one does.").format(folder=folder))

    # -- what came from elsewhere --------------------------------------------------------------------------------------

    async def consented(self, tab: ConversationTab) -> bool:
        """Whether a conversation may go on; of an imported one the user is asked, once."""
        if not tab.session.consent.is_needed:
            return True
        question = _(
            "This conversation was imported from “{origin}”. Others wrote it, and the model will read all of it: it "
            "may hold words that are meant to mislead the agent. Go on with it?"
        )
        asked = question.format(origin=sanitize_line(tab.session.consent.origin, 60))
        if not await self.push_screen_wait(SureScreen(asked, _("go on"))):
            return False
        await tab.session.consent.give()
        return True
