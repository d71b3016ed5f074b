"""A server at an address: the SDK's transports over HTTP, with a bound on what an answer may hold.

Event streams are bounded by the SDK, an event at a time; every other answer here, and none may come compressed, so
that a small one cannot become a large one. Used in the MCP host.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from core.mcp.stdio import MAX_LINE_BYTES

CONNECT_S = 10.0
READ_S = 300.0
"""How long an event stream may be silent; calls have bounds of their own."""


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error beyond the bound."""

    def __init__(self, body: Any) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        room = MAX_LINE_BYTES
        async for data in self._body:
            room -= len(data)
            if room < 0:
                raise httpx2.ReadError(f"it answered more than {MAX_LINE_BYTES // 1024:,} KB at once")
            yield data

    async def aclose(self) -> None:
        await self._body.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Put the bound around the body of an answer before anyone reads it."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.ReadError("it answered compressed, which it was not asked for")
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Bounded(response.stream)


def _client(headers: Mapping[str, str] | None = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        timeout=timeout or httpx2.Timeout(CONNECT_S, read=READ_S),
        auth=auth,
        event_hooks={"response": [_bound]},
        follow_redirects=False,
    )


@asynccontextmanager
async def address(url: str, transport: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """The streams to a server at an address. Raises what httpx2 raises."""
    if transport == "sse":
        async with sse_client(
            url, headers=dict(headers), timeout=CONNECT_S, sse_read_timeout=READ_S, httpx_client_factory=_client
        ) as streams:
            yield streams
        return
    async with _client(headers) as client, streamable_http_client(url, http_client=client) as streams:
        yield streams
