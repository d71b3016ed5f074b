"""ReconnectingClient: an ActionExecutionClient for connections that may break while the sandbox keeps running.

Invariants: an action is carried out at most once and by one server process, however often its request is sent; frames
arrive in order, none twice; the observation arrives unless the connection stays broken for longer than the patience; an
action whose caller has gone is interrupted as soon as the connection allows. The server's side is
`runtime.server.answer_cache`.
"""

from __future__ import annotations

import asyncio
import io
import secrets
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from typing import NoReturn

import aiohttp

from core.errors import RuntimeUnavailableError
from core.events import Action, Frame, Observation, PageShown, Status
from runtime.client import ActionExecutionClient, refusal_message
from runtime.health_check import SILENT_S, UnresponsiveError, watch_health, with_health_check
from runtime.protocol import (
    AFTER_HEADER,
    INSTANCE_HEADER,
    JSON_TYPE,
    NDJSON_TYPE,
    RESUME_HEADER,
    ProtocolError,
    encode_request,
)

PATIENCE_S = 60.0
SLOWEST_BYTES_S = 64 * 1024
"""The slowest connection for which a long request is awaited."""
CHECK_EVERY_S = 0.5
"""How often to check whether data arrived. The check is cheap, and a dead connection is noticed within ten seconds."""
FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 5.0
"""Delays between two attempts; doubled each time."""
RELEASE_S = 5.0
"""Time limit of one attempt to release an answer; the server interrupts the action within 2 s."""
INTERRUPT_S = 0.08
"""How long a cancelled caller waits for the interrupt; it returns after a tenth of a second in any case."""
CLOSE_S = 3.0
"""Time limit for interrupting all actions when closing; the server allows itself two seconds."""
POLL_S = 0.02
"""Polling interval for conditions without an event."""
REASON_CHARS = 120
LINK = "STATUS$LINK"
"""The ID of status messages about the connection."""
_LINK_BROKEN = "The connection to the sandbox is broken ({reason}); retrying."
_LINK_BACK = "The connection to the sandbox is back."
_LINK_BACK_SKIPPED = "The connection to the sandbox is back; {count} chunks of live output were skipped."
_UNREACHABLE = (
    "The sandbox cannot be reached ({reason}). Check the network and the server, then send a message to try again."
)
_RESULT_LOST = "The sandbox no longer has this action's result. Check what the action did before you repeat it."
_REDIRECTED = "The server redirects to another address, which must not get the key. Correct the server's address."
_CLAIM_REFUSED = {
    301: _REDIRECTED,
    302: _REDIRECTED,
    307: _REDIRECTED,
    308: _REDIRECTED,
    401: "The server has another key. Use the key that the server was started with.",
    403: "The server may not be called by this name. Start it with --allow-host and the name, or correct the address.",
    404: "This is not an action server of this version. Check the address, or install the same Handloom there.",
    409: "The server is used by another conversation. Close that conversation, or use another server.",
}
_LINK_ERRORS = (aiohttp.ClientError, OSError, UnresponsiveError)
"""What a broken connection raises."""

Why = Callable[[], Awaitable[str]]
"""Returns why the connection is broken, or an empty string. Raises RuntimeUnavailableError if waiting is pointless."""


class ReconnectingClient(ActionExecutionClient):
    """A client of one action server that retries for `patience_s` when the connection breaks.

    A connection on which nothing arrived for `silent_s` counts as broken; it is checked every `every_s`.
    """

    def __init__(
        self,
        key: str,
        *,
        uds: str | None = None,
        url: str = "http://localhost",
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
        every_s: float = CHECK_EVERY_S,
        silent_s: float = SILENT_S,
        why: Why | None = None,
    ) -> None:
        super().__init__(key, uds=uds, url=url, tls=tls, headers=headers)
        self._patience_s = patience_s
        self._why = why
        self._every_s = every_s
        self._silent_s = silent_s
        self._wanted: set[str] = set()
        """Tokens of actions whose observation somebody awaits."""
        self._releases: dict[str, asyncio.Task[None]] = {}
        self._closed = asyncio.Event()

    async def execute(self, action: Action, action_id: int, on_frame: Callable[[Frame], None]) -> Observation:
        """Carry out one action exactly once; frames and status messages about the connection go to `on_frame`.

        Cancelling returns at once, and the action is interrupted as soon as the connection allows. Raises
        RuntimeUnavailableError if the server has ended, or cannot be reached for `patience_s`.
        """
        request = _Request(encode_request(action, action_id), on_frame)
        outage = _Outage(self._patience_s, self._why, self._closed, on_frame)
        self._wanted.add(request.token)
        try:
            while not self._closed.is_set():
                try:
                    observation = await self._attempt(request, outage)
                except _LINK_ERRORS as error:
                    await outage.wait(error)
                except ProtocolError as error:
                    raise self._connection_error(error) from error
                else:
                    if observation is not None:
                        return observation
                    await asyncio.sleep(POLL_S)  # limits the load if a server ends every response at once
            raise self._connection_error("it was closed")
        except asyncio.CancelledError:
            # on a working connection, the action has ended when we return
            self._release(request.token)
            if (release := self._releases.get(request.token)) is not None:
                await asyncio.wait([release], timeout=INTERRUPT_S)
            raise
        finally:
            outage.clear()
            self._release(request.token)

    async def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """Yield the page in the browser, as ActionExecutionClient does, also after a broken connection."""
        outage = _Outage(self._patience_s, self._why, self._closed, lambda frame: None)
        while not self._closed.is_set():
            try:
                async with aclosing(self._pages()) as pages:
                    async for page in pages:
                        outage.end(0)
                        yield page
                return
            except _LINK_ERRORS as error:
                await outage.wait(error)
            except ProtocolError as error:
                raise self._connection_error(error) from error

    async def claim(self, patience_s: float) -> None:
        """Claim the server, which then serves nobody else until `release_server`. Does nothing if it is ours already.

        A broken connection is retried for `patience_s`. Raises what the connection raises then, and
        RuntimeUnavailableError if the server refuses.
        """
        loop = asyncio.get_running_loop()
        gives_up_at, delay_s = loop.time() + patience_s, FIRST_DELAY_S
        while True:
            try:
                async with asyncio.timeout(self._silent_s), self._request("PUT", "/owner") as response:
                    if response.status == 200:
                        self._check_server(response)
                        return
                    if response.status != 503:
                        self._check_version(response)
                        reason = _CLAIM_REFUSED.get(response.status) or await refusal_message(response)
                        raise RuntimeUnavailableError(reason)
                    # the server is ending its previous owner's process
                    gives_up_at = max(gives_up_at, loop.time() + delay_s)
            except _LINK_ERRORS:
                if loop.time() >= gives_up_at:
                    raise
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, LONGEST_DELAY_S)

    async def release_server(self) -> None:
        """End everything that was started for us, and wait for at most CLOSE_S until it has ended."""
        with suppress(*_LINK_ERRORS):
            async with asyncio.timeout(CLOSE_S):
                async with self._request("DELETE", "/owner") as response:
                    await response.read()
                while response.status == 200:
                    if not await self.alive():
                        return
                    await asyncio.sleep(POLL_S)  # the end of a remote process sends no event

    async def aclose(self) -> None:
        """Interrupt running actions if the connection allows, and close the connections. May be called twice.

        Whoever waits for an observation gets RuntimeUnavailableError.
        """
        self._closed.set()
        for token in list(self._wanted):
            self._release(token)
        for response in list(self._responses):
            response.close()
        if releases := list(self._releases.values()):
            await asyncio.wait(releases, timeout=CLOSE_S)
        for release in releases:
            release.cancel()
        await asyncio.gather(*releases, return_exceptions=True)
        await super().aclose()

    async def _attempt(self, request: _Request, outage: _Outage) -> Observation | None:
        """Request the action, or the rest of its answer; return None if the server wants to be asked again."""
        if self._instance is None:
            await self._identify_server()  # or a repeated request could reach two server processes
        headers = {"Accept": NDJSON_TYPE}
        if request.is_known:
            http_request = self._request("GET", f"/actions/{request.token}?after={request.seen}", headers=headers)
        else:
            headers |= {"Content-Type": JSON_TYPE, RESUME_HEADER: request.token}
            http_request = self._request("POST", "/execute_action", data=io.BytesIO(request.body), headers=headers)
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._silent_s + len(request.body) / SLOWEST_BYTES_S):
                response = await stack.enter_async_context(http_request)
            if response.status in (502, 503, 504) and INSTANCE_HEADER not in response.headers:
                raise aiohttp.ClientConnectionError(f"a proxy answers with status {response.status}")
            self._check_server(response)
            if response.status != 200:
                await _refuse(response, request.is_known)
            outage.end(request.start_answer(response))
            watch = watch_health(request.has_data, every_s=self._every_s, silent_s=self._silent_s, why=self._why)
            return await with_health_check(self._read(response, request.add_frame, request.note_data), watch)

    async def _identify_server(self) -> None:
        async with asyncio.timeout(self._silent_s), self._request("GET", "/alive") as response:
            self._check_server(response)

    def _connection_error(self, reason: object) -> RuntimeUnavailableError:
        return RuntimeUnavailableError(_UNREACHABLE.format(reason=reason))

    def _release(self, token: str) -> None:
        """Tell the server, in the background and once per token, that nobody wants the answer any more."""
        if token in self._wanted:
            self._wanted.discard(token)
            release = self._releases[token] = asyncio.create_task(self._release_answer(token))
            release.add_done_callback(lambda _: self._releases.pop(token))

    async def _release_answer(self, token: str) -> None:
        """Interrupt the action if it runs, and have its answer forgotten. Any answer of the server means that it
        knows.
        """
        outage = _Outage(self._patience_s, None, asyncio.Event(), lambda frame: None)
        with suppress(RuntimeUnavailableError):
            while True:
                try:
                    async with (
                        asyncio.timeout(RELEASE_S),
                        self._request("DELETE", f"/actions/{token}") as response,
                    ):
                        await response.read()
                        return
                except _LINK_ERRORS as error:
                    await outage.wait(error)


class _Request:
    """One action: its request, and how much of its answer has arrived."""

    def __init__(self, body: bytes, on_frame: Callable[[Frame], None]) -> None:
        self.token = secrets.token_hex(16)
        self.body = body
        self.seen = 0
        """The number of the last frame that arrived."""
        self.is_known = False
        """Whether the server is known to have the request."""
        self._data_arrived = False
        self._on_frame = on_frame

    def start_answer(self, response: aiohttp.ClientResponse) -> int:
        """Handle the start of an answer; return how many frames the server dropped. Raises ProtocolError."""
        self.is_known = self._data_arrived = True
        before, after = self.seen, response.headers.get(AFTER_HEADER, "")
        if not (after.isascii() and after.isdigit()) or int(after) < before:
            raise ProtocolError(f"{AFTER_HEADER} is {after[:20]!r} after frame {before}")
        self.seen = int(after)
        return self.seen - before

    def note_data(self) -> None:
        self._data_arrived = True

    async def has_data(self) -> bool:
        """Return whether data arrived since the last call."""
        has_data, self._data_arrived = self._data_arrived, False
        return has_data

    def add_frame(self, frame: Frame) -> None:
        self.seen += 1
        self._on_frame(frame)


class _Outage:
    """Decides when to retry a broken connection, and tells the user about it."""

    def __init__(
        self, patience_s: float, why: Why | None, closed: asyncio.Event, report: Callable[[Frame], None]
    ) -> None:
        self._patience_s = patience_s
        self._why = why
        self._closed = closed
        self._report = report
        self._began_at: float | None = None
        self._delay_s = FIRST_DELAY_S
        self._is_reported = False

    async def wait(self, error: Exception) -> None:
        """Wait until the next attempt, or until the client is closed. Raises RuntimeUnavailableError."""
        reason = (await self._why() if self._why is not None else "") or _reason(error)
        now = asyncio.get_running_loop().time()
        if self._began_at is None:
            self._began_at, self._is_reported = now, True
            self._report(Status("error", LINK, _LINK_BROKEN.format(reason=reason)))
        left_s = self._began_at + self._patience_s - now
        if left_s <= 0:
            raise RuntimeUnavailableError(_UNREACHABLE.format(reason=reason))
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._delay_s, left_s)):
                await self._closed.wait()
        self._delay_s = min(self._delay_s * 2, LONGEST_DELAY_S)

    def end(self, skipped: int) -> None:
        """Note that the server answers again; `skipped` frames are lost."""
        if self._began_at is not None:
            self._began_at, self._delay_s = None, FIRST_DELAY_S
            self._report(Status("info", LINK, _LINK_BACK_SKIPPED.format(count=skipped) if skipped else _LINK_BACK))

    def clear(self) -> None:
        """Clear the status message."""
        if self._is_reported:
            self._report(Status("info", LINK, ""))


def _reason(error: Exception) -> str:
    """Return what broke the connection, as text for the user."""
    match error:
        case aiohttp.ClientConnectorError():
            return error.os_error.strerror or str(error.os_error)
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "it was cut"
        case aiohttp.ClientOSError() if error.strerror:
            return error.strerror
        case TimeoutError() | UnresponsiveError():
            return str(error) or "it does not answer"
    return str(error) if 0 < len(str(error)) < REASON_CHARS else type(error).__name__


async def _refuse(response: aiohttp.ClientResponse, was_known: bool) -> NoReturn:
    if was_known and response.status == 404:
        raise RuntimeUnavailableError(_RESULT_LOST)
    raise RuntimeUnavailableError(await refusal_message(response))
