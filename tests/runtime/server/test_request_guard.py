"""Refused connections over a real socket: browsers with every kind of request, and any number of strangers."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from runtime.client import ActionExecutionClient
from runtime.protocol import KEY_HEADER
from runtime.server import request_guard as guard_module
from runtime.server.request_guard import MAX_STRANGERS, IdleTimeout, RequestGuard
from tests.runtime.action_server import KEY, Server
from tests.stopped_clock import stopped_clock

RUN = b'{"action": {"action": "run", "args": {"command": "touch done"}}}'
ORIGIN = {"Origin": "http://evil.example"}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
BROWSERS: dict[str, tuple[str, dict[str, str]]] = {
    "a script": ("POST", {**ORIGIN, "Content-Type": "application/json"}),
    "a form": ("POST", {**ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}),
    "a form with a file": ("POST", {**ORIGIN, "Content-Type": "multipart/form-data; boundary=b"}),
    "a form as text": ("POST", {**ORIGIN, "Content-Type": "text/plain"}),
    "a frame that is nobody's": ("POST", {"Origin": "null", "Content-Type": "text/plain"}),
    "a page of this machine": ("POST", {"Origin": "http://127.0.0.1:3000", "Content-Type": "application/json"}),
    "a WebSocket": ("GET", {**ORIGIN, **UPGRADE}),
    "a question before a request": ("OPTIONS", {**ORIGIN, "Access-Control-Request-Method": "POST"}),
    "a name that was bound anew": ("POST", {"Host": "evil.example", "Content-Type": "application/json"}),
    "a WebSocket by such a name": ("GET", {"Host": "evil.example:8000", **UPGRADE}),
}


class TestBrowsers:
    @pytest.mark.parametrize("key", [KEY, None], ids=["with the key", "without"])
    @pytest.mark.parametrize("kind", BROWSERS)
    async def test_browser_requests_are_refused(
        self, server: Server, http: aiohttp.ClientSession, kind: str, key: str | None
    ) -> None:
        method, headers = BROWSERS[kind]
        headers = headers if key is None else {**headers, KEY_HEADER: key}
        async with http.request(method, server.url + "/execute_action", data=RUN, headers=headers) as response:
            assert response.status == 403
            said = {name.lower() for name in response.headers}
        assert not {name for name in said if name.startswith("access-control-")}
        assert "set-cookie" not in said

    @pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
    async def test_form_content_types_are_refused_even_with_the_key(
        self, server: Server, http: aiohttp.ClientSession, content_type: str
    ) -> None:
        headers = {KEY_HEADER: KEY, "Content-Type": content_type}
        async with http.post(server.url + "/execute_action", data=RUN, headers=headers) as response:
            assert response.status == 415

    async def test_key_in_the_address_or_in_a_cookie_is_ignored(
        self, server: Server, http: aiohttp.ClientSession
    ) -> None:
        for extra in (f"?session_api_key={KEY}", f"?{KEY_HEADER}={KEY}", f"#{KEY}"):
            async with http.get(f"{server.url}/alive{extra}", cookies={KEY_HEADER: KEY}) as response:
                assert response.status == 401


def test_server_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="everybody could use it"):
        RequestGuard("")


def test_short_key_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    RequestGuard("k" * 32)
    assert not caplog.messages
    RequestGuard("k" * 31)
    assert "could be guessed" in caplog.messages[0]


@pytest.mark.parametrize(("files", "strangers"), [(100_000, 1000), (1300, 1000), (1299, 999), (400, 100), (320, 50)])
def test_limit_of_strangers_depends_on_open_files(files: int, strangers: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, before[1]), before[1]))
    try:
        assert RequestGuard(KEY).max_strangers == strangers
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Noted:
    """Takes the place of a web server and of its protocol, and notes what reaches it."""

    def __init__(self) -> None:
        self.connections: list[object] = []
        self.reached: list[object] = []

    def __call__(self) -> Noted:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.reached.append((name, *given))


class Wire(asyncio.Transport):
    """A connection that records which protocol receives its data."""

    taker: object = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.taker = protocol


async def test_guard_passes_all_events_to_the_protocol() -> None:
    noted, wire = Noted(), Wire()
    stranger = RequestGuard(KEY).watch(cast(web.Server, noted))
    assert isinstance(stranger, asyncio.Protocol)
    stranger.connection_made(wire)
    stranger.data_received(b"GET / HTTP/1.1\r\n")
    assert wire.taker is None
    stranger.pause_writing()
    stranger.resume_writing()
    stranger.eof_received()
    stranger.connection_lost(None)
    assert noted.reached == [
        ("connection_made", wire),
        ("data_received", b"GET / HTTP/1.1\r\n"),
        ("pause_writing",),
        ("resume_writing",),
        ("eof_received",),
        ("connection_lost", None),
    ]


@pytest.mark.parametrize(
    ("head", "is_enough"),
    [
        (f"{KEY_HEADER}: {KEY[:31]}", False),
        (f"{KEY_HEADER}: {KEY[:32]}", True),
        (f"{KEY_HEADER.upper()}:\t {KEY}", True),
        (f"{KEY_HEADER}: {'x' * 32}", True),
        (f"X: {KEY}", False),
        ("X: " + "x" * (16 * 1024 - 21), False),
        ("X: " + "x" * (16 * 1024 - 20), True),
    ],
    ids=["less than half", "half", "whole", "another", "elsewhere", "16 KiB", "more"],
)
async def test_header_is_inspected_until_half_a_key_or_the_limit(head: str, is_enough: bool) -> None:
    noted, wire = Noted(), Wire()
    stranger = RequestGuard(KEY).watch(cast(web.Server, noted))
    assert isinstance(stranger, asyncio.Protocol)
    stranger.connection_made(wire)
    for piece in (b"GET / HTTP/1.1\r\n", b"\r\n", head.encode()):
        stranger.data_received(piece)
    assert wire.taker is (noted if is_enough else None)


class TestStrangers:
    @asynccontextmanager
    async def dripping(self, server: Server, number: int) -> AsyncIterator[list[asyncio.Task[None]]]:
        """A number of clients that send their header byte by byte and reconnect when they are closed."""

        async def drip(first: asyncio.Event) -> None:
            while True:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                gone = asyncio.create_task(reader.read())
                try:
                    for byte in b"GET /alive HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 1000:
                        writer.write(bytes([byte]))
                        first.set()
                        if (await asyncio.wait([gone], timeout=0.05))[0]:
                            break
                except ConnectionError:
                    pass
                finally:
                    gone.cancel()
                    await asyncio.gather(gone, return_exceptions=True)
                    writer.close()

        begun = [asyncio.Event() for _ in range(number)]
        tasks = [asyncio.create_task(drip(event)) for event in begun]
        try:
            await asyncio.gather(*(event.wait() for event in begun))
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def test_slow_strangers_do_not_block_a_client(self, server: Server) -> None:
        server.guard.max_strangers = 50
        async with self.dripping(server, 100):
            for _ in range(20):
                async with ActionExecutionClient(KEY, url=server.url) as client:
                    with stopped_clock(after_s=0.5):
                        assert await client.alive()

    async def test_number_of_stranger_connections_is_limited(
        self, server: Server, client: ActionExecutionClient
    ) -> None:
        assert await client.alive()
        before, open_ = _connections(), []
        try:
            for _ in range(30):
                made = [asyncio.open_connection("127.0.0.1", server.port) for _ in range(50)]
                open_ += [writer for _, writer in await asyncio.gather(*made)]
                assert await client.alive()
                assert _connections() - before <= MAX_STRANGERS + 50
        finally:
            for writer in open_:
                writer.close()
            await asyncio.gather(*(writer.wait_closed() for writer in open_), return_exceptions=True)

    @pytest.mark.parametrize("is_silent", [True, False], ids=["silent at first", "a piece at a time"])
    async def test_slow_client_is_served_while_400_connections_a_second_are_opened(
        self, server: Server, is_silent: bool
    ) -> None:
        """The others send the beginning of a request, as the slow client does, and stay; 800 are opened meanwhile."""
        head = f"GET /alive HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {KEY}\r\n\r\n".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        others = []
        try:
            for tenth in range(20):
                if not is_silent:
                    writer.write(head[tenth : tenth + 1])
                made = [asyncio.open_connection("127.0.0.1", server.port) for _ in range(40)]
                for pair in await asyncio.gather(*made):
                    pair[1].write(head[: 10 + tenth])
                    others.append(pair[1])
            writer.write(head if is_silent else head[20:])
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        finally:
            await _closed([writer, *others])

    async def test_connection_with_half_of_the_key_is_not_closed_for_others(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server.guard, "max_strangers", 10)
        head = f"GET /alive HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: ".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        wrong, wrong_writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + KEY[:40].encode())
        wrong_writer.write(head + KEY[:20].encode() + b"x" * 20)
        others = []
        try:
            for _ in range(40):
                others.append((await asyncio.open_connection("127.0.0.1", server.port))[1])
            assert await wrong.read() == b""
            writer.write(KEY[40:].encode() + b"\r\n\r\n")
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        finally:
            await _closed([writer, wrong_writer, *others])

    async def test_request_without_the_key_does_not_extend_the_timeout(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither a refused request nor an endless body extends the timeout."""
        monkeypatch.setattr(guard_module, "HEADER_TIMEOUT_S", 0.2)
        for length in (0, 10**9):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"POST /upload_file HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
            writer.write(head.encode())
            async with asyncio.timeout(60):
                said = await reader.read()
            assert said.startswith(b"HTTP/1.1 401 ")
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    async def test_client_with_the_key_may_be_idle(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard_module, "HEADER_TIMEOUT_S", 0.1)
        ask = f"GET /alive HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {KEY}\r\n\r\n".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(ask)
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        stranger, strangers_writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await stranger.read() == b""
        writer.write(ask)
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        for each in (writer, strangers_writer):
            each.close()
            await each.wait_closed()


async def _closed(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def _connections() -> int:
    """Of servers in this process."""
    return sum(isinstance(each, RequestHandler) and each.transport is not None for each in gc.get_objects())


SOON_S = 0.05


async def connection(end: asyncio.Event) -> None:
    await end.wait()


async def test_server_ends_if_no_client_connects() -> None:
    left = asyncio.Event()
    IdleTimeout(SOON_S).start(left.set)
    async with asyncio.timeout(20):
        await left.wait()


async def test_server_ends_after_the_last_client() -> None:
    left, first_ends, second_ends = asyncio.Event(), asyncio.Event(), asyncio.Event()
    timeout = IdleTimeout(SOON_S)
    timeout.start(left.set)
    first, second = (asyncio.create_task(connection(end)) for end in (first_ends, second_ends))
    timeout.add(first)
    timeout.add(second)
    first_ends.set()
    await first
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(4 * SOON_S, later.set_result, None)  # of the loop's own clock
    await later
    assert not left.is_set()
    second_ends.set()
    async with asyncio.timeout(20):
        await left.wait()


async def test_server_stays_without_a_timeout_or_before_start() -> None:
    ended = asyncio.Event()
    ended.set()
    loop = asyncio.get_running_loop()
    left: list[str] = []
    patient, not_begun = IdleTimeout(None), IdleTimeout(0.0)
    patient.start(lambda: left.append("patient"))
    for timeout in (patient, not_begun):
        task = asyncio.create_task(connection(ended))
        timeout.add(task)
        await task
    later = loop.create_future()
    loop.call_later(SOON_S, later.set_result, None)
    await later
    assert left == []
