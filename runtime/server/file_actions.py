"""Reads, writes and edits files: rows of the executor's table.

File work runs in a thread, one edit at a time; it waits neither for the shell nor on the event loop. The texts are
those of OpenHands V0 (`openhands/runtime/action_execution_server.py`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from core.events import (
    ErrorObservation,
    FileEditAction,
    FileEditObservation,
    FileEditSource,
    FileReadAction,
    FileReadObservation,
    FileReadSource,
    FileWriteAction,
    FileWriteObservation,
    Observation,
)
from runtime.server import documents, text_file
from runtime.server.action_executor import Emit, Table
from runtime.server.documents import ExtraMissingError
from runtime.server.edit_history import History
from runtime.server.editor import Edit, Editor, EditorError, excerpt, split_lines
from runtime.server.safe_paths import FileError, Location, Roots
from runtime.server.text_file import BinaryFileError, TextFile, replace

MAX_WHOLE_CONTENT_BYTES = 1024 * 1024
"""Up to this size, an observation has the file before and after the edit; of a larger one, only the diff."""


class Files:
    """Reads, writes and edits files below `roots`.

    `cwd` returns the base of relative paths; `umask` is the user's; `history` keeps previous versions, in memory if it
    is None. Raises OSError if a root cannot be opened.
    """

    def __init__(
        self,
        cwd: Callable[[], str],
        umask: int = 0o022,
        roots: Iterable[str | Path] = ("/",),
        history: History | None = None,
    ) -> None:
        self._cwd = cwd
        self._umask = umask
        self._roots = Roots(roots)
        self._editor = Editor(self._roots, umask, history)
        self._lock = asyncio.Lock()

    def use_history(self, history: History) -> None:
        """Keep previous versions in another history from now on."""
        self._editor.history = history

    @property
    def table(self) -> Table:
        return {FileReadAction: self.read, FileWriteAction: self.write, FileEditAction: self.edit}

    async def read(self, action: FileReadAction, action_id: int, emit: Emit) -> Observation:
        """Read a file's text, or the editor's view of it if the action asks for that."""
        if action.impl_source is FileReadSource.OH_ACI:
            return await self._view(action.path, action.view_range)
        path = self._resolve(action.path)
        try:
            if (text := await self._markdown(path)) is not None:
                return FileReadObservation(path=path, content=_part(text, action))
        except ExtraMissingError as error:
            return ErrorObservation(content=f"ERROR_BINARY_FILE {error}")
        except FileError as error:
            return ErrorObservation(content=str(error))
        return await asyncio.to_thread(self._read, action)

    async def write(self, action: FileWriteAction, action_id: int, emit: Emit) -> Observation:
        """Write a whole file, or replace lines of it."""
        async with self._lock:
            return await asyncio.to_thread(self._write, action)

    async def edit(self, action: FileEditAction, action_id: int, emit: Emit) -> Observation:
        """Carry out one command of the editor."""
        if action.impl_source is not FileEditSource.OH_ACI:
            return ErrorObservation(content="ERROR:\nEdits by a model are not supported. Use the editor's commands.")
        if action.command == "view":
            return await self._view(action.path, None)
        async with self._lock:
            return await asyncio.to_thread(self._edit, action)

    def _read(self, action: FileReadAction) -> Observation:
        path = self._resolve(action.path)
        try:
            with self._roots.locate(path) as place:
                text = text_file.read(place).text
        except OSError as error:
            return self._refused(error, path, "read files")
        except BinaryFileError as error:
            return ErrorObservation(content=f"ERROR_BINARY_FILE{error.what}")
        except FileError as error:
            return ErrorObservation(content=str(error))
        return FileReadObservation(path=path, content=_part(text, action))

    def _write(self, action: FileWriteAction) -> Observation:
        path = self._resolve(action.path)
        content = action.content if not action.content or action.content.endswith("\n") else action.content + "\n"
        try:
            with self._roots.locate(path, umask=self._umask) as place:
                before = TextFile("") if place.status() is None else self._readable(place, action)
                if (action.start, action.end) != (0, -1):
                    lines = split_lines(before.text)
                    after = [] if action.end == -1 else lines[action.end :]
                    content = "".join([*lines[: action.start], content, *after])
                replace(place, dataclasses.replace(before, text=content).encode(), self._umask)
        except OSError as error:
            return self._refused(error, path, "write to files")
        except FileError as error:
            return ErrorObservation(content=str(error))
        return FileWriteObservation(path=action.path)

    def _readable(self, place: Location, action: FileWriteAction) -> TextFile:
        """Return the file's text. A whole write may replace any file, even a binary one."""
        try:
            return text_file.read(place)
        except FileError:
            if (action.start, action.end) == (0, -1):
                return TextFile("")
            raise

    async def _view(self, path: str, view_range: list[int] | None) -> Observation:
        try:
            if os.path.isabs(path) and (text := await self._markdown(path)) is not None:
                content = excerpt(text, path, view_range)
                return FileReadObservation(path=path, content=content, impl_source=FileReadSource.OH_ACI)
        except ExtraMissingError as error:
            return ErrorObservation(content=f"ERROR:\n{text_file.BINARY.format(path=path)} {error}")
        except (EditorError, FileError) as error:
            return ErrorObservation(content=f"ERROR:\n{error}")
        return await asyncio.to_thread(self._view_file, path, view_range)

    async def _markdown(self, path: str) -> str | None:
        """Return a document as Markdown; None if it is not a document or does not exist."""
        if not documents.has_document_extension(path):
            return None
        try:
            fd = await asyncio.to_thread(self._open_document, path)
        except OSError:
            return None
        return None if fd is None else await documents.markdown(fd, path)

    def _open_document(self, path: str) -> int | None:
        with self._roots.locate(path) as place:
            return documents.open_document(place)

    def _view_file(self, path: str, view_range: list[int] | None) -> Observation:
        try:
            self._editor.check("view", path, self._cwd())
            content = self._editor.view(path, view_range)
        except (EditorError, FileError) as error:
            return ErrorObservation(content=f"ERROR:\n{error}")
        except OSError as error:
            return ErrorObservation(content=f"ERROR:\nRan into {error} while trying to read {path}")
        return FileReadObservation(path=path, content=content, impl_source=FileReadSource.OH_ACI)

    def _edit(self, action: FileEditAction) -> Observation:
        try:
            self._editor.check(action.command, action.path, self._cwd())
            edit = self._command(action)
        except (EditorError, FileError) as error:
            return ErrorObservation(content=f"ERROR:\n{error}")
        except OSError as error:
            return ErrorObservation(content=f"ERROR:\nRan into {error} while trying to write to {action.path}")
        is_small = max(len(edit.old or ""), len(edit.new)) <= MAX_WHOLE_CONTENT_BYTES
        return FileEditObservation(
            content=edit.output,
            path=action.path,
            prev_exist=edit.old is not None,
            old_content=edit.old if is_small else None,
            new_content=edit.new if is_small else None,
            impl_source=FileEditSource.OH_ACI,
            diff=edit.diff,
        )

    def _command(self, action: FileEditAction) -> Edit:
        match action.command:
            case "create":
                return self._editor.create(action.path, action.file_text)
            case "str_replace":
                return self._editor.str_replace(action.path, action.old_str, action.new_str)
            case "insert":
                return self._editor.insert(action.path, action.insert_line, action.new_str)
            case _:
                return self._editor.undo_edit(action.path)

    def _resolve(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._cwd(), path))

    def _refused(self, error: OSError, path: str, what: str) -> ErrorObservation:
        match error:
            case FileNotFoundError():
                text = f"File not found: {path}. Your current working directory is {self._cwd()}."
            case IsADirectoryError():
                text = f"Path is a directory: {path}. You can only {what}"
            case PermissionError():
                text = f"Permission denied: {path}. Choose another path."
            case _:
                text = f"{error.strerror or error}: {path}"
        return ErrorObservation(content=text)


def _part(text: str, action: FileReadAction) -> str:
    if (action.start, action.end) == (0, -1):
        return text
    lines = split_lines(text)
    return "".join(lines[max(action.start, 0) : None if action.end == -1 else max(action.end, 0)])
