"""Models of providers, called through the model host.

ModelHost is the process, one for all conversations: the first call or `start` starts it, also again after a crash.
HostedLLM is one model in it, with its settings and retries. litellm is never imported here.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, cast

from core.errors import ModelError, ModelErrorKind
from core.events import TokenDelta, TokenUsage
from core.interpreter import start_command
from core.llm.host_protocol import MAX_LINE_BYTES, Line, decode, encode
from core.llm.model_catalogue import Abilities
from core.llm.retry import FailedCall, RetryPolicy, with_retries
from core.llm.settings import CallSettings, ModelFacts
from core.protocols import FrameSink, LLMRequest, LLMResponse, ToolCall

ANSWER_GRACE_S = 30.0
"""How long beyond a call's own limit, and for loading, until a silent host is taken for hung."""

OnDelta = Callable[[str, str], None]


class _HostEnded(Exception):
    """The host died while a call was under way."""


@dataclass(slots=True)
class _Call:
    """A call under way."""

    outcome: asyncio.Future[Line]
    on_delta: OnDelta


class ModelHost:
    """The child process that calls models. Close it with `aclose`."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """`environ` is what the host runs with; None hands on Handloom's own environment."""
        self._environ = environ
        self.keys: Mapping[str, str] = {}
        """Variables that it has beyond those, from its next start on."""
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()
        self._trouble = ""
        self._abilities: dict[str, Abilities] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while the host runs."""
        running = self._process is not None and self._reading is not None and not self._reading.done()
        return self._process.pid if running and self._process else None

    async def start(self) -> None:
        """Start the process unless it runs. Does not wait until litellm is loaded, which takes seconds."""
        async with self._starting:
            if self.pid is not None:
                return
            await self._reap()
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
            self._trouble = ""
            self._reading = asyncio.create_task(self._read(self._process), name="model host")

    async def complete(self, order: Line, on_delta: OnDelta, limit_s: float) -> Line:
        """Have an order carried out; the `done` line comes back.

        Raises FailedCall with what the host said. When the host dies, the order is given once more to a new
        one, unless a part of the answer was streamed. Cancelling ends the call in the host.
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
                    raise FailedCall(ModelErrorKind.HOST, self._obituary(), shown=shown) from None
                continue
            if reply["type"] == "error":
                wait_s = reply.get("retry_after_s")
                raise FailedCall(ModelErrorKind(reply["kind"]), reply["message"], retry_after_s=wait_s, shown=shown)
            return reply
        raise AssertionError("the second try returns or raises")

    async def ping(self) -> None:
        """Return when the host answers, so when litellm is loaded. Raises FailedCall when it cannot be."""
        try:
            await self._ask({"type": "ping"}, lambda text, channel: None, ANSWER_GRACE_S)
        except _HostEnded:
            raise FailedCall(ModelErrorKind.HOST, self._obituary()) from None

    async def abilities(self, model: str) -> Abilities:
        """What litellm's tables say about a model; asks for them once. Raises FailedCall as `models`."""
        if self._abilities is None:
            self._abilities = {name: Abilities(window, vision) for name, window, _, _, vision in await self.models()}
        return self._abilities.get(model, Abilities())

    async def models(self) -> list[list[Any]]:
        """What litellm's tables say, as `catalogue.facts_of` gives it. Raises FailedCall when it cannot be had."""
        try:
            reply = await self._ask({"type": "models"}, lambda text, channel: None, ANSWER_GRACE_S)
        except _HostEnded:
            raise FailedCall(ModelErrorKind.HOST, self._obituary()) from None
        return list(reply["models"])

    async def aclose(self) -> None:
        """End the process, and with it what it does. May be called twice."""
        async with self._starting:
            await self._reap()

    def _obituary(self) -> str:
        """Why there is no answer: litellm did not load, or the process died."""
        if self._trouble:
            return f"litellm cannot be loaded. Install Handloom anew. It said: {self._trouble}"
        return "The model host ended in the middle of a call. Try again; it starts anew."

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
            raise FailedCall(
                ModelErrorKind.HOST,
                "The model host does not answer and was ended. Try again; it starts anew.",
            ) from None
        except asyncio.CancelledError:
            if not process.stdin.is_closing():
                process.stdin.write(encode({"type": "cancel", "id": number}))
            raise
        finally:
            del self._calls[number]

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Hand out the host's lines until it ends; then every call of its time has failed."""
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
            self._trouble = str(line.get("message", ""))
        call = self._calls.get(line.get("id", 0))
        if call is None:
            return
        if kind == "delta":
            call.on_delta(str(line["text"]), str(line["channel"]))
        elif kind in ("done", "error", "pong", "models") and not call.outcome.done():
            call.outcome.set_result(line)

    async def _reap(self) -> None:
        """End the process if there is one, and take its exit status."""
        process, reading = self._process, self._reading
        if process is None or reading is None:
            return
        assert process.stdin is not None
        if not reading.done():
            process.kill()  # it holds nothing that would have to be put in order first
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
        name: str,
        settings: CallSettings,
        random: Random | None = None,
        *,
        title: str = "",
        facts: ModelFacts = ModelFacts(),  # noqa: B008  # frozen
    ) -> None:
        """`name` is litellm's, `title` the user's where that is another one."""
        self._host = host
        self._model = name
        self._name = title or name
        self._facts = facts
        self._settings = settings
        self._random = random or Random()  # noqa: S311  # spreads retries; guards nothing
        self._policy = RetryPolicy(settings.num_retries, settings.retry_min_wait_s, settings.retry_max_wait_s)

    @property
    def name(self) -> str:
        """As the user names it: `provider/model`, or a name from config.toml."""
        return self._name

    async def abilities(self) -> Abilities:
        """What is known of it. Waits until litellm is loaded, the first time for seconds. Raises ModelError."""
        known = await self._host.abilities(self._model)
        vision = known.vision if self._settings.vision == "auto" else self._settings.vision == "yes"
        return Abilities(self._facts.context_window or known.context_window, vision)

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Answer, with retries while nothing was shown. Raises ModelError; cancelling returns at once."""
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
        """The host is shared, and closed by who made it."""

    def _response(self, done: Line) -> LLMResponse:
        usage = TokenUsage(
            model=self._name,
            prompt_tokens=done["prompt_tokens"],
            completion_tokens=done["completion_tokens"],
            cache_read_tokens=done["cache_read_tokens"],
            cache_write_tokens=done["cache_write_tokens"],
            context_window=done["context_window"],
            per_turn_token=done["prompt_tokens"] + done["completion_tokens"],
            response_id=done["answer_id"],
            **({"is_estimated": True} if done["estimated"] else {}),
        )
        calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in done["tool_calls"])
        return LLMResponse(
            done["answer_id"],
            done["text"],
            calls,
            usage,
            done["cost"],
            done["finish_reason"],
            done["reasoning"],
            tuple(done["thinking"]),
        )
