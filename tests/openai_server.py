"""A local provider: OpenAI's chat completions over real HTTP, with scripted answers and failures.

In a test, hand it behaviours in the order in which requests come:

    async with OpenAIServer() as server:
        server.then(fails(429, headers={"Retry-After": "1"}), answers("Hello"))

As a program it answers from a scripted model's file, or echoes messages:

    python -m tests.openai_server --port 8080 --script core/llm/demo.yaml
    OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=sk-local handloom --model openai/test
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

KEY = "sk-test-0123456789abcdef"
"""The key that the server takes."""

Json = dict[str, Any]


@dataclass
class Exchange:
    """One request, as the server saw it."""

    body: Json
    headers: Mapping[str, str]
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closed the connection before the answer was whole."""


Behaviour = Callable[[web.Request, Exchange], Awaitable[web.StreamResponse]]


def events_of_answer(
    text: str = "",
    tool_calls: Sequence[tuple[str, str]] = (),
    *,
    usage: Json | None = None,
    finish_reason: str | None = "auto",
    piece_chars: int = 4,
    ids: Sequence[str] | None = None,
    done: bool = True,
) -> list[bytes]:
    """The server-sent events of an answer.

    Tool calls are (name, arguments as text); arguments come in pieces.
    """
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[i : i + piece_chars]} for i in range(0, len(text), piece_chars)]
    for index, (name, arguments) in enumerate(tool_calls):
        call_id = ids[index] if ids else f"call_{index}"
        head = {
            "index": index,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        deltas.append({"tool_calls": [head]})
        for i in range(0, len(arguments), 8):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": arguments[i : i + 8]}}]})
    chunks = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    if finish_reason is not None:
        reason = ("tool_calls" if tool_calls else "stop") if finish_reason == "auto" else finish_reason
        chunks.append(_chunk([{"index": 0, "delta": {}, "finish_reason": reason}]))
    prompt_and_answer = usage or {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    chunks.append({**_chunk([]), "usage": prompt_and_answer})
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    return [*events, b"data: [DONE]\n\n"] if done else events


def _chunk(choices: list[Json]) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "test",
        "choices": choices,
    }


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


def answers(text: str = "", tool_calls: Sequence[tuple[str, str]] = (), **options: Any) -> Behaviour:
    """A whole answer; options as of `events_of_answer`."""
    return sends(*events_of_answer(text, tool_calls, **options))


def sends(*parts: bytes, pause_s: float = 0.0) -> Behaviour:
    """Exactly these bytes, then the regular end of the response."""

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        response = await _stream(request)
        for part in parts:
            await response.write(part)
            if pause_s:
                await asyncio.sleep(pause_s)
        await response.write_eof()
        return response

    return behave


def cuts(at_byte: int, events: Sequence[bytes]) -> Behaviour:
    """An answer whose connection breaks after `at_byte` bytes of its body."""

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        response = await _stream(request)
        await response.write(b"".join(events)[:at_byte])
        _reset(request)
        return response

    return behave


def stalls(events: Sequence[bytes] = (), *, with_head: bool = True) -> Behaviour:
    """Some of an answer, then nothing more until the client hangs up."""

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        if with_head:
            response = await _stream(request)
            for event in events:
                await response.write(event)
        try:
            await asyncio.Event().wait()
        finally:
            exchange.hung_up.set()
        raise AssertionError("nothing sets that event")

    return behave


def fails(status: int, message: str = "it did not work", *, code: str = "", headers: Json | None = None) -> Behaviour:
    """An error in OpenAI's form."""

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        error = {"message": message, "type": "error", "param": None, "code": code or None}
        return web.json_response({"error": error}, status=status, headers=headers)

    return behave


def resets() -> Behaviour:
    """No answer at all: the connection breaks."""

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        _reset(request)
        return web.Response()

    return behave


def _reset(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


class OpenAIServer:
    """The server. Behaviours are used up in order; after them `default` answers."""

    def __init__(self, key: str = KEY, default: Behaviour | None = None, port: int = 0) -> None:
        self.key = key
        self.default = default or answers("Hello.")
        self.exchanges: list[Exchange] = []
        self.arrived = asyncio.Event()
        """Set whenever a request has come in; clear it before the request that you wait for."""
        self._behaviours: deque[Behaviour] = deque()
        self._port = port
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._complete)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)

    def then(self, *behaviours: Behaviour) -> None:
        """Behave like this for the next requests, one each."""
        self._behaviours.extend(behaviours)

    @property
    def base_url(self) -> str:
        """What OPENAI_BASE_URL has to be."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        exchange = Exchange(await request.json(), dict(request.headers))
        self.exchanges.append(exchange)
        self.arrived.set()
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            sent = request.headers.get("Authorization", "")
            return await fails(401, f"Incorrect API key provided: {sent}", code="invalid_api_key")(request, exchange)
        behave = self._behaviours.popleft() if self._behaviours else self.default
        return await behave(request, exchange)


def plays(script: Path, workspace: str) -> Behaviour:
    """The turns of a scripted model's file, at their pace."""
    from core.llm.scripted_model import load_script, with_workspace

    turns = load_script(script).turns

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        index = sum(1 for message in exchange.body["messages"] if message["role"] == "assistant")
        if index >= len(turns):
            return await answers("That was the whole script.")(request, exchange)
        turn = with_workspace(turns[index], workspace)
        calls = [(call.name, json.dumps(call.arguments)) for call in turn.tool_calls]
        ids = [f"call_{index}_{n}" for n in range(len(calls))]
        await asyncio.sleep(turn.first_token_s)
        pause_s = 1 / turn.tokens_per_s if turn.tokens_per_s else 0.0
        return await sends(*events_of_answer(turn.text, calls, ids=ids), pause_s=pause_s)(request, exchange)

    return behave


def says_back() -> Behaviour:
    """The last thing the user said."""

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        said = [m["content"] for m in exchange.body["messages"] if m["role"] == "user"]
        return await answers(f"You said: {said[-1] if said else 'nothing'}")(request, exchange)

    return behave


async def _serve(arguments: argparse.Namespace) -> None:
    default = plays(arguments.script, arguments.workspace) if arguments.script else says_back()
    async with OpenAIServer(arguments.key, default, arguments.port) as server:
        print(f"export OPENAI_BASE_URL={server.base_url} OPENAI_API_KEY={server.key}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.openai_server", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--workspace", default=".", help="what {workspace} in the script stands for")
    parser.add_argument("--key", default=KEY)
    try:
        asyncio.run(_serve(parser.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
