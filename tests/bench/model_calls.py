"""What Handloom adds to a call of a model: through the model host and litellm, beside bare httpx to the same server.

The server is a process of its own on this machine and answers at once, with a short text. Calls of both kinds take
turns, so that both meet the same machine.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from time import perf_counter

import httpx

from core.llm.hosted import HostedLLM, ModelHost
from core.llm.settings import LLMSettings
from core.ports import LLMRequest
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import milliseconds_since
from tests.openai_server import KEY

CALLS, WARM = 200, 20
ADDED_MS = 8.0
"""What we allow ourselves on top of what the network and the server need."""
MESSAGES = [{"role": "user", "content": "Say hello."}]


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    command = (sys.executable, "-m", "tests.openai_server")
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    said = (await server.stdout.readline()).decode().removeprefix("export ").split()
    base = dict(item.split("=", 1) for item in said)["OPENAI_BASE_URL"]
    host = ModelHost({"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY})
    llm = HostedLLM(host, "openai/test", LLMSettings(api_base=base, num_retries=1))
    try:
        async with httpx.AsyncClient() as client:
            await host.ping()
            bare, ours, alone = [], [], []
            for _ in range(CALLS + WARM):
                bare.append(await _bare(client, base))
                ours.append(await _ours(llm))
                alone.append(await _ping(host))
    finally:
        await host.aclose()
        server.terminate()
        await server.wait()
    bare, ours = bare[WARM:], ours[WARM:]
    least = statistics.median(bare)
    return [
        Figure("model call, a short answer", "ms", ours, Limit("bare httpx, the same server", bare)),
        Figure("of that, what we and litellm add", "ms", [one - least for one in ours], targets=[Target(ADDED_MS)]),
        Figure("of that, the way to the model host and back", "ms", alone[WARM:], targets=[Target(1.0)]),
    ]


async def _bare(client: httpx.AsyncClient, base: str) -> float:
    body = {"model": "test", "messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
    began_at = perf_counter()
    async with client.stream(
        "POST", f"{base}/chat/completions", json=body, headers={"Authorization": f"Bearer {KEY}"}
    ) as response:
        lines = [line async for line in response.aiter_lines()]
    assert "data: [DONE]" in lines
    return milliseconds_since(began_at)


async def _ping(host: ModelHost) -> float:
    began_at = perf_counter()
    await host.ping()
    return milliseconds_since(began_at)


async def _ours(llm: HostedLLM) -> float:
    began_at = perf_counter()
    response = await llm.complete(LLMRequest(MESSAGES), lambda frame: None, 1)
    assert response.text
    return milliseconds_since(began_at)
