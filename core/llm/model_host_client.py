"""Models of providers, called through the model host, and when a failed call is retried.

ModelHost is the process, one for all conversations: the first call or `start` starts it, also again after a crash.
HostedLLM is one model in it, with its settings and retries. litellm is never imported here.

Only temporary errors are retried: a rate limit, a timeout, a broken connection, a server error. If a part of the answer
was shown, the announcement of the retry (`RETRY_STATUS`) withdraws it: whoever shows tokens drops those before. An
answer that only took too long is not begun again. Waits double with each retry, are shortened at random so that many
clients do not return together, and follow the provider's own request, up to five minutes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar, cast

from core import status_messages
from core.errors import ModelError, ModelErrorKind
from core.events import Status, TokenDelta, TokenUsage
from core.interpreter import start_command
from core.llm.host_protocol import MAX_LINE_BYTES, Line, decode, encode
from core.llm.model_catalogue import Capabilities
from core.llm.settings import CallSettings, ModelFacts
from core.protocols import FrameSink, LLMRequest, LLMResponse, ToolCall

ANSWER_GRACE_S = 30.0
"""How long after a call's own limit, and for loading litellm, a silent host is waited for before it is killed."""
RETRYABLE = {
    ModelErrorKind.RATE_LIMIT: status_messages.SLOW_DOWN,
    ModelErrorKind.TIMEOUT: status_messages.NO_ANSWER,
    ModelErrorKind.CONNECTION: status_messages.NO_CONNECTION,
    ModelErrorKind.SERVER: status_messages.PROVIDER_FAILED,
}
"""The errors that are retried, each with its reason for the user."""

T = TypeVar("T")
OnDelta = Callable[[str, str], None]
"""Takes a chunk of text and its channel, `answer` or `reasoning`."""


class FailedCall(ModelError):
    """One failed attempt."""

    def __init__(
        self, kind: ModelErrorKind, message: str, *, retry_after_s: float | None = None, shown: bool = False
    ) -> None:
        """`shown` says whether a part of the answer was streamed."""
        super().__init__(kind, message)
        self.retry_after_s = retry_after_s
        self.shown = shown


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is attempted in all, and how long to wait in between."""

    attempts: int = 5
    min_wait_s: float = 1.0
    max_wait_s: float = 64.0

    def wait_s(self, attempt: int, retry_after_s: float | None, random: Random) -> float:
        """Return the wait after attempt number `attempt`, counted from 1."""
        longest = min(self.min_wait_s * 2.0 ** (attempt - 1), self.max_wait_s)
        return max(longest * random.uniform(0.5, 1.0), retry_after_s or 0.0)


async def with_retries(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    on_frame: FrameSink,
    random: Random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Make a call, retry temporary errors, and announce each wait as a Status.

    The announcement withdraws what was streamed of the failed answer. Raises ModelError: a FailedCall if a part of the
    last answer was shown. Cancelling ends a wait at once; the announcement is always removed.
    """
    announced = False
    try:
        for attempt in range(1, policy.attempts + 1):
            try:
                return await call()
            except FailedCall as failure:
                is_slow = failure.kind is ModelErrorKind.TIMEOUT and failure.shown  # again it would take as long
                if failure.kind not in RETRYABLE or is_slow:
                    raise
                if attempt == policy.attempts:
                    text = f"{failure} Tried {attempt} times." if attempt > 1 else str(failure)
                    raise FailedCall(failure.kind, text, shown=failure.shown) from failure
                wait_s = policy.wait_s(attempt, failure.retry_after_s, random)
                reason = status_messages.BROKE_OFF if failure.shown else RETRYABLE[failure.kind]
            announced = True
            tries = f"{attempt + 1} / {policy.attempts}"
            notice = status_messages.RETRYING.format(tries=tries, seconds=f"{wait_s:.0f}", reason=reason)
            on_frame(Status("info", status_messages.RETRY_STATUS, notice))
            await sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")
    finally:
        if announced:
            on_frame(Status("info", status_messages.RETRY_STATUS, ""))


class _HostEnded(Exception):
    """The host died during a call."""


@dataclass(slots=True)
class _Call:
    """A pending call."""

    outcome: asyncio.Future[Line]
    on_delta: OnDelta


class ModelHost:
    """The child process that calls models. Close it with `aclose`."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """`environ` is the environment of the host; None passes on Handloom's own."""
        self._environ = environ
        self.keys: Mapping[str, str] = {}
        """Additional environment variables. After a change the host starts again, once no call is pending."""
        self._started_with: Mapping[str, str] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()
        self._load_error = ""
        self._capabilities: dict[str, Capabilities] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while the host runs."""
        running = self._process is not None and self._reading is not None and not self._reading.done()
        return self._process.pid if running and self._process else None

    async def start(self) -> None:
        """Start the process unless it runs. Does not wait until litellm is loaded, which takes seconds."""
        async with self._starting:
            if self.pid is not None and (self._calls or self._started_with == self.keys):
                return
            await self._end()
            self._started_with = self.keys
            # The folder that this was loaded from goes first on the host's path; never the workspace, whose
            # files could stand in for libraries. A session of its own keeps the terminal's Ctrl-C away.
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *start_command("core.llm.model_host"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    cwd=Path(__file__).parents[2],
                    env={**(os.environ if self._environ is None else self._environ), **self.keys},
                    limit=MAX_LINE_BYTES,
                    start_new_session=True,
                )
            except OSError as error:
                message = f"The model host cannot be started: {error}. Close other programs, and try again."
                raise ModelError(ModelErrorKind.HOST, message) from error
            self._load_error = ""
            self._reading = asyncio.create_task(self._read(self._process), name="model host")

    async def complete(self, order: Line, on_delta: OnDelta, limit_s: float) -> Line:
        """Send an order to the host and return its `done` line.

        Raises FailedCall with the host's message. If the host dies, the order is sent once more to a new one, unless a
        part of the answer was streamed. Cancelling ends the call in the host.
        """
        shown = False

        def note(text: str, channel: str) -> None:
            nonlocal shown
            shown = True
            on_delta(text, channel)

        for last in (False, True):
            try:
                reply = await self._ask(order, note, limit_s + ANSWER_GRACE_S)
            except _HostEnded:
                if shown or last:
                    raise FailedCall(ModelErrorKind.HOST, self._why_ended(), shown=shown) from None
                continue
            if reply["type"] == "error":
                wait_s = reply.get("retry_after_s")
                raise FailedCall(ModelErrorKind(reply["kind"]), reply["message"], retry_after_s=wait_s, shown=shown)
            return reply
        raise AssertionError("the second attempt returns or raises")

    async def ping(self) -> None:
        """Return when the host answers, which it does when litellm is loaded. Raises FailedCall if it cannot be."""
        await self._request("ping")

    async def models(self) -> list[list[Any]]:
        """Return the lines of `model_catalogue.facts_of`. Raises FailedCall."""
        return list((await self._request("models"))["models"])

    async def capabilities(self, model: str) -> Capabilities:
        """Return what litellm's tables say about a model, which are loaded once. Raises FailedCall."""
        if self._capabilities is None:
            lines = await self.models()
            self._capabilities = {
                name: Capabilities(window, vision, price_in, price_out)
                for name, window, price_in, price_out, vision in lines
            }
        return self._capabilities.get(model, Capabilities())

    async def aclose(self) -> None:
        """End the process and its calls. May be called twice."""
        async with self._starting:
            await self._end()

    def _why_ended(self) -> str:
        if self._load_error:
            return f"litellm cannot be loaded. Reinstall Handloom. The error: {self._load_error}"
        return "The model host ended during a call. Try again; it restarts."

    async def _request(self, kind: str) -> Line:
        """Send an order without a stream. Raises FailedCall."""
        try:
            return await self._ask({"type": kind}, lambda text, channel: None, ANSWER_GRACE_S)
        except _HostEnded:
            raise FailedCall(ModelErrorKind.HOST, self._why_ended()) from None

    async def _ask(self, order: Line, on_delta: OnDelta, limit_s: float) -> Line:
        await self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        number = next(self._numbers)
        data = encode({**order, "id": number})
        if len(data) > MAX_LINE_BYTES:
            raise ModelError(
                ModelErrorKind.CONTEXT_WINDOW, "The conversation is too large to be sent. Start a new one."
            )
        call = _Call(asyncio.get_running_loop().create_future(), on_delta)
        self._calls[number] = call
        try:
            async with asyncio.timeout(limit_s):
                process.stdin.write(data)
                # A host that died is noticed by its output ending, which settles the outcome.
                with suppress(ConnectionError):
                    await process.stdin.drain()
                return await call.outcome
        except TimeoutError:
            if process.returncode is None:
                process.kill()
            message = "The model host did not answer and was killed. Try again; it restarts."
            raise FailedCall(ModelErrorKind.HOST, message) from None
        except asyncio.CancelledError:
            if not process.stdin.is_closing():
                process.stdin.write(encode({"type": "cancel", "id": number}))
            raise
        finally:
            del self._calls[number]

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Dispatch the host's lines until it ends; then all pending calls fail."""
        assert process.stdout is not None
        try:
            while data := await process.stdout.readline():
                self._take(decode(data))
        except ValueError:  # a line beyond the limit: the host is not to be trusted any more
            process.kill()
        finally:
            for call in self._calls.values():
                if not call.outcome.done():
                    call.outcome.set_exception(_HostEnded())

    def _take(self, line: Line) -> None:
        kind = line.get("type")
        if kind == "broken":
            self._load_error = str(line.get("message", ""))
        call = self._calls.get(line.get("id", 0))
        if call is None:
            return
        if kind == "delta":
            call.on_delta(str(line["text"]), str(line["channel"]))
        elif kind in ("done", "error", "pong", "models") and not call.outcome.done():
            call.outcome.set_result(line)

    async def _end(self) -> None:
        """Kill the process if there is one, and collect its exit status."""
        process, reading = self._process, self._reading
        if process is None or reading is None:
            return
        assert process.stdin is not None
        if not reading.done():
            process.kill()  # it has no state to save
        process.stdin.close()
        await process.wait()
        await reading
        with suppress(ConnectionError):
            await process.stdin.wait_closed()
        self._process = self._reading = None


class HostedLLM:
    """A provider's model."""

    def __init__(
        self,
        host: ModelHost,
        model: str,
        settings: CallSettings,
        random: Random | None = None,
        *,
        title: str = "",
        facts: ModelFacts = ModelFacts(),  # noqa: B008  # frozen
    ) -> None:
        """`model` is litellm's name, `title` the user's name if it differs."""
        self._host = host
        self._model = model
        self.name = title or model
        self._facts = facts
        self._settings = settings
        self._random = random or Random()  # noqa: S311  # spreads retries; guards nothing
        self._policy = RetryPolicy(settings.num_retries, settings.retry_min_wait_s, settings.retry_max_wait_s)

    async def capabilities(self) -> Capabilities:
        """Return what is known about it. The first call waits seconds until litellm is loaded. Raises ModelError."""
        known = await self._host.capabilities(self._model)
        vision = known.vision if self._settings.vision == "auto" else self._settings.vision == "yes"
        prices = (known.price_in, known.price_out)
        if self._facts.price_in is not None and self._facts.price_out is not None:
            prices = (self._facts.price_in, self._facts.price_out)
        return Capabilities(self._facts.context_window or known.context_window, vision, *prices)

    async def most_cost(self, prompt_tokens: int) -> float | None:
        """US dollars that an answer to a prompt of this size can cost at most; None if that is not known.

        It is not known without prices, or if nothing limits the length of an answer. Raises ModelError.
        """
        known, longest = await self.capabilities(), self._settings.max_tokens
        if known.price_in is None or known.price_out is None or longest is None:
            return None
        return (prompt_tokens * known.price_in + longest * known.price_out) / 1_000_000

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Call the model, and retry temporary errors. Raises ModelError; cancelling returns at once."""
        order: Line = {
            "type": "complete",
            "model": self._model,
            "messages": list(request.messages),
            "tools": list(request.tools),
            "stop": list(request.stop),
            "settings": self._settings.model_dump(),
            "facts": self._facts.model_dump(),
        }

        def on_delta(text: str, channel: str) -> None:
            on_frame(TokenDelta(cause, text, cast(Literal["answer", "reasoning"], channel)))

        async def call() -> Line:
            return await self._host.complete(order, on_delta, self._settings.total_timeout_s)

        return self._response(await with_retries(call, self._policy, on_frame, self._random))

    async def aclose(self) -> None:
        """Do nothing: the host is shared, and closed by its owner."""

    def _response(self, done: Line) -> LLMResponse:
        usage = TokenUsage(
            model=self.name,
            prompt_tokens=done["prompt_tokens"],
            completion_tokens=done["completion_tokens"],
            cache_read_tokens=done["cache_read_tokens"],
            cache_write_tokens=done["cache_write_tokens"],
            context_window=done["context_window"],
            per_turn_token=done["prompt_tokens"] + done["completion_tokens"],
            response_id=done["answer_id"],
            **({"is_estimated": True} if done["estimated"] else {}),
        )
        return LLMResponse(
            done["answer_id"],
            done["text"],
            tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in done["tool_calls"]),
            usage,
            done["cost"],
            done["finish_reason"],
            done["reasoning"],
            tuple(done["thinking"]),
        )
