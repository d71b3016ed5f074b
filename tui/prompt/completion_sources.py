"""The rows of the prompt's completion list: files of the workspace, events of the conversation, and slash commands.

Slash commands are Handloom's, files of the user and of a trusted project, tasks and skills. Files are read each time
the list opens, and when one of their commands is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tui.i18n import _
from tui.prompt import attachments, slash_commands
from tui.prompt.completion import Kind, Row
from tui.prompt.file_picker import FileIndex, list_files
from tui.prompt.history_search import LIMIT
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.events import Envelope
    from core.memory.library import Gathered
    from tui.prompt.view import Prompt
    from tui.workspace.context import Context


FOUND = 50
"""The most rows of a list; to find another one the user types on."""
EVENTS_BACK = 200
"""The latest events, which the list offers; older ones are referred to by typing their number."""
LABEL_CELLS = 300


class CompletionSources:
    """The sources of the prompt's completions."""

    def __init__(self, app: Context) -> None:
        self._app = app
        self._knowledge: Gathered | None = None
        """What applied in the shown folder when the list of commands was opened last."""
        self._commands: tuple[dict[str, slash_commands.UserCommand], list[str]] | None = None
        self._listing: tuple[str, asyncio.Task[FileIndex]] | None = None
        """The folder that was listed last, and its files."""
        self._events: tuple[tuple[str, int], list[Envelope]] | None = None
        """The conversation and its newest event when its events were read, and those that can be referred to."""

    def connect(self, prompt: Prompt) -> None:
        """Give the prompt its sources and its history."""
        prompt.folder = self._app.options.workspace
        prompt.load_history = self._load_history
        prompt.completer.sources = {
            Kind.FILE: self._find_files,
            Kind.EVENT: self._find_events,
            Kind.COMMAND: self.find_commands,
        }

    async def own_commands(self) -> tuple[dict[str, slash_commands.UserCommand], list[str]]:
        """The commands of the user's and the project's files by name, and what is wrong with ignored files."""
        manager = self._app.manager
        if manager is None:
            return {}, []
        from core.trust import folder_survey

        self._knowledge = await manager.trust.gathered(self._app.tabs.folder)
        project = self._knowledge.standing.of(folder_survey.Kind.COMMAND)
        texts = {piece.path: piece.text for piece in project}
        return await asyncio.to_thread(slash_commands.load, manager.store.home, texts)

    async def tasks_and_skills(self) -> dict[str, tuple[str, str]]:
        """The argument hint and the description of each task and skill, by name."""
        if self._app.manager is None:
            return {}
        if self._knowledge is None:
            self._knowledge = await self._app.manager.trust.gathered(self._app.tabs.folder)
        library = self._knowledge.library
        found = {skill.name: ("", skill.description) for skill in library.skills}
        for task in library.tasks():
            found[task.name] = (" ".join(f"{one.name}=" for one in task.inputs), task.description)
        return found

    async def find_commands(self, query: str) -> Sequence[Row]:
        """The commands that contain the query, those that start with it first."""
        if self._commands is None or not query:  # read again each time the list opens
            self._commands = await self.own_commands()
        own, problems = self._commands
        rows = [
            Row(f"/{name} {command.words}".rstrip(), command.help, name + " " * bool(command.words), runs_alone=True)
            for name, command in slash_commands.BUILT_IN.items()
            if name == command.slash or (query and name.startswith(query.lower()))
        ]
        rows += [_command_row(name, command.hint, command.description) for name, command in own.items()]
        for name, (hint, description) in (await self.tasks_and_skills()).items():
            if name not in own and name not in slash_commands.BUILT_IN:
                rows.append(_command_row(name, hint, description))
        if problems and not query:
            self._app.flash(sanitize(" ".join(problems)))
        query = query.lower()
        found = [row for row in rows if query in row.value]
        return sorted(found, key=lambda row: (row.value.strip() != query, not row.value.startswith(query)))

    async def _find_files(self, query: str) -> Sequence[Row]:
        folder = self._app.tabs.folder
        listing = self._listing
        if listing is None or listing[0] != folder or (not query and listing[1].done()):  # again when the list opens
            listing = self._listing = folder, asyncio.create_task(asyncio.to_thread(_index_files, folder))
        index = await asyncio.shield(listing[1])  # one listing for all keys that are typed meanwhile
        return [Row(path, value=path) for path in await asyncio.to_thread(index.find, query, FOUND)]

    async def _find_events(self, query: str) -> Sequence[Row]:
        tab = self._app.tabs.current
        if tab is None:
            return []
        newest = (tab.id, tab.log.latest_id)
        if self._events is None or self._events[0] != newest:
            self._events = newest, attachments.reference_candidates(await tab.log.page(limit=EVENTS_BACK))
        found = (envelope for envelope in self._events[1] if attachments.reference_matches(envelope, query))
        return [_event_row(envelope) for envelope in islice(found, FOUND)]

    async def _load_history(self) -> Sequence[str]:
        await self._app.connected.wait()
        return (
            await self._app.manager.store.user_inputs(workspace=self._app.tabs.folder, limit=LIMIT)
            if self._app.manager is not None
            else []
        )


def _index_files(folder: str) -> FileIndex:
    return FileIndex(list_files(Path(folder)))


def _event_row(envelope: Envelope) -> Row:
    text = sanitize_line(" ".join(attachments.event_text(envelope)[:LABEL_CELLS].split()), LABEL_CELLS)
    kind = envelope.event.kind
    label = _("result of {kind}").format(kind=kind) if attachments.is_result(envelope) else kind
    return Row(f"#{envelope.id} {label}  {text}", str(envelope.source), str(envelope.id))


def _command_row(name: str, hint: str, description: str) -> Row:
    """A command of a file, whose texts may be hostile."""
    label = sanitize_line(f"/{name} {hint}".rstrip(), LABEL_CELLS)
    return Row(label, sanitize_line(description, LABEL_CELLS), name + " " * bool(hint))
