"""What the prompt's lists offer: files of the workspace, events of the conversation, and commands behind a slash.

Commands are Handloom's, files of the user and of a trusted project, tasks and skills. Files are read each time that the
list opens, and when a command of theirs is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.prompt import references, slash_commands
from tui.prompt.completion_list import Row
from tui.prompt.file_picker import FileIndex, list_files
from tui.prompt.prompt_history import LIMIT
from tui.prompt.triggers import Kind
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.events import Envelope
    from core.memory.library import Gathered
    from tui.prompt.view import Prompt
    from tui.workspace.context import Context


FOUND = 50
"""Rows of a list: whoever does not see it among them types on."""
EVENTS_BACK = 200
"""Events among which a reference is looked for; older ones are referred to by typing the number."""
LABEL_CELLS = 300


class CompletionSources:
    """The lists of the prompt."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self._gathered: Gathered | None = None
        """The knowledge that applied when a list was opened last."""
        self._listed: tuple[dict[str, slash_commands.UserCommand], list[str]] | None = None
        self._listing: tuple[str, asyncio.Task[FileIndex]] | None = None
        """The folder that was listed last, and what is in it, or will be."""
        self._events: tuple[tuple[str, int], list[Envelope]] | None = None
        """The conversation and its newest event when its events were read, and those that one may refer to."""

    def serve(self, prompt: Prompt) -> None:
        """Give the prompt its lists and its history."""
        prompt.folder = self._app.options.workspace
        prompt.load_history = self._said_before
        prompt.completer.sources = {
            Kind.FILE: self._find_files,
            Kind.EVENT: self._find_events,
            Kind.COMMAND: self.find_commands,
        }

    async def own_commands(self) -> tuple[dict[str, slash_commands.UserCommand], list[str]]:
        if self._app.manager is None:
            return {}, []
        from core.trust import folder_survey

        project = (await self._knowledge()).standing.of(folder_survey.Kind.COMMAND)
        texts = {piece.path: piece.text for piece in project}
        return await asyncio.to_thread(slash_commands.load, self._app.manager.store.home, texts)

    async def _knowledge(self, *, anew: bool = True) -> Gathered:
        """What counts in the folder in sight; not `anew`, as it was when a list was opened."""
        assert self._app.manager is not None
        if anew or self._gathered is None:
            self._gathered = await self._app.manager.trust.gathered(self._app.tabs.folder)
        return self._gathered

    async def called(self) -> dict[str, tuple[str, str]]:
        """What can be called by a slash beside commands: tasks and skills, each with a hint and what it is for."""
        if self._app.manager is None:
            return {}
        library = (await self._knowledge(anew=False)).library
        found = {one.name: ("", one.description) for one in library.skills}
        for task in library.tasks():
            hint = " ".join(f"{one.name}=" for one in task.inputs)
            found[task.name] = (hint, task.description)
        return found

    async def find_commands(self, query: str) -> Sequence[Row]:
        if self._listed is None or not query:  # anew each time that the list opens
            self._listed = await self.own_commands()
        own, problems = self._listed
        rows = [
            Row(f"/{name} {command.words}".rstrip(), command.help, name + " " * bool(command.words))
            for name, command in slash_commands.BUILT_IN.items()
        ]
        rows += [_command_row(name, command.hint, command.description) for name, command in own.items()]
        for name, (hint, about) in (await self.called()).items():
            if name not in own and name not in slash_commands.BUILT_IN:
                rows.append(_command_row(name, hint, about))
        if problems and not query:
            self._app.flash(sanitize(" ".join(problems)))
        query = query.lower()
        begun = [row for row in rows if row.value.startswith(query)]
        return begun + [row for row in rows if query in row.value and row not in begun]

    async def _find_files(self, query: str) -> Sequence[Row]:
        folder = self._app.tabs.folder
        known = self._listing
        if known is None or known[0] != folder or (not query and known[1].done()):  # anew each time that it opens
            known = self._listing = folder, asyncio.create_task(asyncio.to_thread(_indexed, folder))
        index = await asyncio.shield(known[1])  # one listing for all keys that are typed meanwhile
        return [Row(path, value=path) for path in await asyncio.to_thread(index.find, query, FOUND)]

    async def _find_events(self, query: str) -> Sequence[Row]:
        if self._app.tabs.current is None:
            return []
        log = self._app.tabs.current.log
        newest = (self._app.tabs.current.id, log.latest_id)
        if self._events is None or self._events[0] != newest:
            self._events = newest, references.recent(await log.page(limit=EVENTS_BACK))
        found = (envelope for envelope in self._events[1] if references.matches(envelope, query))
        return [_event_row(envelope) for envelope in islice(found, FOUND)]

    async def _said_before(self) -> Sequence[str]:
        await self._app.connected.wait()
        return (
            await self._app.manager.store.user_inputs(workspace=self._app.tabs.folder, limit=LIMIT)
            if self._app.manager is not None
            else []
        )


def _indexed(folder: str) -> FileIndex:
    return FileIndex(list_files(Path(folder)))


def _event_row(envelope: Envelope) -> Row:
    text = sanitize_line(" ".join(references.said(envelope)[:LABEL_CELLS].split()), LABEL_CELLS)
    kind = envelope.event.kind
    what = _("result of {kind}").format(kind=kind) if references.is_result(envelope) else kind
    return Row(f"#{envelope.id} {what}  {text}", str(envelope.source), str(envelope.id))


def _command_row(name: str, hint: str, about: str) -> Row:
    """A command of a file, which is foreign where the file is a project's."""
    label = sanitize_line(f"/{name} {hint}".rstrip(), LABEL_CELLS)
    return Row(label, sanitize_line(about, LABEL_CELLS), name + " " * bool(hint))
