"""Reads office files and PDFs as Markdown.

The libraries of the extra `documents` parse untrusted files, so they run in a separate process:
`python -m runtime.server.documents KIND` converts a document from standard input to Markdown on standard output, which
is an unnamed file of limited size. Before it reads the document it limits its own memory, CPU time and output size, and
gives up the network and starting programs. The libraries are imported after that.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from io import BytesIO
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


def has_document_extension(path: str) -> bool:
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
        process = _start(fd, out, kind)
        try:
            async with asyncio.timeout(TIME_LIMIT_S):
                status = await processes.wait_for_exit(process)
        except TimeoutError:
            raise FileError(
                f"File validation failed for {path}: Reading it as a {kind} file took longer than {TIME_LIMIT_S:g} s. "
                "Convert it with a command instead."
            ) from None
        finally:
            process.kill()
            process.wait()
        if status == LIBRARY_MISSING:
            raise ExtraMissingError(f"To read {kind} files, install the extra: pip install 'handloom[documents]'.")
        if status != 0:
            raise FileError(f"File validation failed for {path}: It cannot be read as a {kind} file.")
        out.seek(0)
        return out.read(MAX_TEXT_BYTES).decode("utf-8", "replace")


def _start(fd: int, out: BinaryIO, kind: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            start_command("runtime.server.documents", kind),
            stdin=fd,
            stdout=out,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            start_new_session=True,
        )
    finally:
        os.close(fd)


def _kind(path: str) -> str:
    return os.path.splitext(path)[1].lower()


MEMORY_BYTES = 1024**3
_LIMITS = {
    resource.RLIMIT_AS: MEMORY_BYTES,
    resource.RLIMIT_CPU: int(TIME_LIMIT_S),
    resource.RLIMIT_FSIZE: MAX_TEXT_BYTES,
    resource.RLIMIT_CORE: 0,
}
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_REFUSED = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork")


def give_up_rights() -> None:
    """Limit this process for good. Limits that the system does not have are skipped; the audit hook is Python's own."""
    for limit, value in _LIMITS.items():
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (value, value))
    if sys.platform == "linux":
        ctypes.CDLL(None).unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: object) -> None:
    if event.startswith(_REFUSED):
        raise PermissionError(f"a document does not need {event}")


def _docx(file: BytesIO) -> Iterator[str]:
    for block in import_module("docx").Document(file).iter_inner_content():
        if hasattr(block, "rows"):
            yield _table([cell.text for cell in row.cells] for row in block.rows)
        elif text := block.text.strip():
            yield _marked(str(getattr(block.style, "name", "")), text)


def _marked(style: str, text: str) -> str:
    """Format a paragraph according to the name of its style."""
    if style == "Title":
        return f"# {text}"
    if style.startswith("Heading ") and style[8:].isdecimal():
        return f"{'#' * min(6, int(style[8:]))} {text}"
    return f"- {text}" if style.startswith("List") else text


def _xlsx(file: BytesIO) -> Iterator[str]:
    book = import_module("openpyxl").load_workbook(file, read_only=True, data_only=True)
    for sheet in book.worksheets:
        yield f"## {sheet.title}"
        yield _table(
            ["" if value is None else str(value) for value in row] for row in sheet.iter_rows(values_only=True)
        )


def _pptx(file: BytesIO) -> Iterator[str]:
    for number, slide in enumerate(import_module("pptx").Presentation(file).slides, 1):
        yield f"<!-- Slide number: {number} -->"
        title = slide.shapes.title
        for shape in slide.shapes:
            if shape.has_text_frame and (text := shape.text_frame.text.strip()):
                is_title = title is not None and shape.shape_id == title.shape_id
                yield f"# {text}" if is_title else text
            elif shape.has_table:
                yield _table([cell.text for cell in row.cells] for row in shape.table.rows)
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame.text.strip()):
            yield f"### Notes:\n{notes}"


def _pdf(file: BytesIO) -> Iterator[str]:
    yield import_module("pdfminer.high_level").extract_text(file).replace("\f", "\n")


def _table(rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    if lines:
        lines.insert(1, "|" + " --- |" * lines[0].replace("\\|", "").count(" | ") + " --- |")
    return "\n".join(lines)


KINDS: Mapping[str, Callable[[BytesIO], Iterator[str]]] = {
    ".docx": _docx,
    ".xlsx": _xlsx,
    ".pptx": _pptx,
    ".pdf": _pdf,
}


def main(kind: str) -> int:
    give_up_rights()
    try:
        for block in KINDS[kind](BytesIO(sys.stdin.buffer.read())):
            sys.stdout.buffer.write(block.encode("utf-8", "replace") + b"\n\n")
        sys.stdout.buffer.flush()
    except ModuleNotFoundError:
        return LIBRARY_MISSING
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
