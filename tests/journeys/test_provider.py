"""A real session through litellm, over real HTTP, with a key that must be seen by the provider and by nobody else."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

from tests.openai_server import KEY, OpenAIServer, answers, fails
from tests.program import Ended, Handloom

MODEL = "openai/gpt-4o-mini"
"""A name whose price litellm knows, so that there is a cost to see."""
LOOK = json.dumps({"command": "env; tr '\\0' '\\n' < /proc/$PPID/environ; echo looked", "security_risk": "LOW"})
DONE = json.dumps({"message": "I have looked."})


async def run(handloom: Handloom, *arguments: str) -> Ended:
    return await asyncio.to_thread(handloom, *arguments)


def leaks(key: str, *texts: bytes) -> list[str]:
    """In which forms a key stands in some texts."""
    raw = key.encode()
    forms = {"plain": raw, "reversed": raw[::-1], "hex": raw.hex().encode(), "base64": base64.b64encode(raw)[:-4]}
    return [name for name, form in forms.items() if any(form in text for text in texts)]


def handloom_at(base_url: str, folder: Path) -> Handloom:
    """Handloom with the key and the provider's address in its environment, and short waits between tries."""
    waits = {"HANDLOOM__LLM__RETRY_MIN_WAIT_S": "0.01", "HANDLOOM__LLM__NUM_RETRIES": "2"}
    return Handloom(folder, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=base_url, **waits)


async def test_a_session_through_litellm_is_streamed_counted_and_keeps_the_key_to_itself(tmp_path: Path) -> None:
    async with OpenAIServer() as server:
        usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        server.then(
            fails(503),
            answers("I look at the environment.", [("execute_bash", LOOK)], usage=usage),
            answers("", [("finish", DONE)], usage=usage),
        )
        done = await run(handloom_at(server.base_url, tmp_path), "run", "look around", "--model", MODEL, "--json")
        assert done.status == 0, done.err
        assert len(server.exchanges) == 3
        assert all(exchange.body["stream"] for exchange in server.exchanges)
        assert all(exchange.headers["Authorization"] == f"Bearer {KEY}" for exchange in server.exchanges)
    assert "Retrying LLM request, 2 / 2" in done.err
    (action,) = [event for event in done.events if event.get("action") == "run"]
    metrics = action["llm_metrics"]
    assert metrics["accumulated_token_usage"]["prompt_tokens"] == 1000
    assert 0 < metrics["accumulated_cost"] < 0.01
    assert action["args"]["thought"] == "I look at the environment."
    (output,) = [event for event in done.events if event.get("observation") == "run"]
    assert output["content"].endswith("looked")
    assert "HANDLOOM_HOME=" in output["content"]
    finish = next(event for event in done.events if event.get("action") == "finish")
    assert finish["llm_metrics"]["accumulated_cost"] == pytest.approx(2 * metrics["accumulated_cost"])
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) >= 2
    assert leaks(KEY, done.out.encode(), done.err.encode(), *files) == []


async def test_a_key_that_the_provider_refuses_ends_the_run_and_is_not_shown(tmp_path: Path) -> None:
    async with OpenAIServer(key="sk-another-key-0123456789") as server:
        handloom = handloom_at(server.base_url, tmp_path)
        done = await run(handloom, "run", "x", "--model", MODEL, "--json")
    assert done.status == 1
    assert "Set OPENAI_API_KEY or choose another model." in done.err
    assert leaks(KEY, done.out.encode(), done.err.encode(), (handloom.home / "handloom.db").read_bytes()) == []


async def test_a_provider_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = await run(handloom_at("http://127.0.0.1:9/v1", tmp_path), "run", "x", "--model", MODEL)
    assert done.status == 1
    assert "Traceback" not in done.err
    assert "The connection to the provider failed. Check the network" in done.err.splitlines()[-1]
