"""FileViewer: pictures and PDF files of the sandbox for the sandbox's own browser, as in OpenHands V0.

It listens on loopback and writes its address to `/tmp/oh-server-url`; `ADDRESS/view?path=/absolute/path` shows a file.
The address contains a token, and only the owner can read it: without isolation, other users share the loopback.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from aiohttp import web

ADDRESS_FILE = Path("/tmp/oh-server-url")  # noqa: S108  # V0's path, which agents know
TYPES = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".webp": "image/webp",
}
"""The files that are shown, by their suffix. None of these types runs scripts."""
log = logging.getLogger(__name__)


class FileViewer:
    """Serves the files below `roots`; without any it is off."""

    def __init__(self, roots: Sequence[Path], address_file: Path = ADDRESS_FILE) -> None:
        self._roots = roots
        self._address_file = address_file
        self._runner: web.AppRunner | None = None
        self.address = ""
        """The address of the viewer; empty before `start`."""

    async def start(self) -> None:
        """Start listening and write the address. Without its file the viewer works, but nobody knows it."""
        if not self._roots:
            return
        token = secrets.token_urlsafe(16)
        app = web.Application()
        app.add_routes([web.get(f"/{token}/view", self._view)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        self.address = f"http://localhost:{port}/{token}"
        try:
            await asyncio.to_thread(_write, self._address_file, self.address)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._address_file, error.strerror or error)

    async def aclose(self) -> None:
        """Stop listening, and remove the address unless another server has replaced it."""
        if self._runner is None:
            return
        with suppress(OSError):
            if await asyncio.to_thread(self._address_file.read_text) == self.address:
                self._address_file.unlink()
        await self._runner.cleanup()

    async def _view(self, request: web.Request) -> web.StreamResponse:
        path = Path(request.query.get("path", ""))
        if not path.is_absolute():
            return _refusal(400, "Add ?path= with the absolute path of a file.")
        type_ = TYPES.get(path.suffix.lower())
        if type_ is None:
            return _refusal(415, f"Only files of these types are shown: {', '.join(TYPES)}.")
        try:
            file = await asyncio.to_thread(path.resolve, strict=True)
            is_shown = file.is_file() and any(file.is_relative_to(root) for root in self._roots)
        except (OSError, ValueError, RuntimeError):
            is_shown = False
        if not is_shown:
            return _refusal(404, "There is no such file.")
        headers = {"Content-Type": type_, "Content-Disposition": "inline", "X-Content-Type-Options": "nosniff"}
        return web.FileResponse(file, headers={**headers, "Cache-Control": "no-store"})


def _refusal(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text)


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, and replace an older one of the same owner. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
