"""What a sandbox's server answers with when its files are looked at: bounded, and read as what it may be and no more.

The other side may be anybody: a listing without end, an archive that unpacks to a thousand times its size.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib

import aiohttp

MAX_LISTED = 2_000
"""Names of one folder; the rest is left out."""
MAX_LISTING_BYTES = 1024 * 1024
PACKED_BYTES = 64 * 1024
"""By which the archive of one file may be longer than the file."""


class TooLongError(ValueError):
    """There is more than was asked for."""


async def bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The body of an answer. Raises TooLongError as soon as it is too long, ClientError."""
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) > max_bytes:
            response.close()
            raise TooLongError
    return bytes(body)


def names_in(body: bytes) -> list[str]:
    """The names of a listing that are such of files or, with a slash behind, of folders. Raises ValueError."""
    try:
        listed = json.loads(body)
    except RecursionError as error:
        raise ValueError("the listing is nested too deeply") from error
    if not isinstance(listed, list):
        raise ValueError("the listing is no list")
    return [name for name in listed[:MAX_LISTED] if isinstance(name, str) and _is_name(name.removesuffix("/"))]


def only_file(archive: bytes, max_bytes: int) -> bytes | None:
    """The one file of a zip; None where it has none. Raises TooLongError, ValueError."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            files = [one for one in packed.infolist() if not one.is_dir()]
            if not files:
                return None
            with packed.open(files[0]) as file:
                data = file.read(max_bytes + 1)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise ValueError(f"the archive cannot be read: {error}") from error
    if len(data) > max_bytes:
        raise TooLongError
    return data


def _is_name(name: str) -> bool:
    return name.isprintable() and name not in ("", ".", "..") and "/" not in name and len(name.encode()) <= 255
