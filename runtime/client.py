"""ActionExecutionClient: one action over the wire. The same for every sandbox; only the way to it differs.

What the sandbox says is decoded by `protocol`; what cannot be reached, breaks off or makes no sense is a
RuntimeUnavailableError that says what to do next. There is no time limit here but the one to connect: an
action ends by its own, in the sandbox. No redirect is followed: the key is for one server. Where the link may break
although the sandbox lives, `lasting_client` has the sibling that survives it.

What a sandbox's server answers with when its files are looked at: bounded, and read as what it may be and no more.

The other side may be anybody: a listing without end, an archive that unpacks to a thousand times its size.
"""

from __future__ import annotations

import io
import json
import ssl
import zipfile
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from core.errors import RuntimeUnavailableError, UsageError
from core.events import Action, Frame, Observation, PageShown
from core.sandbox_types import Job, SandboxUsage
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
    encode_request,
    jobs_of,
    usage_of,
)

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


T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
ALIVE_TIMEOUT_S = 5.0
"""A server that is well answers within a millisecond, one on a machine that swaps within seconds."""
_ASKED = aiohttp.ClientTimeout(total=ALIVE_TIMEOUT_S)
_GONE = "The sandbox is gone ({reason}). Send a message to start a new one; files in the workspace are kept."
_ANOTHER = "another server answers in its place"
_OTHER_VERSION = (
    "The sandbox speaks version {theirs} of the protocol and this Handloom version {ours}. Use a sandbox of the same "
    "Handloom: build its image again, or install the version that it was built with."
)


class ActionExecutionClient:
    """Talks to one action server. Belongs to the running loop.

    `uds` is the path of its socket; without it, `url` is its address, and `tls` says which certificates are believed.
    `headers` go with every request.
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
        self._answers: set[aiohttp.ClientResponse] = set()
        """That are being read."""
        self._instance: str | None = None
        """The life of the server that answered first; None where none has yet, or it does not say."""
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
        """Whether the server answers, in time, and takes our key."""
        timeout = aiohttp.ClientTimeout(total=ALIVE_TIMEOUT_S)
        try:
            async with self._request("GET", "/alive", timeout=timeout) as response:
                self._recognise(response)
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, RuntimeUnavailableError):
            return False

    async def server_info(self) -> dict[str, Any]:
        """Uptime, idle time, resources, version of the protocol. Raises RuntimeUnavailableError."""
        return await self._asked("/server_info", dict)

    async def usage(self, limits: tuple[str, ...] = ()) -> SandboxUsage:
        """What everything there uses; `limits` are said along. Raises RuntimeUnavailableError."""
        return await self._asked("/server_info", lambda info: usage_of(info, limits))

    async def jobs(self) -> list[Job]:
        """What commands started and still runs, the oldest first. Raises RuntimeUnavailableError."""
        return await self._asked("/jobs", jobs_of)

    async def list_folder(self, path: str) -> list[str]:
        """The names in a folder; see core.protocols.Runtime. Raises RuntimeUnavailableError."""
        try:
            async with self._request("POST", "/list_files", json={"path": path}, timeout=_ASKED) as response:
                self._recognise(response)
                response.raise_for_status()
                return names_in(await bounded(response, MAX_LISTING_BYTES))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._lost(error) from error

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """The content of a file; see core.protocols.Runtime. Raises UsageError, RuntimeUnavailableError."""
        try:
            params = {"path": path}
            async with self._request("GET", "/download_files", params=params, timeout=_ASKED) as response:
                self._recognise(response)
                if 400 <= response.status < 500:
                    return None
                response.raise_for_status()
                return only_file(await bounded(response, max_bytes + PACKED_BYTES), max_bytes)
        except TooLongError as error:
            raise UsageError(f"more than {max_bytes // 1024} KB. Shorten it.") from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._lost(error) from error

    async def end_job(self, pid: int) -> None:
        """End one and everything below it. Raises UsageError where there is none, RuntimeUnavailableError."""
        try:
            async with self._request("DELETE", f"/jobs/{pid}") as response:
                self._recognise(response)
                if response.status == 404:
                    raise UsageError(f"There is no job {pid} any more.")
                if response.status != 200:
                    raise RuntimeUnavailableError(await refusal(response))
        except aiohttp.ClientError as error:
            raise self._lost(error) from error

    async def at_terminal(self, what: str, said: bytes | dict[str, int]) -> None:
        """Keys for the terminal (`input`), its size (`resize`), or the end of the user's turn (`give_back`).

        Raises UsageError where the sandbox does not take it, RuntimeUnavailableError.
        """
        body: dict[str, Any] = {"json": said} if isinstance(said, dict) else {"data": said}
        try:
            async with self._request("POST", f"/terminal/{what}", timeout=_ASKED, **body) as response:
                self._recognise(response)
                if response.status in (409, 413):
                    raise UsageError((await response.text())[:500])
                if response.status != 200:
                    raise RuntimeUnavailableError(await refusal(response))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._lost(error) from error

    async def _asked(self, path: str, read: Callable[[Any], T]) -> T:
        """What an answer in JSON says. Raises RuntimeUnavailableError."""
        try:
            async with self._request("GET", path, timeout=_ASKED) as response:
                self._recognise(response)
                response.raise_for_status()
                return read(await response.json())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._lost(error) from error

    async def execute(self, action: Action, action_id: int, on_frame: Callable[[Frame], None]) -> Observation:
        """Have one action carried out; frames go to `on_frame` as they come.

        Cancelling closes the response at once, which interrupts the action. Raises RuntimeUnavailableError.
        """
        headers = {"Accept": NDJSON_TYPE, "Content-Type": JSON_TYPE}
        body = io.BytesIO(encode_request(action, action_id))
        try:
            async with self._request("POST", "/execute_action", data=body, headers=headers) as response:
                self._recognise(response)
                if response.status != 200:
                    raise RuntimeUnavailableError(await refusal(response))
                observation = await self._read(response, on_frame)
        except (aiohttp.ClientError, ProtocolError) as error:
            raise self._lost(error) from error
        if observation is None:
            raise self._lost("its answer ended without an observation")
        return observation

    async def _read(
        self,
        response: aiohttp.ClientResponse,
        on_frame: Callable[[Frame], None],
        on_sign_of_life: Callable[[], None] = lambda: None,
    ) -> Observation | None:
        """Hand on the frames of an answer; the observation at its end, None where it ends without one.

        Whatever comes is a sign of life; an empty line is that and nothing else. Who stops reading closes the answer.
        Raises ClientError, ProtocolError.
        """
        lines = LineSplitter()
        self._answers.add(response)
        try:
            async for data in response.content.iter_any():
                on_sign_of_life()
                for line in filter(None, lines.feed(data)):
                    said = decode_line(line)
                    if isinstance(said, Observation):
                        return said
                    on_frame(said)
        except BaseException:
            response.close()
            raise
        finally:
            self._answers.discard(response)
        return None

    def _request(self, method: str, path: str, **options: Any) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """A request to the server and to nobody else."""
        return self._session.request(method, self._url + path, allow_redirects=False, **options)

    def _lost(self, reason: object) -> RuntimeUnavailableError:
        """What is said of a server that cannot be reached, or that breaks off."""
        return RuntimeUnavailableError(_GONE.format(reason=reason))

    def _recognise(self, response: aiohttp.ClientResponse) -> None:
        """Raise RuntimeUnavailableError for the answer of another server than the first, or of another version.

        Requests name the server that they are meant for, so another one has carried out nothing.
        """
        self._check_version(response)
        instance = response.headers.get(INSTANCE_HEADER)
        if self._instance is None and instance is not None:
            self._instance = instance
            self._session.headers[INSTANCE_HEADER] = instance
        if instance != self._instance:
            raise RuntimeUnavailableError(_GONE.format(reason=_ANOTHER))

    def _check_version(self, response: aiohttp.ClientResponse) -> None:
        theirs = response.headers.get(VERSION_HEADER, str(PROTOCOL_VERSION))
        if theirs != str(PROTOCOL_VERSION):
            raise RuntimeUnavailableError(_OTHER_VERSION.format(theirs=theirs[:20], ours=PROTOCOL_VERSION))

    async def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """The page in the browser as it changes, at most five times a second, until the server ends.

        A reader who is slow skips pictures. Pictures are made for as long as somebody reads: close the generator, or
        cancel its reader. Raises UsageError where there is no browser, RuntimeUnavailableError.
        """
        try:
            async with aclosing(self._pages()) as pages:
                async for page in pages:
                    yield page
        except (aiohttp.ClientError, ProtocolError) as error:
            raise self._lost(error) from error

    async def _pages(self) -> AsyncGenerator[PageShown, None]:
        """`watch_page` over one connection. Raises ClientError and ProtocolError, too."""
        lines = LineSplitter()
        async with self._request("GET", "/browser/stream") as response:
            self._recognise(response)
            if response.status == 404:
                raise UsageError("This sandbox has no browser. Start it with the plugin `browser`.")
            if response.status != 200:
                raise RuntimeUnavailableError(await refusal(response))
            async for data in response.content.iter_any():
                for line in lines.feed(data):
                    if isinstance(said := decode_line(line), PageShown):
                        yield said
                if self._session.closed:  # while the reader was at work
                    return

    async def aclose(self) -> None:
        """Let go of the connections; who waits for an observation gets RuntimeUnavailableError. May be called twice."""
        for response in self._answers:
            response.close()  # the session's own close would let its reader wait for ever
        await self._session.close()


async def refusal(response: aiohttp.ClientResponse) -> str:
    """What is said of an answer with another status than 200."""
    detail = (await response.text())[:500]
    return f"The sandbox refused the action with status {response.status}: {detail}. Restart the runtime."
