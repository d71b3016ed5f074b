"""Models of providers, through the real model host and litellm, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from core.errors import ModelError, ModelErrorKind
from core.events import Frame, Status, TokenDelta
from core.llm.model_host_client import HostedLLM, ModelHost
from core.llm.providers import PROVIDERS, Provider
from core.llm.registry import create_llm
from core.llm.settings import LLMSettings
from core.protocols import LLMRequest, LLMResponse, ToolCall
from core.status_messages import BROKE_OFF, RETRY_STATUS
from tests.openai_server import (
    KEY,
    Behaviour,
    OpenAIServer,
    answers,
    cuts,
    events_of_answer,
    fails,
    resets,
    sends,
    stalls,
)
from tests.stopped_clock import stopped_clock
from tests.store.test_blobs import png, url

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITHIN_S = 60.0
"""Until something has to have happened: generous, because other tests may have the cores."""
CANARY = "canary-0123456789-value"
TOOL = {
    "type": "function",
    "function": {"name": "execute_bash", "parameters": {"type": "object", "properties": {}}},
}
REQUEST = LLMRequest([{"role": "user", "content": "hi"}], [TOOL])
WHOLE = events_of_answer("Let me look: ä", [("execute_bash", '{"command": "ls -la"}')])


AUDIT = """
import os, sys
log = open(os.environ["AUDIT_LOG"], "a", buffering=1)
def note(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        log.write(f"{event} {args[1:] if event == 'socket.connect' else args}\\n")
sys.addaudithook(note)
"""
"""A sitecustomize module for the host, which notes where it connects to."""


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    (folder / "sitecustomize.py").write_text(AUDIT)
    return folder / "audit.log"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(audit_log: Path) -> AsyncIterator[ModelHost]:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "OPENAI_API_KEY": KEY,
        "OTHER_API_KEY": CANARY,
        "PYTHONPATH": str(audit_log.parent),
        "AUDIT_LOG": str(audit_log),
    }
    model_host = ModelHost(environ)
    await model_host.ping()
    yield model_host
    await model_host.aclose()


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as local:
        yield local


def model(host: ModelHost, server: OpenAIServer, name: str = "openai/test", **settings: object) -> HostedLLM:
    quick = {
        "num_retries": 1,
        "retry_min_wait_s": 0.01,
        "retry_max_wait_s": 0.02,
        "api_base": server.base_url,
    }
    return HostedLLM(host, name, LLMSettings.model_validate({**quick, **settings}), Random(1))


async def ask(llm: HostedLLM) -> tuple[LLMResponse, list[Frame]]:
    frames: list[Frame] = []
    return await llm.complete(REQUEST, frames.append, 5), frames


async def error_of(llm: HostedLLM) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(llm)
    return caught.value


async def test_answer_is_streamed_and_returned_completely(host: ModelHost, server: OpenAIServer) -> None:
    server.then(sends(*WHOLE))
    response, frames = await ask(model(host, server))
    assert "".join(frame.text for frame in frames if isinstance(frame, TokenDelta)) == "Let me look: ä"
    assert len(frames) > 1
    assert {frame.cause for frame in frames if isinstance(frame, TokenDelta)} == {5}
    assert response.text == "Let me look: ä"
    assert response.tool_calls == (ToolCall("call_0", "execute_bash", '{"command": "ls -la"}'),)
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (100, 20)
    assert response.finish_reason == "tool_calls"


OFFERED = [one for one in PROVIDERS.values() if one.default_model and one.prefix not in ("anthropic", "gemini")]
"""The providers that speak like OpenAI; test_shapes has the others."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host_with_all_keys() -> AsyncIterator[ModelHost]:
    keys = {one.key_variables[0]: KEY for one in OFFERED}
    model_host = ModelHost({"PATH": os.environ["PATH"], "HOME": "/nonexistent", **keys})
    yield model_host
    await model_host.aclose()


@pytest.mark.parametrize("provider", OFFERED, ids=lambda one: one.prefix)
async def test_offered_model_of_every_provider_answers(
    host_with_all_keys: ModelHost, server: OpenAIServer, provider: Provider
) -> None:
    server.then(sends(*WHOLE))
    response, _frames = await ask(model(host_with_all_keys, server, provider.default_model))
    assert response.tool_calls[0].name == "execute_bash"
    (exchange,) = server.exchanges
    assert provider.default_model.endswith(exchange.body["model"])
    assert None not in exchange.body.values()


async def test_provider_gets_messages_tools_and_key(host: ModelHost, server: OpenAIServer) -> None:
    await ask(model(host, server, temperature=0.5))
    (exchange,) = server.exchanges
    assert exchange.headers["Authorization"] == f"Bearer {KEY}"
    assert exchange.body["messages"] == list(REQUEST.messages)
    assert exchange.body["tools"] == [TOOL]
    assert exchange.body["temperature"] == 0.5
    assert exchange.body["model"] == "test"


@pytest.mark.parametrize(("vision", "seen"), [("yes", True), ("no", False), ("auto", False)])
async def test_pictures_are_sent_to_a_model_with_vision(
    host: ModelHost, server: OpenAIServer, vision: str, seen: bool
) -> None:
    picture = {"type": "image_url", "image_url": {"url": url(png())}}
    request = LLMRequest([{"role": "user", "content": [{"type": "text", "text": "look"}, picture]}])
    await model(host, server, vision=vision).complete(request, lambda frame: None, 7)
    content = server.exchanges[-1].body["messages"][0]["content"]
    assert (picture in content) is seen, "auto does not know the model of a test"


async def test_unknown_price_is_not_zero(host: ModelHost, server: OpenAIServer) -> None:
    unknown, _ = await ask(model(host, server))
    assert (unknown.cost, unknown.usage.context_window) == (None, 0)
    known, _ = await ask(model(host, server, "openai/gpt-4o"))
    assert known.cost == pytest.approx(100 * 2.5e-6 + 20 * 1e-5)
    assert known.usage.context_window == 128_000


async def test_calls_of_one_answer_are_separate(host: ModelHost, server: OpenAIServer) -> None:
    calls = [(f"tool_{n}", json.dumps({"n": n, "text": "x" * 30})) for n in range(5)]
    server.then(answers("", calls))
    response, _ = await ask(model(host, server))
    assert [(call.name, call.arguments) for call in response.tool_calls] == calls


async def test_malformed_arguments_are_passed_on_unchanged(host: ModelHost, server: OpenAIServer) -> None:
    server.then(answers("", [("think", '{"thought": ')]))
    response, _ = await ask(model(host, server))
    assert response.tool_calls[0].arguments == '{"thought": '


async def test_empty_answer_is_an_answer(host: ModelHost, server: OpenAIServer) -> None:
    server.then(answers(""))
    response, frames = await ask(model(host, server))
    assert (response.text, response.tool_calls, frames) == ("", (), [])


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (fails(401, f"bad key {KEY}"), ModelErrorKind.AUTHENTICATION),
        (fails(403), ModelErrorKind.AUTHENTICATION),
        (fails(404), ModelErrorKind.NOT_FOUND),
        (fails(429), ModelErrorKind.RATE_LIMIT),
        (fails(429, "You exceeded your current quota", code="insufficient_quota"), ModelErrorKind.BUDGET),
        (fails(400), ModelErrorKind.BAD_REQUEST),
        (fails(400, "This model's maximum context length is 10"), ModelErrorKind.CONTEXT_WINDOW),
        (fails(402), ModelErrorKind.BUDGET),
        (fails(408), ModelErrorKind.TIMEOUT),
        (fails(500), ModelErrorKind.SERVER),
        (fails(502), ModelErrorKind.SERVER),
        (fails(503), ModelErrorKind.SERVER),
        (fails(529), ModelErrorKind.SERVER),
        (resets(), ModelErrorKind.CONNECTION),
        (cuts(len(WHOLE[0]) + 40, WHOLE), ModelErrorKind.CONNECTION),
        (sends(*WHOLE[:4]), ModelErrorKind.CONNECTION),
        (answers("text", finish_reason=None), ModelErrorKind.CONNECTION),
        (answers("", [("execute_bash", "{}")], finish_reason=None), ModelErrorKind.CONNECTION),
        (sends(b"data: {not json\n\n"), ModelErrorKind.BAD_RESPONSE),
        (sends(WHOLE[0], b'data: {"id": "\xff\xfe"}\n\n', *WHOLE[1:]), ModelErrorKind.BAD_RESPONSE),
        (sends(b"<html>not an API</html>"), ModelErrorKind.BAD_RESPONSE),
        (sends(*events_of_answer(finish_reason=None)), ModelErrorKind.BAD_RESPONSE),
        (sends(WHOLE[0], b'data: {"error": {"message": "overloaded"}}\n\n'), ModelErrorKind.SERVER),
    ],
)
async def test_each_failure_has_its_kind_and_shows_no_key(
    host: ModelHost, server: OpenAIServer, behaviour: Behaviour, kind: ModelErrorKind
) -> None:
    server.then(behaviour)
    error = await error_of(model(host, server))
    assert error.kind is kind
    assert KEY not in str(error)


@pytest.mark.parametrize("part", [b"a" * 1_000_000, b"data: 1\n" * 125_000], ids=["no line", "no blank line"])
async def test_event_without_end_does_not_fill_the_memory(host: ModelHost, server: OpenAIServer, part: bytes) -> None:
    server.then(sends(b"data: ", *[part] * 400))
    error = await error_of(model(host, server))
    assert (error.kind, "an event of more than 16 MB" in str(error)) == (ModelErrorKind.BAD_RESPONSE, True)


async def test_keys_in_error_texts_are_redacted(host: ModelHost, server: OpenAIServer) -> None:
    server.then(fails(400, f"you sent {KEY} and {CANARY}"))
    assert str(await error_of(model(host, server))).endswith("you sent [key] and [key]")


async def test_answer_with_a_finish_reason_is_complete_without_its_last_line(
    host: ModelHost, server: OpenAIServer
) -> None:
    server.then(sends(*WHOLE[:-1]))
    response, _ = await ask(model(host, server))
    assert response.tool_calls[0].arguments == '{"command": "ls -la"}'


async def test_cut_stream_gives_no_incomplete_tool_call(host: ModelHost, server: OpenAIServer) -> None:
    data = b"".join(WHOLE)
    finished_at = data.index(b'"finish_reason": "tool_calls"') + len(b'"finish_reason": "tool_calls"}]}\n\n')
    for at_byte in range(0, len(data), 41):
        server.then(cuts(at_byte, WHOLE))
        if at_byte < finished_at:
            with pytest.raises(ModelError) as caught:
                await ask(model(host, server))
            assert caught.value.kind in (ModelErrorKind.CONNECTION, ModelErrorKind.BAD_RESPONSE), at_byte
        else:
            response, _ = await ask(model(host, server))
            assert response.tool_calls[0].arguments == '{"command": "ls -la"}'


@pytest.mark.parametrize(
    ("behaviour", "limits", "what"),
    [
        (stalls(with_head=False), {"first_token_timeout_s": 0.2}, "no answer within 0.2 s"),
        (stalls(), {"first_token_timeout_s": 0.2}, "no answer within 0.2 s"),
        (sends(*[WHOLE[1]] * 90, pause_s=0.1), {"total_timeout_s": 1}, "the answer took longer than 1 s"),
    ],
)
async def test_stalled_provider_times_out(
    host: ModelHost, server: OpenAIServer, behaviour: Behaviour, limits: dict[str, Any], what: str
) -> None:
    server.then(behaviour)
    llm = model(host, server, **limits)
    error = await error_of(llm)
    assert error.kind is ModelErrorKind.TIMEOUT
    assert str(error).endswith(f"{what} Tried 1 times.") or str(error).endswith(what)


async def test_answer_that_stops_is_withdrawn_and_retried(host: ModelHost, server: OpenAIServer) -> None:
    """A connection that is lost without a word looks like this."""
    server.then(stalls(WHOLE[:3]), answers("whole"))
    limits: dict[str, Any] = {"idle_timeout_s": 0.3, "num_retries": 2, "retry_min_wait_s": 0.01}
    response, frames = await ask(model(host, server, **limits))
    assert response.text == "whole"
    assert any(isinstance(frame, Status) and BROKE_OFF in frame.message for frame in frames)
    server.then(*[stalls(WHOLE[:3])] * 2)
    error = await error_of(model(host, server, **limits))
    assert error.kind is ModelErrorKind.CONNECTION
    assert str(error).endswith("the answer stopped for 0.3 s Tried 2 times.")


@pytest.mark.parametrize("base", ["http://127.0.0.1:1/v1", "https://127.0.0.1:{port}/v1", "https://nobody.invalid/v1"])
async def test_unreachable_provider_is_a_connection_failure(host: ModelHost, server: OpenAIServer, base: str) -> None:
    """A closed port, a server without TLS, and an unknown host name."""
    port = server.base_url.rpartition(":")[2].removesuffix("/v1")
    error = await error_of(model(host, server, api_base=base.format(port=port)))
    assert error.kind is ModelErrorKind.CONNECTION
    assert "Check the network" in str(error)


async def test_connection_that_is_never_established_has_its_own_timeout(host: ModelHost, server: OpenAIServer) -> None:
    held: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda reader, writer: held.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with asyncio.timeout(WITHIN_S):  # the first token has 180 s
        error = await error_of(model(host, server, api_base=f"https://127.0.0.1:{port}/v1", connect_timeout_s=0.5))
    assert error.kind in (ModelErrorKind.TIMEOUT, ModelErrorKind.CONNECTION)
    silent.close()
    for writer in held:
        writer.close()


async def test_temporary_errors_are_retried_after_retry_after(host: ModelHost, server: OpenAIServer) -> None:
    server.then(fails(429, headers={"Retry-After": "0.3"}), fails(503), answers("At last."))
    started = time.monotonic()
    response, frames = await ask(model(host, server, num_retries=5))
    assert response.text == "At last."
    assert time.monotonic() - started >= 0.3
    assert [frame.message.split(" in ")[0] for frame in frames if isinstance(frame, Status)] == [
        "Retrying LLM request, 2 / 5",
        "Retrying LLM request, 3 / 5",
        "",
    ]


async def test_authentication_error_is_not_retried(host: ModelHost, server: OpenAIServer) -> None:
    server.key = "another"
    error = await error_of(model(host, server, num_retries=5))
    assert str(error).startswith("The key for this provider was not accepted (401). Enter another one with")
    assert KEY not in str(error)
    assert len(server.exchanges) == 1


async def test_answer_that_broke_off_is_withdrawn_and_retried(host: ModelHost, server: OpenAIServer) -> None:
    server.then(sends(*WHOLE[:4]))
    server.then(sends(*WHOLE))
    response, frames = await ask(model(host, server, num_retries=5))
    assert len(server.exchanges) == 2
    assert (response.text, len(response.tool_calls)) == ("Let me look: ä", 1)
    withdrawn = next(n for n, frame in enumerate(frames) if isinstance(frame, Status) and frame.id == RETRY_STATUS)
    before, after = ("".join(frame.text for frame in part if isinstance(frame, TokenDelta)) for part in
                     (frames[:withdrawn], frames[withdrawn:]))  # fmt: skip
    assert before
    assert "Let me look: ä".startswith(before)
    assert after == "Let me look: ä"


@pytest.mark.parametrize("behaviour", [stalls(with_head=False), stalls(WHOLE[:3])])
async def test_cancelling_returns_at_once_and_closes_the_connection(
    host: ModelHost, server: OpenAIServer, behaviour: Behaviour
) -> None:
    server.then(behaviour)
    call = asyncio.create_task(ask(model(host, server)))
    await server.arrived.wait()
    call.cancel()
    with stopped_clock(), pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(server.exchanges[0].hung_up.wait(), WITHIN_S)


async def test_call_cancelled_at_any_moment_leaves_nothing(host: ModelHost, server: OpenAIServer) -> None:
    """Cancels after the k-th turn of the loop, for every k until the call completes."""
    turns, is_over = 0, False
    while not is_over:
        call = asyncio.create_task(ask(model(host, server)))
        for _ in range(turns):
            await asyncio.sleep(0)
        if is_over := call.done():
            assert (await call)[0].text == "Hello."
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        assert host._calls == {}, turns
        turns += 1 if turns < 20 else turns
    assert (await ask(model(host, server)))[0].text == "Hello."


async def test_calls_run_concurrently(host: ModelHost, server: OpenAIServer) -> None:
    server.then(stalls(WHOLE[:3]))
    slow = asyncio.create_task(ask(model(host, server)))
    await server.arrived.wait()
    quick = await asyncio.gather(*(ask(model(host, server)) for _ in range(8)))
    assert [response.text for response, _ in quick] == ["Hello."] * 8
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


async def test_host_that_dies_before_the_answer_is_replaced_silently(host: ModelHost, server: OpenAIServer) -> None:
    server.then(stalls(with_head=False), answers("From the new host."))
    call = asyncio.create_task(ask(model(host, server)))
    await server.arrived.wait()
    assert host.pid is not None
    died = host.pid
    os.kill(died, signal.SIGKILL)
    response, _ = await call
    assert response.text == "From the new host."
    assert host.pid not in (None, died)


async def test_host_that_dies_during_the_answer_is_an_error(host: ModelHost, server: OpenAIServer) -> None:
    server.then(stalls(WHOLE[:4]))
    shown = asyncio.Event()
    call = asyncio.create_task(model(host, server).complete(REQUEST, lambda frame: shown.set(), 5))
    await shown.wait()
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    with pytest.raises(ModelError, match=r"The model host ended during a call. Try again") as caught:
        await call
    assert caught.value.kind is ModelErrorKind.HOST


async def test_closing_ends_the_process_and_its_calls(server: OpenAIServer) -> None:
    host = ModelHost({"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY})
    await host.start()
    pid = host.pid
    assert pid is not None
    await host.aclose()
    await host.aclose()
    assert host.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_host_without_input_ends_and_prints_only_that_it_was_ready() -> None:
    done = subprocess.run([sys.executable, "-m", "core.llm.model_host"], input=b"", capture_output=True, check=True)
    assert done.stdout == b'{"type":"ready"}\n'


async def test_hostile_workspace_files_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloned repository may hold files named like libraries, or a `.env` that sends keys elsewhere."""
    (tmp_path / "litellm.py").write_text("raise SystemExit('trapped')")
    monkeypatch.chdir(tmp_path)
    async with OpenAIServer() as own, OpenAIServer() as foreign:
        (tmp_path / ".env").write_text(f"OPENAI_BASE_URL={foreign.base_url}\nOPENAI_API_BASE={foreign.base_url}\n")
        host = ModelHost({"PATH": os.environ["PATH"], "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": own.base_url})
        response, _ = await ask(HostedLLM(host, "openai/test", LLMSettings(num_retries=1)))
        await host.aclose()
        assert response.text == "Hello."
        assert foreign.exchanges == []


async def test_host_connects_only_to_the_provider(host: ModelHost, server: OpenAIServer, audit_log: Path) -> None:
    await ask(model(host, server))
    noted = audit_log.read_text().splitlines()
    assert any(line.startswith("socket.connect (('127.0.0.1', ") for line in noted)
    # The second is the address of a model that another test asks for.
    assert [line for line in noted if "127.0.0.1" not in line and "'nobody.invalid'" not in line] == []


async def test_litellm_import_error_is_reported_with_its_reason(tmp_path: Path) -> None:
    """Output of libraries does not disturb the protocol."""
    code = f"print('noise', end='', flush=True)\nraise ImportError('half installed, {CANARY}')"
    (tmp_path / "litellm.py").write_text(code)
    host = ModelHost({"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "OTHER_API_KEY": CANARY})
    error = await error_of(HostedLLM(host, "openai/test", LLMSettings()))
    await host.aclose()
    assert error.kind is ModelErrorKind.HOST
    assert str(error) == (
        "litellm cannot be loaded. Reinstall Handloom. The error: ImportError('half installed, [key]')"
    )


async def test_scripted_server_runs_standalone() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.openai_server",
        "--script",
        "core/llm/demo.yaml",
        "--workspace",
        "/w",
    ]
    program = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert program.stdout is not None
    said = (await program.stdout.readline()).decode().removeprefix("export ").split()
    environ = dict(item.split("=", 1) for item in said)
    assert set(environ) == {"OPENAI_BASE_URL", "OPENAI_API_KEY"}
    host = ModelHost({"PATH": os.environ["PATH"], **environ})
    try:
        llm = create_llm("openai/test", workspace="/w", host=host, environ=environ)
        response = await llm.complete(REQUEST, lambda frame: None, 5)
    finally:
        await host.aclose()
        program.terminate()
        await program.wait()
    assert response.text.startswith("Hello! I am a **scripted** model")
    assert response.tool_calls[0].name == "think"
