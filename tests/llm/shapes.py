"""Providers on this machine that speak OpenAI's, Anthropic's and Google's ways of streaming over real HTTP.

A shape is an answer with thoughts, a text and a tool call, as its provider would send it: each event with its bytes.
`ProviderServer` takes any path, and answers every request alike.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web

from tests.openai_server import Behaviour, Exchange, events_of_answer, sends

Json = dict[str, Any]

TEXT = "Let me look: ä"
ARGUMENTS = '{"command": "ls -la"}'


@dataclass(frozen=True)
class Shape:
    """One provider's way of an answer."""

    model: str
    variable: str
    """That holds its key."""
    events: Sequence[bytes]
    finished: bytes
    """What says in the stream that the answer is finished: with it, it is whole."""

    @property
    def data(self) -> bytes:
        return b"".join(self.events)

    @property
    def finished_at(self) -> int:
        """The bytes after which the answer is whole."""
        last = next(number for number, event in enumerate(self.events) if self.finished in event)
        return sum(map(len, self.events[: last + 1]))


def _event(data: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _anthropic() -> list[bytes]:
    """A message as Anthropic streams it."""
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
               "stop_reason": None, "stop_sequence": None,
               "usage": {"input_tokens": 60, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10,
                         "output_tokens": 1}}  # fmt: skip
    tool = {"type": "tool_use", "id": "toolu_1", "name": "execute_bash", "input": {}}

    def start(index: int, block: Json) -> Json:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def delta(index: int, change: Json) -> Json:
        return {"type": "content_block_delta", "index": index, "delta": change}

    def stop(index: int) -> Json:
        return {"type": "content_block_stop", "index": index}

    events: list[Json] = [
        {"type": "message_start", "message": message},
        start(0, {"type": "thinking", "thinking": ""}),
        delta(0, {"type": "thinking_delta", "thinking": "I should look."}),
        delta(0, {"type": "signature_delta", "signature": "c2ln"}),
        stop(0),
        start(1, {"type": "text", "text": ""}),
        {"type": "ping"},
        *(delta(1, {"type": "text_delta", "text": TEXT[at : at + 5]}) for at in range(0, len(TEXT), 5)),
        stop(1),
        start(2, tool),
        *(
            delta(2, {"type": "input_json_delta", "partial_json": ARGUMENTS[at : at + 6]})
            for at in range(0, len(ARGUMENTS), 6)
        ),
        stop(2),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
         "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return [_event(event, event["type"]) for event in events]


def _gemini() -> list[bytes]:
    """Candidates as Google streams them."""

    def chunk(part: Json, **more: Any) -> Json:
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **more}
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini", "responseId": "r1"}

    call = {"functionCall": {"name": "execute_bash", "args": json.loads(ARGUMENTS)}}
    chunks = [chunk({"text": "I should look.", "thought": True})]
    chunks += [chunk({"text": TEXT[at : at + 5]}) for at in range(0, len(TEXT), 5)]
    chunks += [chunk(call), chunk({"text": ""}, finishReason="STOP")]
    return [f"data: {json.dumps(one)}\r\n\r\n".encode() for one in chunks]


def _with_thoughts(events: Sequence[bytes]) -> list[bytes]:
    """OpenAI's way, with the field that servers for open models put thoughts into."""
    head = json.loads(events[0].removeprefix(b"data: "))
    head["choices"][0]["delta"] = {"role": "assistant", "content": None, "reasoning_content": "I should look."}
    return [_event(head), *events]


OPENAI = Shape(
    "openai/test",
    "OPENAI_API_KEY",
    _with_thoughts(events_of_answer(TEXT, [("execute_bash", ARGUMENTS)])),
    b'"finish_reason": "tool_calls"',
)
ANTHROPIC = Shape("anthropic/claude-test", "ANTHROPIC_API_KEY", _anthropic(), b'"stop_reason": "tool_use"')
GEMINI = Shape("gemini/gemini-test", "GEMINI_API_KEY", _gemini(), b'"finishReason": "STOP"')
SHAPES = (OPENAI, ANTHROPIC, GEMINI)


def leads_to(url: str, status: int = 307) -> Behaviour:
    """A redirect to another place."""

    async def behave(request: web.Request, exchange: Exchange) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": url})

    return behave


class ProviderServer:
    """Any provider: every request is recorded and answered by `behave`, whatever its path and key."""

    def __init__(self, behave: Behaviour | None = None) -> None:
        self.behave = behave or sends(*OPENAI.events)
        self.exchanges: list[Exchange] = []
        self.paths: list[str] = []
        self.arrived = asyncio.Event()
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        exchange = Exchange(json.loads(body) if body else {}, dict(request.headers))
        self.exchanges.append(exchange)
        self.paths.append(request.path_qs)
        self.arrived.set()
        return await self.behave(request, exchange)

    def seen(self) -> str:
        """All that came in, as text."""
        return "\n".join([*self.paths, *(f"{one.headers} {one.body}" for one in self.exchanges)])
