"""The routes that move files: `/list_files`, `/upload_file`, `/download_files`, as in OpenHands V0
(`openhands/runtime/action_execution_server.py`).

Invariants of uploads: data is stored under a temporary name until it is complete, and then renamed; an upload that
fails or is cancelled leaves nothing behind; of an archive, nothing is placed before all of it was unpacked and nothing
is in its way. Below the destination no symbolic link is followed, since each folder is opened from the one above it; a
link in a file's place is replaced.

Uploads and downloads block, so their calls run in threads, one at a time; none is left running when its request is
cancelled, because its files are closed then. A download is read in chunks; memory grows by less than 1 KB a file,
regardless of its size.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import stat
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from typing import BinaryIO, TypeVar, cast
from urllib.parse import quote

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from runtime.cancellation import run_to_completion, wait_until_done
from runtime.server import zip_archive
from runtime.server.request_guard import RefusedError, json_value
from runtime.server.zip_archive import ArchiveError, Entry, quoted

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class TransferError(Exception):
    """A request that cannot be carried out; the text says why."""


@contextmanager
def opened(folder: int, parts: Sequence[str], make_mode: int | None = None) -> Iterator[int]:
    """Open a folder below another without following links; with `make_mode`, missing folders are made."""
    fd = os.dup(folder)
    try:
        for part in parts:
            is_new = False
            if make_mode is not None:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=fd)
                    is_new = True
            below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
            if is_new and make_mode is not None:
                os.fchmod(fd, make_mode)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def opened_file(folder: int, name: str) -> Iterator[int]:
    """Open a file for reading. A link or FIFO that took its place is neither followed nor awaited."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


MAX_UPLOAD_BYTES = zip_archive.MAX_TOTAL_BYTES
TOO_LARGE = f"An upload is limited to {MAX_UPLOAD_BYTES >> 20} MB. Send it in parts."
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TooLargeError(TransferError):
    """The upload is too large."""


class Upload:
    """An incoming file: written, then placed or unpacked, and closed in any case.

    `umask` is the user's. Raises TransferError, OSError.
    """

    def __init__(self, destination: str, umask: int) -> None:
        if not os.path.isabs(destination) or "\0" in destination:
            raise TransferError("Destination must be an absolute path")  # V0's words
        self._umask = umask
        self._size = 0
        self._made_folders: list[str] = []
        self._temporary = f".handloom-{secrets.token_hex(8)}"
        self._unpacked = self._temporary + ".d"
        with ExitStack() as undo:
            undo.callback(self._remove_folders)
            self._make_folders(destination)
            self._folder = os.open(destination, FOLDER)
            undo.callback(os.close, self._folder)
            file = os.open(self._temporary, _NEW, 0o600, dir_fd=self._folder)
            self._file: BinaryIO = open(file, "w+b")  # noqa: SIM115  # closed by `close`
            undo.pop_all()

    def write(self, data: bytes) -> None:
        """Append data. Raises TooLargeError, OSError."""
        self._size += len(data)
        if self._size > MAX_UPLOAD_BYTES:
            raise TooLargeError(TOO_LARGE)
        self._file.write(data)

    def place(self, name: str) -> None:
        """Move the file to this name in the destination, replacing an existing one."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise TransferError(f"{quoted(name)} is not a valid file name. Send one without folders.")
        self._file.flush()
        _put(self._temporary, self._folder, name, self._folder, 0o666 & ~self._umask)

    def unpack(self) -> None:
        """Unpack the archive into the destination, replacing existing files.

        Raises ArchiveError if an entry is refused or something is in its way; then nothing is placed.
        """
        self._file.flush()
        entries = zip_archive.entries(self._file)
        os.mkdir(self._unpacked, 0o700, dir_fd=self._folder)
        with opened(self._folder, [self._unpacked]) as unpacked:
            for entry in entries:
                self._unpack(entry, unpacked)
            for entry in entries:
                _check_free(entry, self._folder)
            for entry in entries:
                self._place(entry, unpacked)
        self._made_folders.clear()

    def close(self) -> None:
        """Remove what was not placed."""
        with suppress(OSError):  # unwritten data is no longer needed
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=self._folder)
        shutil.rmtree(self._unpacked, ignore_errors=True, dir_fd=self._folder)
        os.close(self._folder)
        self._remove_folders()

    def _unpack(self, entry: Entry, folder: int) -> None:
        with opened(folder, entry.folders, make_mode=0o700) as parent:
            if not entry.is_folder:
                with open(os.open(entry.path[-1], _NEW, 0o600, dir_fd=parent), "wb") as file:
                    for piece in zip_archive.content(self._file, entry):
                        file.write(piece)

    def _place(self, entry: Entry, unpacked: int) -> None:
        with opened(self._folder, entry.folders, make_mode=0o777 & ~self._umask) as target:
            if not entry.is_folder:
                mode = (0o777 if entry.is_executable else 0o666) & ~self._umask
                with opened(unpacked, entry.folders) as source:
                    _put(entry.path[-1], source, entry.path[-1], target, mode)

    def _make_folders(self, path: str) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError as error:
                if os.path.isdir(folder):
                    continue  # another name for a folder that was just made, such as `new/.`, or made by another upload
                raise TransferError(f"{folder} is not a folder. Choose another destination.") from error
            self._made_folders.append(folder)
            os.chmod(folder, 0o777 & ~self._umask)

    def _remove_folders(self) -> None:
        for folder in reversed(self._made_folders):
            with suppress(OSError):
                os.rmdir(folder)
        self._made_folders.clear()


def _check_free(entry: Entry, folder: int) -> None:
    """Check that nothing in the destination is in the way of an entry. Raises ArchiveError."""
    try:
        with opened(folder, entry.folders) as parent:
            if not entry.is_folder and stat.S_ISDIR(
                os.stat(entry.path[-1], dir_fd=parent, follow_symlinks=False).st_mode
            ):
                raise ArchiveError(f"{quoted(entry.name)} cannot be placed: a folder with this name exists.")
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        name = quoted(str(error.filename))
        raise ArchiveError(f"{quoted(entry.name)} cannot be placed: {name} exists and is not a folder.") from error


def _put(source: str, source_folder: int, name: str, folder: int, mode: int) -> None:
    """Move a file to its place, with owner and mode of the file that was there, else with `mode`."""
    with opened_file(source_folder, source) as file:
        with suppress(FileNotFoundError):
            before = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(before.st_mode):
                raise TransferError(
                    f"{quoted(name)} is a folder in the destination. Choose another name or destination."
                )
            if stat.S_ISREG(before.st_mode):
                mode = before.st_mode & 0o777
                with suppress(PermissionError):
                    os.fchown(file, before.st_uid, before.st_gid)
        os.fchmod(file, mode)
    os.replace(source, name, src_dir_fd=source_folder, dst_dir_fd=folder)


UPLOAD_TIMEOUT_S = 300.0
"""Time limit for a whole upload; V0's client gives up after the same time."""
FORM_BYTES = 64 * 1024
"""Allowance for the rest of the form around the file."""
_BOOLEANS = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True) | dict.fromkeys(
    ("0", "off", "f", "false", "n", "no"), False
)
"""As V0's server reads booleans."""


T = TypeVar("T")


class TransferRoutes:
    """The routes of a server that works in `working_dir`; `umask` is the user's."""

    def __init__(self, working_dir: str, umask: int) -> None:
        self._working_dir = working_dir
        self._umask = umask
        self.table = [
            web.post("/list_files", self._list_files),
            web.post("/upload_file", self._upload_file),
            web.get("/download_files", self._download_files, allow_head=False),
        ]

    async def _list_files(self, request: web.Request) -> web.Response:
        body = await json_value(request)
        path = body.get("path") if isinstance(body, dict) else False
        if not isinstance(path, str | None):
            raise RefusedError(400, "the body must be a JSON object with a string 'path'")
        return web.json_response(await _in_thread(lambda: list_folder(os.path.join(self._working_dir, path or ""))))

    async def _upload_file(self, request: web.Request) -> web.Response:
        destination = request.query.get("destination", "/")
        is_archive = _BOOLEANS.get(request.query.get("recursive", "false").lower())
        if is_archive is None:
            raise RefusedError(400, "'recursive' must be true or false")
        if request.content_type != "multipart/form-data":
            raise RefusedError(415, "the body must be multipart/form-data with the field 'file'")
        with _refusing():
            if (request.content_length or 0) > MAX_UPLOAD_BYTES + FORM_BYTES:
                raise TooLargeError(TOO_LARGE)
            async with asyncio.timeout(UPLOAD_TIMEOUT_S) as limit:
                part = await _file_part(request)
                name = part.filename or ""
                async with _closing(partial(Upload, destination, self._umask)) as upload:
                    while data := await _chunk(part):
                        await _in_thread(partial(upload.write, data))
                    limit.reschedule(None)  # no limit for what has arrived completely
                    await _in_thread(upload.unpack if is_archive else partial(upload.place, name))
        return web.json_response({"filename": name, "destination": destination, "recursive": is_archive})

    async def _download_files(self, request: web.Request) -> web.StreamResponse:
        async with _closing(partial(Download, request.query.get("path", ""))) as download:
            response = web.StreamResponse()
            response.content_type = "application/zip"
            name = quote(os.fsencode(download.name) + b".zip")
            response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{name}"
            await response.prepare(request)
            # An error from here on breaks off the answer: an incomplete archive must not look complete.
            while (data := await _in_thread(download.read)) is not None:
                await response.write(data)
            await response.write_eof()
        return response


async def _file_part(request: web.Request) -> BodyPartReader:
    """Return the field `file` of a form; fields before it are skipped. Raises TransferError."""
    with _well_formed():
        form = await request.multipart()
        while (part := await form.next()) is not None:
            if isinstance(part, BodyPartReader) and part.name == "file" and part.filename is not None:
                return part
            await part.release()
    raise TransferError("the form has no field 'file' with a file")


async def _chunk(part: BodyPartReader) -> bytes:
    """Return the next bytes of the file, or none at its end. Raises TransferError."""
    with _well_formed():
        data = await part.read_chunk(CHUNK_BYTES)
    if not data and not part.at_eof():
        raise TransferError("the form ends within the file")
    return data


@contextmanager
def _well_formed() -> Iterator[None]:
    try:
        yield
    except (ValueError, HttpProcessingError) as error:
        raise TransferError(f"the form cannot be read: {error}") from error


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise RefusedError(408, "the body did not arrive in time") from error
    except TooLargeError as error:
        raise RefusedError(413, str(error)) from error
    except (TransferError, ArchiveError) as error:
        raise RefusedError(400, str(error)) from error
    except FileNotFoundError as error:
        raise RefusedError(404, "File not found") from error  # V0's words
    except ConnectionError:
        raise  # the client is gone
    except OSError as error:
        raise RefusedError(500, f"{error.strerror or error}: {error.filename or 'the transfer broke off'}") from error


Transfer = TypeVar("Transfer", Upload, "Download")


@asynccontextmanager
async def _closing(make: Callable[[], Transfer]) -> AsyncIterator[Transfer]:
    """Make something in a thread and close it in one, whatever happens in between. Raises RefusedError."""
    task = asyncio.create_task(asyncio.to_thread(make))
    try:
        with _refusing():
            await wait_until_done(task)
            transfer = task.result()
        yield transfer
    finally:
        if task.exception() is None:
            await _in_thread(task.result().close)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread. Cancelling waits for its end, because it uses what is closed after it."""
    return await run_to_completion(asyncio.to_thread(work))


CHUNK_BYTES = 256 * 1024
_LARGE_BYTES = 1 << 30
"""Far enough below the size that needs zip64, so that compression cannot exceed it."""
_FIRST_YEAR, _LAST_YEAR = 1980, 2107
"""The years that a zip can store."""


class Download:
    """A file, or all files below a folder, as a zip that is made while it is read.

    Links, special files and files that vanish meanwhile are left out. Raises TransferError, FileNotFoundError, OSError.
    """

    def __init__(self, path: str) -> None:
        if not os.path.isabs(path) or "\0" in path:
            raise TransferError("Path must be an absolute path")  # V0's words
        if stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise TransferError(f"{path} is neither a regular file nor a folder. Choose another path.")
        self.name = os.path.basename(os.path.normpath(path))
        self._root = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            for _ in self._files():
                pass  # report unreadable files now, not in the middle of the answer
        except BaseException:
            os.close(self._root)
            raise
        self._pieces = self._zip()

    def read(self) -> bytes | None:
        """Return the next bytes, which may be empty; None at the end. Raises OSError for a file that cannot be read."""
        return next(self._pieces, None)

    def close(self) -> None:
        """Close all files."""
        self._pieces.close()
        os.close(self._root)

    def _zip(self) -> Generator[bytes, None, None]:
        pipe = _Pipe()
        with zipfile.ZipFile(cast(BinaryIO, pipe), "w", compresslevel=1) as packed, closing(self._files()) as files:
            for path, file in files:
                about = os.fstat(file)
                left = about.st_size if stat.S_ISREG(about.st_mode) else 0
                with packed.open(_header(path, about), "w", force_zip64=left > _LARGE_BYTES) as entry:
                    while left and (data := os.read(file, min(left, CHUNK_BYTES))):
                        left -= len(data)
                        entry.write(data)
                        if pipe.size >= CHUNK_BYTES:
                            yield pipe.take()
                yield b""  # lets the caller stop here
        yield pipe.take()

    def _files(self) -> Generator[tuple[str, int], None, None]:
        """Yield path and descriptor of each file and folder below the root, or of the root if it is a file."""
        if stat.S_ISREG(os.fstat(self._root).st_mode):
            yield self.name, self._root
            return
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            parts = waiting.pop()
            with suppress(FileNotFoundError, NotADirectoryError), opened(self._root, parts) as folder:
                if parts:
                    yield "/".join(parts) + "/", folder
                for name in sorted(os.listdir(folder)):
                    with suppress(FileNotFoundError):
                        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                        if stat.S_ISDIR(mode):
                            waiting.append((*parts, name))
                        elif stat.S_ISREG(mode):
                            with opened_file(folder, name) as file:
                                yield "/".join((*parts, name)), file


class _Pipe:
    """Collects what a ZipFile writes until it is taken."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> int:
        self._held.append(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """A ZipFile wants one."""

    def take(self) -> bytes:
        taken = b"".join(self._held)
        self._held.clear()
        self.size = 0
        return taken


def list_folder(path: str) -> list[str]:
    """List a folder: first folders, which end in `/`, then files, both case-insensitively.

    Empty if there is no such folder, or it cannot be read.
    """
    folders, files = [], []
    with suppress(OSError, ValueError), os.scandir(path) as found:
        for entry in found:
            name = _as_text(entry.name)
            if entry.is_dir():
                folders.append(name + "/")
            elif os.path.exists(entry.path):  # V0 leaves out broken links
                files.append(name)
    return sorted(folders, key=str.lower) + sorted(files, key=str.lower)


def _header(path: str, about: os.stat_result) -> zipfile.ZipInfo:
    at = time.localtime(about.st_mtime)[:6]
    header = zipfile.ZipInfo(_as_text(path), at if _FIRST_YEAR <= at[0] <= _LAST_YEAR else (_FIRST_YEAR, 1, 1, 0, 0, 0))
    header.compress_type = zipfile.ZIP_STORED if stat.S_ISDIR(about.st_mode) else zipfile.ZIP_DEFLATED
    header.external_attr = (about.st_mode & 0xFFFF) << 16
    return header


def _as_text(name: str) -> str:
    """Return a file name, which may have any bytes, as text for JSON and zip."""
    return os.fsencode(name).decode("utf-8", "replace")
