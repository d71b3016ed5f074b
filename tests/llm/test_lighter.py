"""What the model host leaves out of its libraries' work, with the versions that are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from core.llm.hosted import HostedLLM, ModelHost
from core.llm.settings import LLMSettings
from core.ports import LLMRequest
from tests.openai_server import KEY, OpenAIServer

ROOT = Path(__file__).parents[2]
CODE = """
import asyncio, os, sys
from core.llm import host
from core.llm.lighter import lighten, warm
calls = []
sys.addaudithook(lambda event, args: calls.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
os.environ.update(host._SET_BEFORE_IMPORT)
litellm = host._load()
print(lighten(), asyncio.run(warm(litellm)), calls)
"""
"""Says which names are missing, whether a first call went through, and whom it called."""


def test_the_installed_versions_have_what_is_left_out_and_a_warm_host_has_called_nobody() -> None:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "[] True []", done.stderr


async def test_a_request_is_sent_as_it_is() -> None:
    seen = [{"type": "text", "text": "ä"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": seen},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "r"},
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    host = ModelHost({"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY})
    try:
        async with OpenAIServer() as server:
            llm = HostedLLM(host, "openai/gpt-4o", LLMSettings(api_base=server.base_url, num_retries=1))
            await llm.complete(LLMRequest(messages, tools), lambda frame: None, 1)
            (exchange,) = server.exchanges
    finally:
        await host.aclose()
    assert exchange.body["tools"] == tools
    sent = exchange.body["messages"]
    assert sent == messages
