"""A scripted model plays its file turn by turn, depending on the conversation."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import Frame, TokenDelta, TokenUsage
from core.llm.scripted_model import ScriptedLLM, load_script
from core.protocols import LLMRequest, LLMResponse, ToolCall
from tests.stopped_clock import stopped_clock

ASSISTANT = {"role": "assistant", "content": "..."}


def write(folder: Path, text: str) -> Path:
    path = folder / "script.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def request(answers: int = 0, seen: str = "") -> LLMRequest:
    return LLMRequest([{"role": "system", "content": ""}, *[ASSISTANT] * answers], last_observation=seen)


async def play(llm: ScriptedLLM, asked: LLMRequest, cause: int = 7) -> tuple[LLMResponse, str]:
    frames: list[Frame] = []
    response = await llm.complete(asked, frames.append, cause)
    assert all(isinstance(frame, TokenDelta) and frame.cause == cause for frame in frames)
    return response, "".join(frame.text for frame in frames if isinstance(frame, TokenDelta))


async def test_turn_is_streamed_and_returned_completely(tmp_path: Path) -> None:
    script = """
version: 1
turns:
  - text: "Look: ä\\n  here."
    tool_calls: [{name: execute_bash, arguments: {command: ls}}]
    tokens_per_s: 5000
    usage: {prompt_tokens: 100, completion_tokens: 20, cost: 0.5}
"""
    llm = ScriptedLLM(write(tmp_path, script))
    response, streamed = await play(llm, request())
    assert streamed == "Look: ä\n  here."
    assert response == LLMResponse(
        id="scripted-0-7",
        text="Look: ä\n  here.",
        tool_calls=(ToolCall("call_7_0", "execute_bash", '{"command": "ls"}'),),
        usage=TokenUsage(model=llm.name, prompt_tokens=100, completion_tokens=20, response_id="scripted-0-7"),
        cost=0.5,
        finish_reason="tool_calls",
    )


async def test_turn_follows_from_the_conversation_and_survives_a_restart(tmp_path: Path) -> None:
    path = write(tmp_path, "version: 1\nturns: [{text: one}, {text: two}, {text: three}]")
    for answers, expected in enumerate(("one", "two", "three")):
        response, _ = await play(ScriptedLLM(path), request(answers))
        assert response.text == expected
        assert response.cost == 0.0


async def test_finished_script_is_reported(tmp_path: Path) -> None:
    llm = ScriptedLLM(write(tmp_path, "version: 1\nturns: [{text: one}]"))
    with pytest.raises(ModelError, match=r"All 1 turns of .* have been played.*choose another model") as caught:
        await play(llm, request(1))
    assert caught.value.kind is ModelErrorKind.SCRIPT


async def test_expectation_is_matched_against_the_last_observation(tmp_path: Path) -> None:
    llm = ScriptedLLM(write(tmp_path, "version: 1\nturns: [{expect: 'exit code [01]', text: fine}]"))
    response, _ = await play(llm, request(seen="ls\nexit code 0]"))
    assert response.text == "fine"


async def test_failed_expectation_shows_both_texts(tmp_path: Path) -> None:
    llm = ScriptedLLM(write(tmp_path, "version: 1\nturns: [{expect: 'exit code 0', text: fine}]"))
    with pytest.raises(ModelError) as caught:
        await play(llm, request(seen="boom, exit code 2"))
    assert caught.value.kind is ModelErrorKind.SCRIPT
    assert "exit code 0" in str(caught.value)
    assert "boom, exit code 2" in str(caught.value)


async def test_workspace_placeholder_is_replaced_everywhere(tmp_path: Path) -> None:
    script = """
version: 1
turns:
  - expect: "at {workspace}/x"
    text: "in {workspace}"
    tool_calls: [{name: t, arguments: {path: "{workspace}/x", deep: [{a: "{workspace}"}], n: 3}}]
"""
    llm = ScriptedLLM(write(tmp_path, script), workspace="/tmp/a+b")
    response, _ = await play(llm, request(seen="at /tmp/a+b/x"))
    assert response.text == "in /tmp/a+b"
    assert json.loads(response.tool_calls[0].arguments) == {
        "path": "/tmp/a+b/x",
        "deep": [{"a": "/tmp/a+b"}],
        "n": 3,
    }


@pytest.mark.parametrize(
    ("fault", "kind", "streamed"),
    [
        ("rate_limit", ModelErrorKind.RATE_LIMIT, ""),
        ("server_error", ModelErrorKind.SERVER, ""),
        ("timeout", ModelErrorKind.TIMEOUT, ""),
        ("disconnect_after_bytes", ModelErrorKind.CONNECTION, "Hello"),
        ("{disconnect_after_bytes: 3}", ModelErrorKind.CONNECTION, "Hel"),
        ("{disconnect_after_bytes: 0}", ModelErrorKind.CONNECTION, ""),
    ],
)
async def test_fault_occurs_once(tmp_path: Path, fault: str, kind: ModelErrorKind, streamed: str) -> None:
    llm = ScriptedLLM(write(tmp_path, f"version: 1\nturns: [{{text: HelloWorld, fault: {fault}}}]"))
    frames: list[Frame] = []
    with pytest.raises(ModelError) as caught:
        await llm.complete(request(), frames.append, 7)
    assert caught.value.kind is kind
    assert "".join(frame.text for frame in frames if isinstance(frame, TokenDelta)) == streamed
    response, _ = await play(llm, request())
    assert response.text == "HelloWorld"


async def test_fault_inside_an_answer_is_returned(tmp_path: Path) -> None:
    script = """
version: 1
turns:
  - {fault: empty, text: then this}
  - {fault: malformed_arguments, tool_calls: [{name: think, arguments: {thought: x}}]}
  - {fault: unknown_tool, tool_calls: [{name: think, arguments: {thought: x}}]}
"""
    llm = ScriptedLLM(write(tmp_path, script))
    empty, _ = await play(llm, request(0))
    assert (empty.text, empty.tool_calls) == ("", ())
    malformed, _ = await play(llm, request(1))
    assert malformed.tool_calls[0].arguments == '{"thought": "x"'
    unknown, _ = await play(llm, request(2))
    assert unknown.tool_calls[0].name == "no_such_tool"


async def test_cancelling_stops_a_slow_answer_at_once(tmp_path: Path) -> None:
    llm = ScriptedLLM(write(tmp_path, "version: 1\nturns: [{text: one two three four, tokens_per_s: 0.01}]"))
    begun = asyncio.Event()
    call = asyncio.create_task(llm.complete(request(), lambda frame: begun.set(), 7))
    await begun.wait()
    call.cancel()
    with stopped_clock(), pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("version: 1\nturns: [", r"script\.yaml, line [23]: not YAML"),
        ("version: 2\nturns: [{text: a}]", r"script\.yaml, version: Input should be 1"),
        ("version: 1\nturns: []", r"turns: List should have at least 1 item"),
        ("version: 1\nturns: [{text: a}, {txt: b}]", r"turn 2, txt: Extra inputs"),
        ("version: 1\nturns: [{}]", r"turn 1: a turn needs text, tool_calls or a fault"),
        ("version: 1\nturns: [{text: a, expect: '('}]", r"turn 1: expect is not a regular expression"),
        ("version: 1\nturns: [{text: a, fault: earthquake}]", r"turn 1, fault"),
        (
            "version: 1\nturns: [{tool_calls: [{arguments: {}}]}]",
            r"turn 1, tool_calls\.0\.name: Field required",
        ),
        ("just text", r"the whole file: Input should be"),
        ("version: 1\nturns: [{text: \x00}]", r"not YAML"),
    ],
)
def test_invalid_script_is_refused_with_its_line_and_advice(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        load_script(write(tmp_path, text))
    assert "Correct it, or choose another model" in str(caught.value)


def test_unreadable_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load_script(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="cannot be read: it is not a regular file"):
        load_script(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"version: 1 # \xe4")
    with pytest.raises(ConfigurationError, match="not UTF-8 at byte 13"):
        load_script(tmp_path / "latin.yaml")
