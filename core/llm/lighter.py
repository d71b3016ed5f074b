"""The model host made quick: what its libraries do for others and nobody here needs is left out, and done once before.

OpenAI's library looks through every message for names to change and files to encode before it sends a request, which
takes as long as the conversation is: some 40 ms at 200 messages. Messages of ours are JSON already, in the words that
go over the wire. litellm works out what a streamed answer has cost before any of it has come; we ask at its end.

What is left out is found by its name; with a version that has no such name, all is done as ever.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable
from typing import Any

from core import collector

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
    collector.spare()  # what is loaded stays, and is a hundred times what a call makes
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
