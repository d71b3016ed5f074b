"""Reads office files and PDFs as Markdown.

The libraries of the extra `documents` parse untrusted files, so they run in a separate process (`document_converter`)
without network and with limits on memory and time. Its output goes to an unnamed file of limited size.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from typing import BinaryIO

from core.interpreter import start_command
from runtime.server import processes
from runtime.server.safe_paths import FileError, Location

TIME_LIMIT_S = 20.0
LIBRARY_MISSING = 3
"""Exit status of the process if the extra is not installed."""
MAX_TEXT_BYTES = 16 * 1024 * 1024

_SIGNATURES = {".docx": b"PK\x03\x04", ".xlsx": b"PK\x03\x04", ".pptx": b"PK\x03\x04", ".pdf": b"%PDF-"}
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")


class ExtraMissingError(Exception):
    """The libraries are not installed; the text says what to do."""


def may_be_one(path: str) -> bool:
    """Return whether a path has the extension of a document."""
    return _kind(path) in _SIGNATURES


def open_document(place: Location) -> int | None:
    """Open a document, recognised by its extension and first bytes; None for other files. Raises FileError, OSError."""
    fd = place.open_file()
    try:
        if os.pread(fd, 8, 0).startswith(_SIGNATURES[_kind(place.path)]):
            return os.dup(fd)
    finally:
        os.close(fd)
    return None


async def markdown(fd: int, path: str) -> str:
    """Convert a document to Markdown and close `fd`. Cancelling ends the process.

    Raises ExtraMissingError, FileError, OSError.
    """
    kind = _kind(path)
    with tempfile.TemporaryFile() as out:
        try:
            process = _started(fd, out, kind)
        finally:
            os.close(fd)
        status = await _exit_status(process, path, kind)
        if status == LIBRARY_MISSING:
            raise ExtraMissingError(f"To read {kind} files, install the extra: pip install 'handloom[documents]'.")
        if status != 0:
            raise FileError(f"File validation failed for {path}: It cannot be read as a {kind} file.")
        out.seek(0)
        return out.read(MAX_TEXT_BYTES).decode("utf-8", "replace")


def _started(document: int, out: BinaryIO, kind: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        start_command("runtime.server.document_converter", kind),
        stdin=document,
        stdout=out,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        start_new_session=True,
    )


def _kind(path: str) -> str:
    return os.path.splitext(path)[1].lower()


async def _exit_status(process: subprocess.Popen[bytes], path: str, kind: str) -> int:
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            return await processes.wait_for_exit(process)
    except TimeoutError:
        raise FileError(
            f"File validation failed for {path}: Reading it as a {kind} file took longer than {TIME_LIMIT_S:g} s. "
            "Convert it with a command instead."
        ) from None
    finally:
        process.kill()
        process.wait()
