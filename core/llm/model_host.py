"""The model host: a child process that holds litellm and the provider keys, and calls models for all conversations.

`python -m core.llm.model_host` reads the lines of `host_protocol` from standard input and answers on standard output.
It ends with its input, so it never outlives Handloom. Standard output has these lines only, whatever a library prints.
litellm does not log, call back, read a `.env` or fetch a price list. Keys are removed from every text that leaves, and
no core file is written.

To save time, work that libraries do for other users is skipped: OpenAI's library walks through every message for names
to change and files to encode, some 40 ms at 200 messages, and litellm computes the cost of a stream before it begins.
Skipped functions are found by name; if a version lacks one, nothing is skipped.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import logging
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, BinaryIO

from core import garbage_collector
from core.llm.call import complete
from core.llm.host_protocol import MAX_LINE_BYTES, Line, decode, encode
from core.llm.model_catalogue import facts_of
from core.llm.provider_errors import clean, failure_of
from core.secrets import from_environment

log = logging.getLogger(__name__)

_CHUNK = {"id": "warm", "object": "chat.completion.chunk", "created": 1, "model": "warm"}
_DELTAS: tuple[dict[str, Any], ...] = ({"role": "assistant", "content": "warm"}, {})


async def _without_unset(data: Any, expected_type: object) -> Any:
    """Drop the arguments that were not given, without a walk through the messages."""
    from openai import NotGiven, Omit

    return {name: value for name, value in data.items() if not isinstance(value, Omit | NotGiven)}


def _do_nothing(**facts: object) -> None:
    return None


SKIPPED: dict[tuple[str, str], Callable[..., Any]] = {
    ("openai.resources.chat.completions.completions", "async_maybe_transform"): _without_unset,
    ("litellm.utils", "update_response_metadata"): _do_nothing,
}
"""The replacement, by module and name."""


def skip_unneeded_work() -> list[str]:
    """Install the replacements after litellm is loaded, and return the names that were not found."""
    missing = []
    for (module, name), replacement in SKIPPED.items():
        target = importlib.import_module(module)
        if hasattr(target, name):
            setattr(target, name, replacement)
        else:
            missing.append(name)
    garbage_collector.freeze()  # what is loaded stays, and is a hundred times what a call makes
    return missing


async def warm(litellm: Any) -> bool:
    """Make one call that is answered in this process, because the first call takes 100 ms and more to load code.

    Nothing goes over a network. Returns False after an error, which is logged; then the first real call is slow.
    """
    import httpx
    import openai

    async def answer(request: httpx.Request) -> httpx.Response:
        choices = [{"index": 0, "delta": d, "finish_reason": None if d else "stop"} for d in _DELTAS]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        chunks = [*({**_CHUNK, "choices": [choice]} for choice in choices), {**_CHUNK, "choices": [], "usage": usage}]
        lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        return httpx.Response(200, text=f"{lines}data: [DONE]\n\n", headers={"Content-Type": "text/event-stream"})

    try:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
            stream = await litellm.acompletion(
                model="openai/warm",
                messages=[{"role": "user", "content": "warm"}],
                stream=True,
                stream_options={"include_usage": True},
                client=openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1/v1", http_client=http),
            )
            return bool([chunk async for chunk in stream])
    except Exception:  # the boundary to litellm
        log.exception("warming the model host failed")
        return False


_SET_BEFORE_IMPORT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # do not fetch prices from the network
    "LITELLM_MODE": "PRODUCTION",  # do not read the .env of a folder around the installation
    "LITELLM_LOG": "CRITICAL",
    "DO_NOT_TRACK": "1",
}


def main() -> None:
    """Serve until standard input ends."""
    output = _take_output()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.update(_SET_BEFORE_IMPORT)
    try:
        litellm = _load()
    except Exception as error:  # noqa: BLE001  # boundary: any failure to load litellm is reported
        output.write(encode({"type": "broken", "message": clean(repr(error), from_environment(os.environ))}))
        output.flush()
        os._exit(1)
    try:
        asyncio.run(_Host(litellm, output).serve())
    finally:
        # Handloom has closed the pipe: do not report errors or wait for litellm's threads.
        os._exit(0)


def _take_output() -> BinaryIO:
    """Return standard output, and redirect what libraries print to standard error."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output


def _load() -> Any:
    """Import litellm and switch off its logging and callbacks."""
    logging.disable(logging.CRITICAL)
    _follow_no_redirects()
    _limit_events()
    import litellm

    litellm.suppress_debug_info = True
    litellm.drop_params = True
    litellm.turn_off_message_logging = True
    litellm.disable_streaming_logging = True
    litellm.num_retries = 0
    litellm.callbacks = []
    litellm.success_callback = []
    litellm.failure_callback = []
    skip_unneeded_work()
    return litellm


def _follow_no_redirects() -> None:
    """Disable redirects, so that no server can send a request with its key elsewhere.

    The libraries drop only the header `Authorization` on a redirect, and few providers have their keys in it.
    """
    import httpx

    send = httpx.AsyncClient.send

    @functools.wraps(send)
    async def send_once(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        return await send(self, request, **{**options, "follow_redirects": False})

    httpx.AsyncClient.send = send_once  # type: ignore[method-assign]


MAX_BODY_BYTES = 128 * 1024 * 1024
"""A body without events, or between two blank lines; the libraries collect it in memory."""
MAX_EVENT_BYTES = 16 * 1024 * 1024
"""One event of a stream. It takes the libraries a time that grows with the square of its size and of its lines."""
MAX_EVENT_LINES = 2_000


def _limit_events() -> None:
    """Refuse a body in which no event ends, so that no server can use up the memory."""
    import httpx

    read = httpx.Response.aiter_bytes

    @functools.wraps(read)
    async def read_limited(self: httpx.Response, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        has_events = self.headers.get("content-type", "").startswith("text/event-stream")
        most, most_lines = (MAX_EVENT_BYTES, MAX_EVENT_LINES) if has_events else (MAX_BODY_BYTES, MAX_BODY_BYTES)
        size = lines = 0
        async for data in read(self, chunk_size):
            end = max(data.rfind(b"\n\n"), data.rfind(b"\n\r\n"))
            size, lines = (0, 0) if end >= 0 else (size, lines)
            tail = data[max(end, 0) :]
            size, lines = size + len(tail), lines + tail.count(b"\n") + tail.count(b"\r")
            if max(size, len(data)) > most or lines > most_lines:
                raise httpx.DecodingError(f"an event of more than {most >> 20} MB or {most_lines:,} lines")
            yield data

    httpx.Response.aiter_bytes = read_limited  # type: ignore[method-assign]


class _Host:
    """Serves the calls: one task per call, ended by a cancel line or by the end of the input."""

    def __init__(self, litellm: Any, output: BinaryIO) -> None:
        self._litellm = litellm
        self._output = output
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._secrets = from_environment(os.environ)

    async def serve(self) -> None:
        """Process lines until the input ends, then cancel all running calls."""
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        self._write({"type": "ready"})
        async with asyncio.TaskGroup() as group:
            warming = group.create_task(warm(self._litellm))
            while data := await reader.readline():
                line = decode(data)
                number = line.get("id", 0)
                match line.get("type"):
                    case "complete":
                        self._calls[number] = group.create_task(self._answer(line))
                    case "cancel" if number in self._calls:
                        self._calls[number].cancel()
                    case "ping":
                        self._write({"type": "pong", "id": number})
                    case "models":
                        facts = facts_of(self._litellm.model_cost)
                        self._write({"type": "models", "id": number, "models": facts})
            for task in (warming, *self._calls.values()):
                task.cancel()

    async def _answer(self, order: Line) -> None:
        """Execute one call and write its result. A cancelled call writes nothing."""
        number = order["id"]

        def on_delta(text: str, channel: str) -> None:
            self._write({"type": "delta", "id": number, "text": text, "channel": channel})

        try:
            done = await complete(self._litellm, order, on_delta)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001  # boundary: any exception of a provider's code becomes an error line
            key_env = order["facts"]["key_env"]
            failure = failure_of(error, order["model"], self._secrets, datetime.now(UTC), key_env)
            self._write({"type": "error", "id": number, **asdict(failure)})
        else:
            self._write({"type": "done", "id": number, **done})
        finally:
            del self._calls[number]

    def _write(self, line: Line) -> None:
        """Write a line. Blocks while Handloom does not read, which also slows down the providers' streams."""
        self._output.write(encode(line))
        self._output.flush()


if __name__ == "__main__":
    main()
