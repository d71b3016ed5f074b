"""Providers' own ways of streaming, through the real model host; tests.campaign.streams cuts them at every byte."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from core.errors import ModelError
from core.events import Frame, TokenDelta
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.providers import PROVIDERS
from core.llm.settings import LLMSettings, ModelFacts
from core.protocols import LLMRequest, LLMResponse
from tests.llm.shapes import ANTHROPIC, ARGUMENTS, GEMINI, OPENAI, SHAPES, TEXT, ProviderServer, Shape, leads_to
from tests.openai_server import sends

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOL = {"type": "function", "function": {"name": "execute_bash", "parameters": {"type": "object", "properties": {}}}}
REQUEST = LLMRequest([{"role": "user", "content": "hi"}], [TOOL])
KEYS = {shape.variable: f"key-of-{shape.variable.lower()}-0123456789" for shape in SHAPES}
OWN = "key-of-my-own-0123456789"
ids = [shape.variable for shape in SHAPES]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host() -> AsyncIterator[ModelHost]:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **KEYS, "MY_API_KEY": OWN}
    model_host = ModelHost(environ)
    await model_host.ping()
    yield model_host
    await model_host.aclose()


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[ProviderServer]:
    async with ProviderServer() as local:
        yield local


def model(
    host: ModelHost, server: ProviderServer, shape: Shape, facts: ModelFacts | None = None, **settings: object
) -> HostedLLM:
    base = f"{server.url}/v1" if shape is OPENAI else server.url
    said = LLMSettings.model_validate({"num_retries": 1, "api_base": base, **settings})
    return HostedLLM(host, shape.model, said, facts=facts or ModelFacts())


async def ask(llm: HostedLLM, request: LLMRequest = REQUEST) -> tuple[LLMResponse, list[Frame]]:
    frames: list[Frame] = []
    return await llm.complete(request, frames.append, 5), frames


def text_of(frames: list[Frame], channel: str) -> str:
    return "".join(frame.text for frame in frames if isinstance(frame, TokenDelta) and frame.channel == channel)


@pytest.mark.parametrize("shape", SHAPES, ids=ids)
async def test_every_form_of_an_answer_round_trips(host: ModelHost, server: ProviderServer, shape: Shape) -> None:
    server.behave = sends(*shape.events)
    response, frames = await ask(model(host, server, shape))
    assert (response.text, response.reasoning) == (TEXT, "I should look.")
    assert (text_of(frames, "answer"), text_of(frames, "reasoning")) == (TEXT, "I should look.")
    (call,) = response.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("execute_bash", json.loads(ARGUMENTS))
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (100, 20)
    assert response.cost is None, "nobody knows this model's price"
    assert KEYS[shape.variable] in server.seen()


@pytest.mark.parametrize("shape", [ANTHROPIC, GEMINI], ids=["anthropic", "gemini"])
async def test_offered_model_answers(host: ModelHost, server: ProviderServer, shape: Shape) -> None:
    server.behave = sends(*shape.events)
    offered = PROVIDERS[shape.model.partition("/")[0]].default_model
    response, _ = await ask(model(host, server, replace(shape, model=offered)))
    assert response.text == TEXT
    assert offered.partition("/")[2] in server.seen()


async def test_cached_prompt_tokens_are_counted(host: ModelHost, server: ProviderServer) -> None:
    server.behave = sends(*ANTHROPIC.events)
    facts = ModelFacts(price_in=10.0, price_out=100.0, price_cache_read=1.0, price_cache_write=20.0, context_window=77)
    response, _ = await ask(model(host, server, ANTHROPIC, facts))
    assert (response.usage.cache_read_tokens, response.usage.cache_write_tokens) == (30, 10)
    assert response.usage.context_window == 77
    assert response.cost == pytest.approx((60 * 10 + 30 * 1 + 10 * 20 + 20 * 100) / 1e6)


async def test_cache_marks_are_added_where_the_provider_needs_them(host: ModelHost, server: ProviderServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "execute_bash", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a result"},
    ]
    server.behave = sends(*ANTHROPIC.events)
    await ask(model(host, server, ANTHROPIC), LLMRequest(messages, [TOOL]))
    await ask(model(host, server, ANTHROPIC, prompt_caching=False), LLMRequest(messages, [TOOL]))
    server.behave = sends(*OPENAI.events)
    await ask(model(host, server, OPENAI), LLMRequest(messages, [TOOL]))
    marked, plain, openai = (json.dumps(exchange.body) for exchange in server.exchanges)
    body = server.exchanges[0].body
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][-1]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert marked.count("cache_control") == 3
    assert ("cache_control" in plain, "cache_control" in openai) == (False, False)


async def test_request_is_sent_unchanged(host: ModelHost, server: ProviderServer) -> None:
    seen = [{"type": "text", "text": "ä"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": seen},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "r"},
    ]
    await ask(model(host, server, OPENAI, vision="yes"), LLMRequest(messages, [TOOL]))
    (exchange,) = server.exchanges
    assert (exchange.body["messages"], exchange.body["tools"]) == (messages, [TOOL])


async def test_model_settings_reach_the_provider(host: ModelHost, server: ProviderServer) -> None:
    await ask(model(host, server, OPENAI, temperature=0.25, max_tokens=123))
    assert (server.exchanges[0].body["temperature"], server.exchanges[0].body["max_tokens"]) == (0.25, 123)


@pytest.mark.parametrize("shape", SHAPES, ids=ids)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirect_does_not_send_the_key_to_another_host(
    host: ModelHost, server: ProviderServer, shape: Shape, status: int
) -> None:
    async with ProviderServer(sends(*shape.events)) as foreign:
        server.behave = leads_to(f"{foreign.url}/stolen", status)
        with pytest.raises(ModelError) as caught:
            await ask(model(host, server, shape))
        assert foreign.exchanges == []
        assert KEYS[shape.variable] not in str(caught.value)


@pytest.mark.parametrize("shape", SHAPES, ids=ids)
@pytest.mark.parametrize(("key_env", "sent"), [("", ()), ("MY_API_KEY", (OWN,))])
async def test_custom_address_gets_only_the_named_key(
    host: ModelHost, server: ProviderServer, shape: Shape, key_env: str, sent: tuple[str, ...]
) -> None:
    server.behave = sends(*shape.events)
    await ask(model(host, server, shape, ModelFacts(key_env=key_env)))
    assert tuple(key for key in (*KEYS.values(), OWN) if key in server.seen()) == sent


async def test_local_model_has_no_price(host: ModelHost, server: ProviderServer) -> None:
    named_alike = Shape("openai/gpt-4o", OPENAI.variable, OPENAI.events, OPENAI.finished)
    local, _ = await ask(model(host, server, named_alike, ModelFacts(key_env="")))
    assert (local.cost, local.usage.context_window) == (None, 0)


async def test_answer_without_usage_has_no_cost(host: ModelHost, server: ProviderServer) -> None:
    server.behave = sends(*(event for event in OPENAI.events if b'"usage"' not in event))
    priced = Shape("openai/gpt-4o", OPENAI.variable, OPENAI.events, OPENAI.finished)
    response, _ = await ask(model(host, server, priced))
    assert response.text == TEXT
    assert response.cost != 0
    assert response.usage.is_estimated, "what was counted here is not what the provider counted"


@pytest.mark.parametrize("shape", SHAPES, ids=ids)
async def test_token_counts_of_the_provider_are_no_estimate(
    host: ModelHost, server: ProviderServer, shape: Shape
) -> None:
    server.behave = sends(*shape.events)
    response, _ = await ask(model(host, server, shape))
    assert not response.usage.is_estimated
    assert "is_estimated" not in response.usage.model_dump(), "so that a log says it only where it is so"


async def test_facts_of_a_model_come_from_tables_and_settings(host: ModelHost, server: ProviderServer) -> None:
    known = Shape("gemini/gemini-2.5-pro", GEMINI.variable, GEMINI.events, GEMINI.finished)
    capabilities = await model(host, server, known).capabilities()
    assert (capabilities.context_window or 0) > 100_000
    assert capabilities.vision is True
    capabilities = await model(host, server, known, ModelFacts(context_window=5), vision="no").capabilities()
    assert (capabilities.context_window, capabilities.vision) == (5, False)
    assert (await model(host, server, OPENAI).capabilities()).vision is None
