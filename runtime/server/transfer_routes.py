"""The routes that move files: `/list_files`, `/upload_file`, `/download_files`, in the forms of OpenHands V0.

They translate between HTTP and `uploads` and `downloads`, whose calls block and so run in threads; none is left running
when its request is given up, since what it works on is closed then.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Protocol, TypeVar
from urllib.parse import quote

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from runtime.cancellation import ended, seen_through
from runtime.server.downloads import CHUNK_BYTES, Download, list_folder
from runtime.server.requests import RefusedError, json_value
from runtime.server.uploads import MAX_UPLOAD_BYTES, TOO_LARGE, TooLargeError, TransferError, Upload
from runtime.server.zip_archive import ArchiveError

UPLOAD_TIMEOUT_S = 300.0
"""For the whole of an upload; V0's client gives up after as long."""
FORM_BYTES = 64 * 1024
"""What a form may put around the file."""
_TRUTH = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True) | dict.fromkeys(
    ("0", "off", "f", "false", "n", "no"), False
)
"""As V0's server reads it."""


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T")
C = TypeVar("C", bound=_Closable)


class TransferRoutes:
    """Routes for a server that works in `working_dir`; `umask` is the user's."""

    def __init__(self, working_dir: str, umask: int) -> None:
        self._working_dir = working_dir
        self._umask = umask
        self.table = [
            web.post("/list_files", self._list_files),
            web.post("/upload_file", self._upload_file),
            web.get("/download_files", self._download_files, allow_head=False),
        ]

    async def _list_files(self, request: web.Request) -> web.Response:
        asked = await json_value(request)
        path = asked.get("path") if isinstance(asked, dict) else False
        if not isinstance(path, str | None):
            raise RefusedError(400, "the body is a JSON object, and 'path' in it a string")
        return web.json_response(await _in_thread(lambda: list_folder(os.path.join(self._working_dir, path or ""))))

    async def _upload_file(self, request: web.Request) -> web.Response:
        destination = request.query.get("destination", "/")
        is_archive = _TRUTH.get(request.query.get("recursive", "false").lower())
        if is_archive is None:
            raise RefusedError(400, "'recursive' is true or false")
        if request.content_type != "multipart/form-data":
            raise RefusedError(415, "the body is multipart/form-data with the field 'file'")
        with _refusing():
            if (request.content_length or 0) > MAX_UPLOAD_BYTES + FORM_BYTES:
                raise TooLargeError(TOO_LARGE)
            async with asyncio.timeout(UPLOAD_TIMEOUT_S) as limit:
                part = await _file_part(request)
                name = part.filename or ""
                async with _opened(partial(Upload, destination, self._umask)) as upload:
                    while data := await _chunk(part):
                        await _in_thread(partial(upload.write, data))
                    limit.reschedule(None)  # what has arrived is placed, or refused for what it is
                    await _in_thread(upload.unpack if is_archive else partial(upload.place, name))
        return web.json_response({"filename": name, "destination": destination, "recursive": is_archive})

    async def _download_files(self, request: web.Request) -> web.StreamResponse:
        async with _opened(partial(Download, request.query.get("path", ""))) as download:
            response = web.StreamResponse()
            response.content_type = "application/zip"
            name = quote(os.fsencode(download.name) + b".zip")
            response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{name}"
            await response.prepare(request)
            # What cannot be read from here on breaks the answer off: an archive that lacks a file must not look whole.
            while (data := await _in_thread(download.read)) is not None:
                await response.write(data)
            await response.write_eof()
        return response


async def _file_part(request: web.Request) -> BodyPartReader:
    """The field `file` of a form; what stands before it is passed over. Raises TransferError."""
    with _well_formed():
        form = await request.multipart()
        while (part := await form.next()) is not None:
            if isinstance(part, BodyPartReader) and part.name == "file" and part.filename is not None:
                return part
            await part.release()
    raise TransferError("the form has no field 'file' with a file in it")


async def _chunk(part: BodyPartReader) -> bytes:
    """The next bytes of the file, none at its end. Raises TransferError."""
    with _well_formed():
        data = await part.read_chunk(CHUNK_BYTES)
    if not data and not part.at_eof():
        raise TransferError("the form breaks off within the file")
    return data


@contextmanager
def _well_formed() -> Iterator[None]:
    try:
        yield
    except (ValueError, HttpProcessingError) as error:
        raise TransferError(f"the form cannot be read: {error}") from error


@contextmanager
def _refusing() -> Iterator[None]:
    """Turns what keeps a transfer from being into a RefusedError."""
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
        raise  # nobody is there to read an answer
    except OSError as error:
        raise RefusedError(500, f"{error.strerror or error}: {error.filename or 'the transfer broke off'}") from error


@asynccontextmanager
async def _opened(make: Callable[[], C]) -> AsyncIterator[C]:
    """Something that is made in a thread and closed in one, whatever happens between. Raises RefusedError."""
    making = asyncio.create_task(asyncio.to_thread(make))
    try:
        with _refusing():
            await ended(making)
            made = making.result()
        yield made
    finally:
        if making.exception() is None:
            await _in_thread(making.result().close)


async def _in_thread(work: Callable[[], T]) -> T:
    """What `work` answers. Cancelling waits for its end: it uses what is closed after it."""
    return await seen_through(asyncio.to_thread(work))
