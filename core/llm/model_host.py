"""The model host: a child process that holds litellm and the provider keys, and calls models for all
conversations.

`python -m core.llm.model_host` reads the lines of `wire` from standard input and answers on standard output. It
ends when its input does, and so never outlives Handloom. What it keeps to itself: its output is for lines
alone, whatever a library prints; litellm logs nowhere, calls back to nobody, reads no `.env` of the folder
and fetches no price list; keys are taken out of every text that leaves; no core file is written.

The model host made quick: what its libraries do for others and nobody here needs is left out, and done once before.

OpenAI's library looks through every message for names to change and files to encode before it sends a request, which
takes as long as the conversation is: some 40 ms at 200 messages. Messages of ours are JSON already, in the words that
go over the wire. litellm works out what a streamed answer has cost before any of it has come; we ask at its end.

What is left out is found by its name; with a version that has no such name, all is done as ever.
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
from collections.abc import Callable
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


async def _as_it_is(data: Any, expected_type: object) -> Any:
    """The request, in which nothing is to be changed."""
    return data


def _nothing(**facts: object) -> None:
    """An answer that has not come has cost nothing."""


LEFT_OUT: dict[tuple[str, str], Callable[..., Any]] = {
    ("openai.resources.chat.completions.completions", "async_maybe_transform"): _as_it_is,
    ("litellm.utils", "update_response_metadata"): _nothing,
}
"""By module and name, what does its work instead."""


def lighten() -> list[str]:
    """Leave it out from here on, with litellm loaded; the names that were not found come back."""
    missing = []
    for (module, name), instead in LEFT_OUT.items():
        place = importlib.import_module(module)
        if hasattr(place, name):
            setattr(place, name, instead)
        else:
            missing.append(name)
    garbage_collector.freeze()  # what is loaded stays, and is a hundred times what a call makes
    return missing


async def warm(litellm: Any) -> bool:
    """Make a call that nobody sees, answered in this process: the first one loads and builds for 100 ms and more.

    Nothing goes over any network. False where it went wrong, which is for the log: the first call is slow then.
    """
    import httpx
    import openai

    async def answer(request: httpx.Request) -> httpx.Response:
        choices = [{"index": 0, "delta": d, "finish_reason": None if d else "stop"} for d in _DELTAS]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        chunks = [*({**_CHUNK, "choices": [choice]} for choice in choices), {**_CHUNK, "choices": [], "usage": usage}]
        said = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        return httpx.Response(200, text=f"{said}data: [DONE]\n\n", headers={"Content-Type": "text/event-stream"})

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
        log.exception("the model host could not be warmed")
        return False


_SET_BEFORE_IMPORT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no look-up for prices on the network
    "LITELLM_MODE": "PRODUCTION",  # no .env of a folder that the installation happens to be in
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
    except Exception as error:  # noqa: BLE001  # boundary: what keeps litellm from loading is told
        output.write(encode({"type": "broken", "message": clean(repr(error), from_environment(os.environ))}))
        output.flush()
        os._exit(1)
    try:
        asyncio.run(_Host(litellm, output).serve())
    finally:
        # Handloom has closed its end: nobody reads an error, or waits for litellm's own threads.
        os._exit(0)


def _take_output() -> BinaryIO:
    """Standard output for lines alone: what libraries print goes to standard error from now on."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output


def _load() -> Any:
    """litellm, made quiet."""
    logging.disable(logging.CRITICAL)
    _follow_no_redirects()
    import litellm

    litellm.suppress_debug_info = True
    litellm.drop_params = True
    litellm.turn_off_message_logging = True
    litellm.disable_streaming_logging = True
    litellm.num_retries = 0
    litellm.callbacks = []
    litellm.success_callback = []
    litellm.failure_callback = []
    lighten()
    return litellm


def _follow_no_redirects() -> None:
    """Keep requests, and so the keys in them, from going where an answer says.

    The libraries follow redirects, and take along every header but `Authorization`, in which few providers have keys.
    """
    import httpx

    send = httpx.AsyncClient.send

    @functools.wraps(send)
    async def send_once(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        return await send(self, request, **{**options, "follow_redirects": False})

    httpx.AsyncClient.send = send_once  # type: ignore[method-assign]


class _Host:
    """The serving side: one task a call, ended by a cancel line or by the end of the input."""

    def __init__(self, litellm: Any, output: BinaryIO) -> None:
        self._litellm = litellm
        self._output = output
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._secrets = from_environment(os.environ)

    async def serve(self) -> None:
        """Take lines until there are no more; then every call that is under way is ended."""
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        self._say({"type": "ready"})
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
                        self._say({"type": "pong", "id": number})
                    case "models":
                        facts = facts_of(self._litellm.model_cost)
                        self._say({"type": "models", "id": number, "models": facts})
            for task in (warming, *self._calls.values()):
                task.cancel()

    async def _answer(self, order: Line) -> None:
        """Carry out one call and say how it ended. Says nothing of a call that was cancelled."""
        number = order["id"]

        def on_delta(text: str, channel: str) -> None:
            self._say({"type": "delta", "id": number, "text": text, "channel": channel})

        try:
            done = await complete(self._litellm, order, on_delta)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001  # boundary: whatever a provider's code raises becomes an error line
            key_env = order["facts"]["key_env"]
            failure = failure_of(error, order["model"], self._secrets, datetime.now(UTC), key_env)
            wait = failure.retry_after_s
            self._say(
                {
                    "type": "error",
                    "id": number,
                    "kind": failure.kind,
                    "message": failure.message,
                    "retry_after_s": wait,
                }
            )
        else:
            self._say({"type": "done", "id": number, **done})
        finally:
            del self._calls[number]

    def _say(self, line: Line) -> None:
        """Write a line. Blocks while Handloom does not read, which holds back the providers' streams too."""
        self._output.write(encode(line))
        self._output.flush()


if __name__ == "__main__":
    main()
