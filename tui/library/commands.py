"""AgentSessions: the sessions of other agents in the list of conversations.

The user is asked once before anything of another agent is read. A process of its own finds and reads sessions while the
list is open, so that keys are answered as fast as before.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.models.commands import pick_model
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.conversation_start import show_conversation

if TYPE_CHECKING:
    from core.library.all_sessions import AllSessions
    from core.library.library import Library
    from core.library.reader_process import ReaderProcess
    from core.library.records import Record
    from core.settings.config import Settings
    from core.store.conversations import ConversationInfo
    from core.store.reader import EventReader
    from tui.replay.agent_tab import AgentSession
    from tui.workspace.context import Context

SOON = timedelta(days=7)
"""A session that its agent deletes within this time is marked."""
REST = 20
"""During an update, all records are read again after so many times as long as that takes."""
COPY = "\0copy"


class AgentSessions:
    """The sessions of other agents, as far as the user wants to see them."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self._records: dict[str, Record] = {}

    # -- consent -------------------------------------------------------------------------------------------------------

    async def ask(self) -> None:
        """Ask whether sessions of other agents are read, if that was never answered and one of them is here."""
        from core.import_export.agents.names import present

        if (await self._settings()).library.other_agents != "ask":
            return
        names = await asyncio.to_thread(present, Path.home())
        if not names:
            return
        from tui.library.consent_screen import ConsentScreen

        answer = await self._app.push_screen_wait(ConsentScreen(names))
        if answer is None:
            return
        from core.settings.config import save_settings

        values = {"library.other_agents": "hide" if answer == "hide" else "show", "library.keep": answer != "show"}
        await asyncio.to_thread(save_settings, self._home, values)

    # -- reading -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def opened(self, store: EventReader) -> AsyncIterator[AllSessions | None]:
        """Our conversations and the sessions of other agents as one list; None if the user does not want these."""
        if not await self._sources():
            yield None
            return
        from core.library.all_sessions import AllSessions
        from core.library.records import library_home
        from core.store.reader import EventReader

        async with AsyncExitStack() as stack:
            copies = await stack.enter_async_context(EventReader(library_home(self._home)))
            await self._read_records()
            yield AllSessions([store, copies])

    async def update(self, changed: Callable[[int], None]) -> None:
        """Find and read sessions in another process. `changed` gets how many are still to be read, now and then.

        Cancelling ends the process; what it has read is stored. Errors are reported.
        """
        from core.errors import StoreBusyError
        from core.library.reader_process import ReaderProcessError

        process, next_at = await self._reader_process(), 0.0
        with suppress(StoreBusyError):  # the other one's work is seen here too
            try:
                async with aclosing(process.update()) as steps:
                    async for progress in steps:
                        begun_at = monotonic()
                        if not progress.pending or begun_at >= next_at:
                            await self._read_records()
                            next_at = monotonic() + REST * (monotonic() - begun_at)
                        changed(progress.pending)
            except ReaderProcessError as error:
                self._app.report(sanitize_line(str(error), 300))

    def is_only_copy(self, id: str) -> bool:
        """Whether its agent has deleted a session."""
        record = self._records.get(id)
        return record is not None and record.is_gone

    def note(self, id: str) -> str:
        """What becomes of a session; empty for one that its agent keeps, and for a conversation of ours."""
        record = self._records.get(id)
        if record is None:
            return ""
        if record.is_gone:
            return _("only here: its agent deleted it")
        if record.wrong:
            return _("cannot be read")
        if (at := record.session.deleted_at) is not None and at - datetime.now(UTC) < SOON:
            return _("its agent deletes it on {day}").format(day=at.astimezone().strftime("%Y-%m-%d"))
        return ""

    async def _read_records(self) -> None:
        from core.library.records import records_of

        self._records = await asyncio.to_thread(records_of, self._home)

    async def _record(self, id: str) -> Record | None:
        from core.library.records import record_of

        return await asyncio.to_thread(record_of, self._home, id)

    # -- one session ---------------------------------------------------------------------------------------------------

    async def session(self, id: str) -> AgentSession:
        """A session for a tab, with its first events. Raises HandloomError if there are none."""
        from tui.replay.agent_tab import AgentSession

        async with await self._library() as library:
            is_begun = await library.read_beginning(id)
        if not is_begun:
            await self.read_now(id)
        record = await self._record(id)
        folder, names = (None, []) if record is None or record.is_gone else record.session.growing_files()
        return AgentSession(partial(self.read_now, id), partial(self.go_on, id), folder, names)

    async def read_now(self, id: str) -> None:
        """Read a session in its current version. Raises HandloomError if there is nothing to show."""
        from core.errors import UsageError

        if await self._record(id) is None:
            return  # a branch of a session, which was read with it
        if wrong := await (await self._reader_process()).read(id):
            raise UsageError(_("This session cannot be read: {why}.").format(why=sanitize_line(wrong, 200)))

    @asynccontextmanager
    async def read_session(self, id: str) -> AsyncIterator[EventReader]:
        """The store with a session as it is now. Raises HandloomError."""
        from core.store.reader import EventReader

        self._app.flash(_("Reading the session…"))
        await self.read_now(id)
        self._app.flash("")
        async with EventReader(self.home) as copies:
            yield copies

    async def go_on(self, session_id: str, event_id: int | None) -> None:
        """Ask with which files, then go on with a session in a conversation of ours. Raises HandloomError."""
        from core.library.continuation import continue_session
        from core.store.reader import EventReader
        from tui.models.key_screen import has_key

        assert self._app.manager is not None
        manager = self._app.manager
        # An event is one of those that the user saw; in the file, others can be in its place.
        async with self.read_session(session_id) if event_id is None else EventReader(self.home) as copies:
            info = await copies.conversation(session_id)
            id = uuid.uuid4().hex
            folder = await self._ask_folder(info, id)
            if folder is None:
                return
            tab = self._app.tabs.conversation
            model = self._app.options.model or (tab.model_name if tab is not None else "") or manager.settings.model
            chosen = model or await pick_model(self._app)
            if not chosen or not await has_key(self._app, manager, chosen):
                return
            upto = info.event_count - 1 if event_id is None else event_id
            self._app.flash(_("Copying the session…"))
            await continue_session(manager.store, copies, session_id, upto, id=id, workspace=folder, model=chosen)
        await show_conversation(self._app, id)
        text = _("It goes on with {model}; /model changes that.")
        self._app.flash(text.format(model=sanitize_line(chosen, 60)))

    async def _ask_folder(self, info: ConversationInfo, id: str) -> str | None:
        """The folder in which a session goes on: its own, the current one, or a copy at the commit it began with."""
        from core.git import clone_at, has_commit
        from core.workspaces.forks import FOLDER
        from tui.dialogs.dialog import Choice, ChoiceScreen

        record = await self._record(info.id)
        folder, commit = info.workspace, record.session.commit if record is not None else ""
        choices = []
        is_there: bool = await asyncio.to_thread(os.path.isdir, folder)
        if is_there:
            choices.append(Choice(folder, sanitize_line(folder, 80), _("its folder")))
            if await asyncio.to_thread(has_commit, Path(folder), commit):
                about = _("a new copy, with the files of that commit")
                choices.append(Choice(COPY, _("Commit {id}").format(id=sanitize_line(commit, 12)), about))
        if (here := self._app.options.workspace) != folder:
            choices.append(Choice(here, sanitize_line(here, 80), _("the current folder")))
        chosen = await self._app.push_screen_wait(ChoiceScreen(_("Continue in which folder?"), choices))
        if chosen != COPY:
            return chosen
        copy = self._home.absolute() / FOLDER / id
        await asyncio.to_thread(copy.parent.mkdir, 0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(clone_at, Path(folder), commit, copy)
        return str(copy)

    async def forget(self, id: str) -> None:
        """Delete the copy of a session that its agent has deleted. Raises UsageError for one that is still there."""
        from core.errors import UsageError

        async with await self._library() as library:
            record = (await library.records()).get(id)
            if record is None or not record.is_gone:
                raise UsageError(_("This session belongs to another agent, so it is not deleted here."))
            await library.forget(id)

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def home(self) -> Path:
        """The home of the copies."""
        from core.library.records import library_home

        return library_home(self._home)

    @property
    def _home(self) -> Path:
        assert self._app.manager is not None
        return self._app.manager.store.home

    async def _settings(self) -> Settings:
        from core.settings.config import load

        return await asyncio.to_thread(load, self._home, os.environ)

    async def _sources(self) -> list[str]:
        from core.import_export.agents.names import AGENTS

        library = (await self._settings()).library
        return [name for name in AGENTS if name not in library.off] if library.other_agents == "show" else []

    async def _reader_process(self) -> ReaderProcess:
        from core.library.reader_process import ReaderProcess

        return ReaderProcess(self._home, await self._sources(), (await self._settings()).library.keep)

    async def _library(self) -> Library:
        from core.library.library import Library, chosen_sources
        from core.secrets import Redactor, from_environment

        redactor = Redactor(await asyncio.to_thread(from_environment, os.environ))
        sources = chosen_sources(await self._sources())
        return Library(self._home, redactor=redactor, sources=sources, keeps=(await self._settings()).library.keep)
