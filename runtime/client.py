"""ActionExecutionClient: sends actions to an action server, whatever kind of sandbox it runs in.

The server may be hostile: answers are decoded by `protocol`, listings and archives are size-limited. A server that
cannot be reached, breaks off or sends nonsense raises RuntimeUnavailableError with the next step. Only connecting has a
time limit here; actions are limited in the sandbox. Redirects are not followed, because the key is for one server.
`reconnecting_client` has a subclass that survives broken connections.
"""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import zipfile
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import aiohttp

from core.errors import RuntimeUnavailableError, UsageError
from core.events import Action, Frame, Observation, PageShown
from core.sandbox_types import Connect, Job, Port, SandboxUsage
from runtime.protocol import (
    INSTANCE_HEADER,
    JSON_TYPE,
    KEY_HEADER,
    NDJSON_TYPE,
    PROTOCOL_VERSION,
    VERSION_HEADER,
    LineSplitter,
    ProtocolError,
    decode_line,
    decode_object,
    editor_of,
    encode_request,
    git_entry_of,
    jobs_of,
    ports_of,
    usage_of,
)
from runtime.sandbox_facts import MAX_OUTPUT_BYTES, parsed

T = TypeVar("T")

MAX_LISTED = 2_000
"""The most names taken from one folder; the rest is dropped."""
MAX_LISTING_BYTES = 1024 * 1024
ARCHIVE_OVERHEAD_BYTES = 64 * 1024
"""How much longer than its file an archive may be."""
CONNECT_TIMEOUT_S = 10.0
ALIVE_TIMEOUT_S = 5.0
"""A healthy server answers within a millisecond; one on a machine that swaps, within seconds."""
EDITOR_TIMEOUT = aiohttp.ClientTimeout(total=30.0)
"""The first start of an editor unpacks extensions."""
PIECE_BYTES = 64 * 1024
MAX_SERVER_LINE_BYTES = 8 * 1024 * 1024
"""A line of an MCP server, at most 1 MB, as JSON."""
_SERVER_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=60.0)
"""The action server sends a sign of life every 15 seconds."""
_QUERY_TIMEOUT = aiohttp.ClientTimeout(total=ALIVE_TIMEOUT_S)
_GONE = "The sandbox has ended ({reason}). Send a message to start a new one; files in the workspace are kept."
_OTHER_SERVER = "another server answers in its place"
_OTHER_VERSION = (
    "The sandbox uses protocol version {theirs} and this Handloom version {ours}. Use a sandbox of the same "
    "Handloom: rebuild its image, or install the version that it was built with."
)


class TooLongError(ValueError):
    """There is more data than was asked for."""


async def bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Read the body of a response. Raises TooLongError as soon as it is too long, ClientError."""
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) > max_bytes:
            response.close()
            raise TooLongError
    return bytes(body)


def names_in(body: bytes) -> list[str]:
    """Return the valid names in a folder listing; folders end in a slash. Raises ValueError."""
    try:
        listed = json.loads(body)
    except RecursionError as error:
        raise ValueError("the listing is nested too deeply") from error
    if not isinstance(listed, list):
        raise ValueError("the listing is not a list")
    return [name for name in listed[:MAX_LISTED] if isinstance(name, str) and _is_name(name.removesuffix("/"))]


def only_file(archive: bytes, max_bytes: int) -> bytes | None:
    """Return the only file of a zip, or None if it has none. Raises TooLongError, ValueError."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            files = [entry for entry in packed.infolist() if not entry.is_dir()]
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


async def _pieces(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    with suppress(ConnectionError):
        while data := await reader.read(PIECE_BYTES):
            yield data


class ActionExecutionClient:
    """A client of one action server. It belongs to the running event loop.

    `uds` is the path of the server's socket; without it, `url` is its address, and `tls` holds the trusted
    certificates. `headers` are sent with every request.
    """

    def __init__(
        self,
        key: str,
        *,
        uds: str | None = None,
        url: str = "http://localhost",
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        connector = aiohttp.UnixConnector(uds) if uds is not None else aiohttp.TCPConnector(ssl=tls or True)
        self._url = url.rstrip("/")
        self._responses: set[aiohttp.ClientResponse] = set()
        """Responses that are being read."""
        self._instance: str | None = None
        """The instance ID of the server that answered first, or None if none has answered or it sends no ID."""
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={**(headers or {}), KEY_HEADER: key, VERSION_HEADER: str(PROTOCOL_VERSION)},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def alive(self) -> bool:
        """Return whether the server answers in time and accepts the key."""
        timeout = aiohttp.ClientTimeout(total=ALIVE_TIMEOUT_S)
        try:
            async with self._request("GET", "/alive", timeout=timeout) as response:
                self._check_server(response)
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, RuntimeUnavailableError):
            return False

    async def server_info(self) -> dict[str, Any]:
        """Return uptime, idle time, resources and protocol version. Raises RuntimeUnavailableError."""
        return await self._get_json("/server_info", dict)

    async def usage(self, limits: tuple[str, ...] = ()) -> SandboxUsage:
        """Return the resource usage of the whole sandbox, with `limits` added. Raises RuntimeUnavailableError."""
        return await self._get_json("/server_info", lambda info: usage_of(info, limits))

    async def git_entry(self) -> tuple[int, str]:
        """Return the port of git's forwarder in the sandbox, and the command in place of ssh. Raises
        RuntimeUnavailableError.
        """
        return await self._get_json("/server_info", git_entry_of)

    async def facts(self) -> dict[str, str]:
        """Return the facts that the sandbox tells about itself, by name; none from a server that knows no such route.

        Raises RuntimeUnavailableError.
        """
        try:
            async with self._request("GET", "/facts", timeout=_QUERY_TIMEOUT) as response:
                self._check_server(response)
                return parsed(await bounded(response, MAX_OUTPUT_BYTES)) if response.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._connection_error(error) from error

    async def jobs(self) -> list[Job]:
        """Return the processes that commands started and that still run, oldest first. Raises
        RuntimeUnavailableError.
        """
        return await self._get_json("/jobs", jobs_of)

    async def ports(self) -> list[Port]:
        """Return the ports on which the agent's programs listen. Raises RuntimeUnavailableError."""
        return await self._get_json("/ports", ports_of)

    async def editor(self) -> str:
        """Start the editor; return its address in the sandbox. Raises UsageError, RuntimeUnavailableError."""
        return await self._get_json("/vscode/connection_token", editor_of, EDITOR_TIMEOUT)

    async def tunnel(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection to a port of the sandbox until it ends. Raises RuntimeUnavailableError."""
        try:
            async with self._request("POST", f"/ports/{port}/tunnel", data=_pieces(reader)) as response:
                self._check_server(response)
                if response.status != 200:
                    raise RuntimeUnavailableError(await refusal_message(response))
                async for data in response.content.iter_any():
                    writer.write(data)
                    await writer.drain()
        except (aiohttp.ClientError, ConnectionError) as error:
            raise self._connection_error(error) from error

    async def run_server(self, command: Sequence[str], environ: Mapping[str, str], connect: Connect) -> str:
        """Run an MCP server and return why it ended; see core.protocols.Runtime.

        Raises LookupError if there is no such program, UsageError, RuntimeUnavailableError, and what `connect` raises.
        """
        order = {"name": command[0], "command": command[0], "args": list(command[1:]), "env": dict(environ)}
        connected: asyncio.Future[asyncio.StreamReader] = asyncio.get_running_loop().create_future()

        async def body() -> AsyncGenerator[bytes, None]:
            yield json.dumps(order).encode() + b"\n"
            async for data in _pieces(await connected):
                yield data

        try:
            async with self._request("POST", "/mcp/stdio", data=body(), timeout=_SERVER_TIMEOUT) as response:
                self._responses.add(response)
                try:
                    self._check_server(response)
                    if response.status != 200:
                        await _refuse_server(response)
                    reader, writer = await connect()
                    if not connected.done():  # cancelled, if the answer has ended already
                        connected.set_result(reader)
                    return await _relay_output(response, writer)
                finally:
                    self._responses.discard(response)
                    response.close()  # the request has not ended; this ends it, and so the server
        except (aiohttp.ClientError, ProtocolError, TimeoutError) as error:
            raise self._connection_error(error) from error

    async def list_folder(self, path: str) -> list[str]:
        """Return the names in a folder; see core.protocols.Runtime. Raises RuntimeUnavailableError."""
        try:
            async with self._request("POST", "/list_files", json={"path": path}, timeout=_QUERY_TIMEOUT) as response:
                self._check_server(response)
                response.raise_for_status()
                return names_in(await bounded(response, MAX_LISTING_BYTES))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._connection_error(error) from error

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """Return the content of a file; see core.protocols.Runtime. Raises UsageError, RuntimeUnavailableError."""
        try:
            params = {"path": path}
            async with self._request("GET", "/download_files", params=params, timeout=_QUERY_TIMEOUT) as response:
                self._check_server(response)
                if 400 <= response.status < 500:
                    return None
                response.raise_for_status()
                return only_file(await bounded(response, max_bytes + ARCHIVE_OVERHEAD_BYTES), max_bytes)
        except TooLongError as error:
            raise UsageError(f"more than {max_bytes // 1024} KB. Shorten it.") from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._connection_error(error) from error

    async def end_job(self, pid: int) -> None:
        """End a job and its child processes. Raises UsageError if there is no such job, RuntimeUnavailableError."""
        try:
            async with self._request("DELETE", f"/jobs/{pid}") as response:
                self._check_server(response)
                if response.status == 404:
                    raise UsageError(f"The job {pid} has ended.")
                if response.status != 200:
                    raise RuntimeUnavailableError(await refusal_message(response))
        except aiohttp.ClientError as error:
            raise self._connection_error(error) from error

    async def send_to_terminal(self, request: str, content: bytes | dict[str, int]) -> None:
        """Send keys (`input`) or a size (`resize`) to the terminal, or end the user's turn (`give_back`).

        Raises UsageError if the sandbox refuses it, RuntimeUnavailableError.
        """
        body: dict[str, Any] = {"json": content} if isinstance(content, dict) else {"data": content}
        try:
            async with self._request("POST", f"/terminal/{request}", timeout=_QUERY_TIMEOUT, **body) as response:
                self._check_server(response)
                if response.status in (409, 413):
                    raise UsageError((await response.text())[:500])
                if response.status != 200:
                    raise RuntimeUnavailableError(await refusal_message(response))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._connection_error(error) from error

    async def set_environment(self, variables: Mapping[str, str | None]) -> None:
        """Change variables of the agent's programs; None removes one.

        Raises UsageError if one cannot be set, RuntimeUnavailableError.
        """
        body = {"variables": dict(variables)}
        try:
            async with self._request("POST", "/environment", json=body, timeout=_QUERY_TIMEOUT) as response:
                self._check_server(response)
                if response.status == 400:
                    raise UsageError(f"{(await response.text())[:500]}.")
                if response.status != 200:
                    raise RuntimeUnavailableError(await refusal_message(response))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._connection_error(error) from error

    async def _get_json(self, path: str, read: Callable[[Any], T], limit: aiohttp.ClientTimeout = _QUERY_TIMEOUT) -> T:
        """Raises RuntimeUnavailableError."""
        try:
            async with self._request("GET", path, timeout=limit) as response:
                self._check_server(response)
                response.raise_for_status()
                return read(await response.json())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._connection_error(error) from error

    async def execute(self, action: Action, action_id: int, on_frame: Callable[[Frame], None]) -> Observation:
        """Carry out one action; frames are passed to `on_frame` as they arrive.

        Cancelling closes the response at once, which interrupts the action. Raises RuntimeUnavailableError.
        """
        headers = {"Accept": NDJSON_TYPE, "Content-Type": JSON_TYPE}
        body = io.BytesIO(encode_request(action, action_id))
        try:
            async with self._request("POST", "/execute_action", data=body, headers=headers) as response:
                self._check_server(response)
                if response.status != 200:
                    raise RuntimeUnavailableError(await refusal_message(response))
                observation = await self._read(response, on_frame)
        except (aiohttp.ClientError, ProtocolError) as error:
            raise self._connection_error(error) from error
        if observation is None:
            raise self._connection_error("its answer ended without an observation")
        return observation

    async def _read(
        self,
        response: aiohttp.ClientResponse,
        on_frame: Callable[[Frame], None],
        on_data: Callable[[], None] = lambda: None,
    ) -> Observation | None:
        """Pass on the frames of an answer and return the observation at its end, or None if it ends without one.

        `on_data` is called for all data; an empty line is nothing but a sign of life. Raises ClientError,
        ProtocolError.
        """
        lines = LineSplitter()
        self._responses.add(response)
        try:
            async for data in response.content.iter_any():
                on_data()
                for line in filter(None, lines.feed(data)):
                    decoded = decode_line(line)
                    if isinstance(decoded, Observation):
                        return decoded
                    on_frame(decoded)
        except BaseException:
            response.close()
            raise
        finally:
            self._responses.discard(response)
        return None

    def _request(self, method: str, path: str, **options: Any) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Make a request without following redirects."""
        return self._session.request(method, self._url + path, allow_redirects=False, **options)

    def _connection_error(self, reason: object) -> RuntimeUnavailableError:
        return RuntimeUnavailableError(_GONE.format(reason=reason))

    def _check_server(self, response: aiohttp.ClientResponse) -> None:
        """Raise RuntimeUnavailableError for an answer from another server than the first, or of another version.

        Requests name the server that they are meant for, so another server has carried out nothing.
        """
        self._check_version(response)
        instance = response.headers.get(INSTANCE_HEADER)
        if self._instance is None and instance is not None:
            self._instance = instance
            self._session.headers[INSTANCE_HEADER] = instance
        if instance != self._instance:
            raise RuntimeUnavailableError(_GONE.format(reason=_OTHER_SERVER))

    def _check_version(self, response: aiohttp.ClientResponse) -> None:
        theirs = response.headers.get(VERSION_HEADER, str(PROTOCOL_VERSION))
        if theirs != str(PROTOCOL_VERSION):
            raise RuntimeUnavailableError(_OTHER_VERSION.format(theirs=theirs[:20], ours=PROTOCOL_VERSION))

    async def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """Yield the page in the browser when it changes, at most five times a second, until the server ends.

        A slow reader misses pictures. Close the generator or cancel its reader to stop them. Raises UsageError if there
        is no browser, RuntimeUnavailableError.
        """
        try:
            async with aclosing(self._pages()) as pages:
                async for page in pages:
                    yield page
        except (aiohttp.ClientError, ProtocolError) as error:
            raise self._connection_error(error) from error

    async def _pages(self) -> AsyncGenerator[PageShown, None]:
        """`watch_page` over one connection. Also raises ClientError and ProtocolError."""
        lines = LineSplitter()
        async with self._request("GET", "/browser/stream") as response:
            self._check_server(response)
            if response.status == 404:
                raise UsageError("This sandbox has no browser. Start it with the plugin `browser`.")
            if response.status != 200:
                raise RuntimeUnavailableError(await refusal_message(response))
            async for data in response.content.iter_any():
                for line in lines.feed(data):
                    if isinstance(page := decode_line(line), PageShown):
                        yield page
                if self._session.closed:  # closed while the caller processed the page
                    return

    async def aclose(self) -> None:
        """Close the connections; `execute` raises RuntimeUnavailableError. May be called twice."""
        for response in self._responses:
            response.close()  # otherwise its reader would wait for ever
        await self._session.close()


async def _refuse_server(response: aiohttp.ClientResponse) -> NoReturn:
    """Raise LookupError or UsageError for an MCP server that was not started."""
    try:
        reason = json.loads(await bounded(response, 4096))["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"This sandbox runs no MCP servers (status {response.status}). Use one of the same Handloom: rebuild its "
            "image, or install this version there."
        ) from None
    text = str(reason)[:500]
    raise LookupError(text) if response.status == 404 else UsageError(f"It was not started: {text}.")


async def _relay_output(response: aiohttp.ClientResponse, writer: asyncio.StreamWriter) -> str:
    """Write what a server says until it ends, and return why. Raises ClientError, ProtocolError."""
    lines = LineSplitter(MAX_SERVER_LINE_BYTES)
    async for data in response.content.iter_any():
        for line in filter(None, lines.feed(data)):
            said = decode_object(line)
            if "ended" in said:
                return str(said["ended"])
            writer.write(str(said.get("output", "")).encode("utf-8", "replace") + b"\n")
            try:
                await writer.drain()
            except ConnectionError:  # its reader has gone
                return "Its connection was closed."
    raise ProtocolError("the answer of a server broke off")


async def refusal_message(response: aiohttp.ClientResponse) -> str:
    """Return the error message for an answer whose status is not 200."""
    detail = (await response.text())[:500]
    return f"The sandbox refused the action with status {response.status}: {detail}. Restart the runtime."
