"""One request to the engine whose answer is a stream of JSON objects, such as the progress of a build.

The SDK blocks while the engine says nothing, so a worker thread reads; what it reads is taken on the event loop, in
order. Cancelling shuts the connection, upon which the engine gives up what it was asked for and the thread ends.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any

from runtime.image.failures import EngineError

if TYPE_CHECKING:
    import docker
    from requests import Response

Message = Mapping[str, Any]


class EngineStream:
    """One request, read to its end by `follow`."""

    def __init__(
        self,
        client: docker.DockerClient,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        data: bytes = b"",
    ) -> None:
        self._api = client.api
        self._url = f"{client.api.base_url}/v{client.api.api_version}{path}"
        self._request = {"params": dict(params), "headers": dict(headers), "data": data}
        self._response: Response | None = None
        self._given_up = Event()

    async def follow(self, take: Callable[[Message], None]) -> None:
        """Take every message until the last. Raises EngineError, and what the SDK raises where the engine is gone.

        Cancelling waits for the thread, which ends at once when the engine has begun to answer.
        """
        loop = asyncio.get_running_loop()
        reading = asyncio.ensure_future(asyncio.to_thread(self._read, lambda m: loop.call_soon_threadsafe(take, m)))
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            self._given_up.set()
            self._shut()
            await asyncio.wait([reading])
            reading.exception()  # the connection's end, in whatever form it shows
            raise

    def _read(self, take: Callable[[Message], object]) -> None:
        response = self._response = self._api.post(self._url, stream=True, timeout=None, **self._request)
        with response:
            if response.status_code != 200:
                raise EngineError(_reason(response), response.status_code)
            for line in response.iter_lines():
                if self._given_up.is_set():
                    return
                if line:
                    take(json.loads(line))

    def _shut(self) -> None:
        """Wake the thread that waits in a read."""
        connection = getattr(self._response and self._response.raw, "connection", None)
        if (waiting := getattr(connection, "sock", None)) is not None:
            with suppress(OSError):
                waiting.shutdown(socket.SHUT_RDWR)


def _reason(response: Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"
