"""Known models: litellm's tables without guesses, usable providers, and model servers on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from core.llm.call import price_of
from core.llm.model_catalogue import (
    MAX_ANSWER_BYTES,
    MAX_MODELS,
    KnownModel,
    LocalServer,
    facts_of,
    find_servers,
    local_url,
    models_of,
    served_models,
)
from core.llm.model_host_client import ModelHost
from core.llm.registry import LLMRegistry
from core.llm.settings import LLMSettings

TABLE = {
    "sample_spec": {"litellm_provider": "one of https://docs", "mode": "chat"},
    "claude-x": {
        "litellm_provider": "anthropic",
        "mode": "chat",
        "max_input_tokens": 200_000,
        "input_cost_per_token": 3e-06,
        "output_cost_per_token": 1.5e-05,
        "supports_vision": True,
    },
    "gpt-x": {"litellm_provider": "openai", "mode": "responses", "max_input_tokens": "many"},
    "openai/gpt-x": {"litellm_provider": "openai", "mode": "chat"},
    "dall-e": {"litellm_provider": "openai", "mode": "image_generation"},
    "amazon.nova": {"litellm_provider": "bedrock_converse", "mode": "chat", "supports_vision": False},
    "elsewhere/m": {"litellm_provider": "nobody_knows", "mode": "chat"},
}


def test_listed_models_keep_unknown_figures_unknown() -> None:
    assert facts_of(TABLE) == [
        ["anthropic/claude-x", 200_000, 3.0, 15.0, True],
        ["openai/gpt-x", None, None, None, None],
        ["bedrock/amazon.nova", None, None, None, False],
    ]


def test_listed_names_find_their_price() -> None:
    for name, *_ in facts_of(TABLE):
        assert price_of(TABLE, name) is not None


def test_providers_with_a_key_come_first_without_reading_its_value() -> None:
    models = models_of(facts_of(TABLE), {"OPENAI_API_KEY": "never looked at"})
    assert [(model.name, model.has_key) for model in models] == [
        ("openai/gpt-x", True),
        ("anthropic/claude-x", False),
        ("bedrock/amazon.nova", False),
    ]
    assert models[1] == KnownModel(
        "anthropic/claude-x", "Anthropic", False, "ANTHROPIC_API_KEY", 200_000, 3.0, 15.0, True
    )
    assert "never looked at" not in repr(models)


def test_other_names_of_a_model_are_listed_behind_it() -> None:
    names = [
        "anthropic/claude-a-20250101",
        "anthropic/claude-a",
        "anthropic/claude-only-20250101",
        "bedrock/us.anthropic.claude-a",
        "bedrock/anthropic.claude-a",
        "anthropic/claude-sonnet-5-5",
        "openai/gpt-z-2025-01-01",
        "openai/gpt-z",
    ]
    assert [model.name for model in models_of([[name, None, None, None, None] for name in names], {})] == [
        "anthropic/claude-sonnet-5-5",  # the one that is offered
        "anthropic/claude-a",
        "anthropic/claude-only-20250101",
        "anthropic/claude-a-20250101",
        "openai/gpt-z",
        "openai/gpt-z-2025-01-01",
        "bedrock/anthropic.claude-a",
        "bedrock/us.anthropic.claude-a",
    ]


@pytest.mark.timeout(120)
async def test_host_returns_litellms_models() -> None:
    host = ModelHost()
    try:
        facts = await host.models()
    finally:
        await host.aclose()
    assert len(facts) > 1000
    by_name = {fact[0]: fact for fact in facts}
    assert by_name["openai/gpt-4o"][1:] == [128_000, 2.5, 10.0, True]


Json = dict[str, Any]


@dataclass
class Listener:
    """Answers each path with these bytes unchanged; hangs for None."""

    answers: dict[str, bytes | None]
    asked: list[str] = field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(request)
        answer = self.answers.get(request.split()[1], b"HTTP/1.1 404 Not Found\r\n\r\n")
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()


@asynccontextmanager
async def listening(answers: dict[str, bytes | None]) -> AsyncIterator[Listener]:
    listener = Listener(answers)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        await server.wait_closed()


def ok(body: Any) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + data


async def found(answers: dict[str, bytes | None], timeout_s: float = 5.0) -> tuple[list[LocalServer], Listener]:
    async with listening(answers) as listener:
        return await find_servers([listener.port], timeout_s), listener


async def test_models_are_listed_by_the_openai_and_ollama_apis() -> None:
    openai = ok({"object": "list", "data": [{"id": "qwen3-coder:30b"}, {"id": "org/model.gguf"}]})
    servers, listener = await found({"/v1/models": openai})
    port = listener.port
    assert servers == [
        LocalServer(port, "OpenAI-compatible", (f"local:{port}/qwen3-coder:30b", f"local:{port}/org/model.gguf"))
    ]
    servers, listener = await found({"/api/tags": ok({"models": [{"name": "llama3:8b", "model": "llama3:8b"}]})})
    assert servers[0].models == (f"local:{listener.port}/llama3:8b",)


async def test_listing_sends_no_key_or_other_private_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    _, listener = await found({})
    head = f"HTTP/1.0\r\nHost: 127.0.0.1:{listener.port}\r\nAccept: application/json\r\n\r\n"
    assert listener.asked == [f"GET /v1/models {head}", f"GET /api/tags {head}"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/v1/models\r\n\r\n",
        b"HTTP/1.1 500 No\r\n\r\n" + json.dumps({"data": [{"id": "x"}]}).encode(),
        ok(b"<html>"),
        ok(b"\xff\xfe\x00"),
        ok(b"[" * 50_000),
        ok([]),
        ok({"data": {"id": "x"}}),
        ok({"data": [None, 1, "x", {"id": 5}, {"id": ""}, {"id": "a b"}, {"id": "\x1b[31m"}, {"id": "y" * 300}]}),
        ok({"data": [{"id": "x"}], "padding": "x" * MAX_ANSWER_BYTES}),
    ],
)
async def test_other_responses_give_no_models(answer: bytes) -> None:
    servers, _ = await found({"/v1/models": answer, "/api/tags": answer})
    assert servers == []


async def test_only_the_first_of_very_many_models_are_listed() -> None:
    servers, _ = await found({"/v1/models": ok({"data": [{"id": f"m{n}"} for n in range(1000)]})})
    assert len(servers[0].models) == MAX_MODELS


async def test_servers_are_queried_concurrently_with_a_timeout() -> None:
    async with (
        listening({"/v1/models": None}) as silent,
        listening({"/v1/models": None}) as another,
        listening({"/v1/models": ok({"data": [{"id": "x"}]})}) as good,
    ):
        clock = asyncio.get_running_loop().time
        begun = clock()
        servers = await find_servers([silent.port, another.port, good.port, 1], 1.0)
        assert clock() - begun < 1.9, "one after the other takes 2 s"
        assert [server.port for server in servers] == [good.port]


async def test_found_model_can_be_chosen_and_is_called_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening({"/v1/models": ok({"data": [{"id": "x"}]})}) as listener:
        monkeypatch.setattr("core.llm.registry.find_servers", lambda: find_servers([listener.port]))
        registry = LLMRegistry({"OPENAI_API_KEY": "sk-canary-0123456789"})
        (model,) = await registry.local_models(LLMSettings(), {})
        assert (model.name, model.why, model.has_key) == (f"local:{listener.port}/x", "served", True)
        assert registry.create(model.name, "/w", LLMSettings(), {}).name == model.name
        assert local_url(listener.port) == f"http://127.0.0.1:{listener.port}/v1"
        assert await registry.local_models(LLMSettings(find_local=False), {}) == []
        assert len(listener.asked) == 1
    assert served_models([]) == []
