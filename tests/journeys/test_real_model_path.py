"""A real session through litellm: the model host, HTTP, streaming, tool calls, tokens, cost; no key elsewhere."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import Terminal
from tests.openai_server import KEY, OpenAIServer, answers, fails
from tests.program import NO_ISOLATION, Handloom

MODEL = "openai/gpt-4o-mini"
"""A name whose price litellm knows; the answers come from a script."""


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Handloom]:
    """A program with an OpenAI-compatible endpoint on this machine, and its key."""
    turns = [{"text": "I look at the keys.", "tool_calls": [bash("env; echo looked")]}, {"expect": "looked", **FINISH}]
    script = write_script(tmp_path, turns, "served.yaml").removeprefix("scripted:")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.openai_server", "--port", str(port), "--script", script],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert "OPENAI_BASE_URL" in server.stdout.readline()
    yield Handloom(tmp_path, OPENAI_BASE_URL=f"http://127.0.0.1:{port}/v1", OPENAI_API_KEY=KEY)
    server.terminate()
    server.wait(10)
    server.stdout.close()


def test_run_through_litellm_is_counted_and_hides_the_key(endpoint: Handloom) -> None:
    done = endpoint("run", "which keys are there?", "--model", MODEL, "--json")
    assert done.status == 0, done.err
    events = done.events
    (run,) = [e for e in events if e.get("action") == "run"]
    (output,) = [e for e in events if e.get("observation") == "run"]
    assert run["args"]["thought"] == "I look at the keys."
    assert "looked" in output["content"]
    finish = next(e for e in events if e.get("action") == "finish")
    spent = finish["llm_metrics"]
    assert spent["accumulated_cost"] > 0
    assert spent["accumulated_token_usage"]["prompt_tokens"] > 0
    assert spent["accumulated_token_usage"]["context_window"] > 0
    assert KEY not in done.out + done.err
    for path in endpoint.home.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), f"the key stands in {path}"


def test_rejected_key_exits_with_1_and_advice(endpoint: Handloom, tmp_path: Path) -> None:
    wrong = Handloom(tmp_path, **{**endpoint.environ, "OPENAI_API_KEY": "sk-wrong-wrong-wrong"})
    done = wrong("run", "x", "--model", MODEL)
    assert done.status == 1
    assert "401" in done.err or "not accepted" in done.err
    assert "sk-wrong-wrong-wrong" not in done.out + done.err


async def test_rate_limit_is_a_state_of_the_agent_until_the_provider_answers(tmp_path: Path) -> None:
    async with OpenAIServer() as server:
        finish = answers("All is done.", [("finish", '{"message": "done"}')])
        server.then(fails(429, headers={"Retry-After": "0.2"}), finish)
        program = Handloom(tmp_path, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY)
        done = await asyncio.to_thread(program, "run", "x", "--model", MODEL, "--json")
    assert done.status == 0, done.err
    states = [e["extras"]["agent_state"] for e in done.events if e.get("observation") == "agent_state_changed"]
    assert states == ["awaiting_user_input", "running", "rate_limited", "running", "finished"]


@pytest.mark.tmux
def test_footer_shows_tokens_cost_and_context(endpoint: Handloom) -> None:
    endpoint.environ = {**endpoint.environ, **NO_ISOLATION}
    terminal = Terminal(endpoint, 140, 40)
    try:
        terminal.handloom("--model", MODEL)
        terminal.wait_for("Ask for something")
        terminal.type("which keys are there?")
        terminal.press("Enter")
        terminal.wait_for("I look at the keys.")
        terminal.agree()
        screen = terminal.wait_for("finished", "All is done.")
        footer = next(line for line in screen.splitlines() if "NO SANDBOX" in line)
        assert "of 128k" in footer
        assert "$0.0" in footer
        assert " in " in footer
        assert " out" in footer
    finally:
        terminal.close()


def test_missing_provider_is_reported(tmp_path: Path) -> None:
    waits = {"HANDLOOM__LLM__RETRY_MIN_WAIT_S": "0.01", "HANDLOOM__LLM__NUM_RETRIES": "2"}
    away = Handloom(tmp_path, OPENAI_API_KEY=KEY, OPENAI_BASE_URL="http://127.0.0.1:9/v1", **waits)
    done = away("run", "x", "--model", MODEL)
    assert done.status == 1
    assert "Retrying LLM request, 2 / 2" in done.err
    assert "The connection to the provider failed. Check the network" in done.err
    assert "Traceback" not in done.err
