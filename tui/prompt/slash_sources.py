"""What can be called by a slash: Handloom's commands, files of the user's and of a trusted project, tasks and skills.

A mixin of the app's handlers. Files are read each time that the list opens, and when one is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.prompt import slash_commands
from tui.prompt.completion_list import Row
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.frame import Frame

if TYPE_CHECKING:
    from core.memory.library import Gathered


LABEL_CELLS = 300


class Slashes(Frame):
    """The list behind a slash, and what its names stand for."""

    _gathered: Gathered | None = None
    _listed: tuple[dict[str, slash_commands.UserCommand], list[str]] | None = None

    @property
    def _folder_in_sight(self) -> str:
        return self.current.folder if self.current is not None else self.options.workspace

    async def own_commands(self) -> tuple[dict[str, slash_commands.UserCommand], list[str]]:
        if self.manager is None:
            return {}, []
        from core.trust.folder_survey import Kind

        project = (await self._knowledge()).standing.of(Kind.COMMAND)
        texts = {piece.path: piece.text for piece in project}
        return await asyncio.to_thread(slash_commands.load, self.manager.store.home, texts)

    async def _knowledge(self, *, anew: bool = True) -> Gathered:
        """What counts in the folder in sight; not `anew`, as it was when a list was opened."""
        assert self.manager is not None
        if anew or self._gathered is None:
            self._gathered = await self.manager.trust.gathered(self._folder_in_sight)
        return self._gathered

    async def called(self) -> dict[str, tuple[str, str]]:
        """What can be called by a slash beside commands: tasks and skills, each with a hint and what it is for."""
        if self.manager is None:
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
            self.flash(sanitize(" ".join(problems)))
        query = query.lower()
        begun = [row for row in rows if row.value.startswith(query)]
        return begun + [row for row in rows if query in row.value and row not in begun]


def _command_row(name: str, hint: str, about: str) -> Row:
    """A command of a file, which is foreign where the file is a project's."""
    label = sanitize_line(f"/{name} {hint}".rstrip(), LABEL_CELLS)
    return Row(label, sanitize_line(about, LABEL_CELLS), name + " " * bool(hint))
