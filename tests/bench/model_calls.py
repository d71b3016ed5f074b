"""The overhead of Handloom for a model call, through the model host and litellm, compared with plain httpx.

The server is a separate process on this machine that answers immediately with a short text. Calls of both kinds
alternate, so that they have the same conditions. litellm alone is called last, in this process, as its documentation
says: the difference is Handloom's overhead, which is negative where the model host skips work of litellm.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from time import perf_counter
from typing import Any

import httpx

from core.agent.tools import CODEACT_TOOLS
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.settings import LLMSettings
from core.protocols import LLMRequest
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import milliseconds_since
from tests.bench.size import sized
from tests.openai_server import KEY

CALLS, WARM, LONG_CALLS = sized(200, 3), sized(20, 1), sized(40, 2)
ADDED_MS = 8.0
"""The overhead that is acceptable on top of network and server."""
FIRST_MS = 100.0
"""For the first call, once the model host has been up for as long as it takes to write a message."""
WRITING_S = 2.0
STEPS = 100
"""Tool calls in the long conversation, each with its result."""
Json = dict[str, Any]
MESSAGES: list[Json] = [{"role": "user", "content": "Say hello."}]


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
    request, long = LLMRequest(MESSAGES), LLMRequest(_long(), [tool.schema() for tool in CODEACT_TOOLS])
    try:
        async with httpx.AsyncClient() as client:
            await host.ping()
            await asyncio.sleep(WRITING_S)  # of the user, not a wait for Handloom
            first = await _ours(llm, request)
            bare, ours, alone = [], [], []
            for _ in range(CALLS + WARM):
                bare.append(await _bare(client, base, request))
                ours.append(await _ours(llm, request))
                alone.append(await _ping(host))
            pairs = [(await _bare(client, base, long), await _ours(llm, long)) for _ in range(LONG_CALLS)]
        litellm = _litellm()
        theirs = [await _theirs(litellm, base, request) for _ in range(CALLS + WARM)]
    finally:
        await host.aclose()
        server.terminate()
        await server.wait()
    bare, ours, theirs = bare[WARM:], ours[WARM:], theirs[WARM:]
    least, least_long = statistics.median(bare), statistics.median(one for one, _ in pairs)
    name = f"model call, {2 * STEPS} messages"
    return [
        Figure("model call, a short answer", "ms", ours, Limit("bare httpx, the same server", bare)),
        Figure("of that, what we and litellm add", "ms", [one - least for one in ours], targets=[Target(ADDED_MS)]),
        Figure("litellm alone adds, without us", "ms", [one - least for one in theirs]),
        Figure("of that, the way to the model host and back", "ms", alone[WARM:], targets=[Target(1.0)]),
        Figure(name, "ms", [one for _, one in pairs], Limit("bare httpx, the same server", [one for one, _ in pairs])),
        Figure("of that, what we and litellm add (long)", "ms", [one - least_long for _, one in pairs]),
        Figure("the first model call of all", "ms", [first], targets=[Target(FIRST_MS)]),
    ]


def _litellm() -> Any:
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "CRITICAL"}
    import litellm

    return litellm


def _long() -> list[Json]:
    """A conversation as an agent has it."""
    messages: list[Json] = [{"role": "user", "content": "Make the tests pass."}]
    for n in range(STEPS):
        function = {"name": "execute_bash", "arguments": '{"command": "pytest -q", "security_risk": "LOW"}'}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "I look again.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "name": "execute_bash", "content": "F" * 500})
    return messages


def _body(request: LLMRequest) -> Json:
    tools = {"tools": list(request.tools)} if request.tools else {}
    return {"messages": list(request.messages), "stream": True, "stream_options": {"include_usage": True}, **tools}


async def _bare(client: httpx.AsyncClient, base: str, request: LLMRequest) -> float:
    began_at = perf_counter()
    async with client.stream(
        "POST",
        f"{base}/chat/completions",
        json={"model": "test", **_body(request)},
        headers={"Authorization": f"Bearer {KEY}"},
    ) as response:
        lines = [line async for line in response.aiter_lines()]
    assert "data: [DONE]" in lines
    return milliseconds_since(began_at)


async def _theirs(litellm: Any, base: str, request: LLMRequest) -> float:
    began_at = perf_counter()
    stream = await litellm.acompletion(model="openai/test", api_base=base, api_key=KEY, **_body(request))
    chunks = [chunk async for chunk in stream]
    assert chunks
    return milliseconds_since(began_at)


async def _ping(host: ModelHost) -> float:
    began_at = perf_counter()
    await host.ping()
    return milliseconds_since(began_at)


async def _ours(llm: HostedLLM, request: LLMRequest) -> float:
    began_at = perf_counter()
    response = await llm.complete(request, lambda frame: None, 1)
    assert response.text
    return milliseconds_since(began_at)
