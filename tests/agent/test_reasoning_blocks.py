"""A model's thoughts: kept with the answer, and given back to that model alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from core.agent.function_calls import KEPT_REASONING_CHARS, events_of
from core.agent.tool_agent import with_reasoning_blocks
from core.agent.tools import CODEACT_TOOLS
from core.events import Envelope, ErrorObservation, Event, EventSource, LLMMetrics, MessageAction, TokenUsage
from core.events.actions import reasoning_of
from core.llm.call import ThinkingBlocks, with_thinking_blocks
from core.memory.conversation_memory import build_messages
from core.protocols import LLMResponse, ToolCall
from core.secrets import PLACEHOLDER

TOOLS = {tool.name: tool for tool in CODEACT_TOOLS}
CLAUDE = "anthropic/claude-test"
SIGNED: dict[str, Any] = {"type": "thinking", "thinking": "I should look.", "signature": "c2ln"}
LS = ToolCall("c1", "execute_bash", '{"command": "ls"}')
USER: dict[str, Any] = {"role": "user", "content": "go"}


def answer(*calls: ToolCall, **more: Any) -> list[Event]:
    response = LLMResponse("a1", "Text.", calls, TokenUsage(model=CLAUDE), **more)
    return events_of(response, TOOLS, set(), step=0, metrics=LLMMetrics())


def log(*events: Event) -> list[Envelope]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return [Envelope(conversation_id="c", id=n, timestamp=now, source=EventSource.AGENT, event=event)
            for n, event in enumerate(events)]  # fmt: skip


def test_reasoning_is_stored_with_the_first_event() -> None:
    (said,) = answer(reasoning="One and one.")
    assert isinstance(said, MessageAction)
    assert (said.content, reasoning_of(said)) == ("Text.", "One and one.")
    first, second = answer(LS, ToolCall("c2", "no_such", "{}"), reasoning="Look first.")
    assert (reasoning_of(first), reasoning_of(second)) == ("Look first.", "")
    (refused,) = answer(ToolCall("c2", "no_such", "{}"), reasoning="Try it.")
    assert isinstance(refused, ErrorObservation)
    assert reasoning_of(refused) == "Try it."
    (signed,) = answer(LS, reasoning="I should look.", thinking=(SIGNED,))
    assert reasoning_of(signed) == "I should look."


def test_long_reasoning_is_truncated_but_signed_blocks_are_not() -> None:
    long = "x" * (KEPT_REASONING_CHARS + 5)
    (said,) = answer(LS, reasoning=long, thinking=({**SIGNED, "thinking": long},))
    assert 0 < len(reasoning_of(said)) < KEPT_REASONING_CHARS + 200
    assert with_reasoning_blocks(build_messages(log(said)), log(said), CLAUDE) == build_messages(log(said))


def test_signed_blocks_go_back_only_to_their_model() -> None:
    history = log(*answer(LS, reasoning="I should look.", thinking=(SIGNED,)))
    messages = build_messages(history)
    assert all("thinking_blocks" not in message for message in messages)
    ours, theirs = (with_reasoning_blocks(messages, history, name) for name in (CLAUDE, "anthropic/claude-other"))
    assert [message.get("thinking_blocks") for message in ours] == [[SIGNED], None]
    assert theirs == messages


def test_redacted_blocks_are_not_sent_back() -> None:
    redacted = {**SIGNED, "thinking": f"the key is {PLACEHOLDER}"}
    history = log(*answer(LS, thinking=(redacted,)))
    assert with_reasoning_blocks(build_messages(history), history, CLAUDE) == build_messages(history)


class TestProviders:
    thinking: dict[str, Any] = {"role": "assistant", "tool_calls": [{"id": "c1"}], "thinking_blocks": [SIGNED]}
    result: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": ""}
    plain: dict[str, Any] = {"role": "assistant", "tool_calls": [{"id": "c1"}]}

    def test_signing_provider_gets_blocks_while_reasoning(self) -> None:
        messages = [USER, self.thinking, self.result]
        for name in (CLAUDE, "bedrock/us.anthropic.claude-x", "vertex_ai/claude-x"):
            assert with_thinking_blocks(messages, name, "high") == (messages, True)
        assert with_thinking_blocks(messages, CLAUDE, "none") == ([USER, self.plain, self.result], True)

    def test_other_providers_get_no_blocks(self) -> None:
        for name in ("openai/test", "gemini/x", "openrouter/anthropic/claude-x", "deepseek/x"):
            assert with_thinking_blocks([USER, self.thinking, self.result], name, "high") == (
                [USER, self.plain, self.result],
                True,
            )

    def test_call_without_blocks_disables_reasoning_until_the_next_message(self) -> None:
        messages = [USER, self.thinking, self.result, self.plain, self.result]
        assert with_thinking_blocks(messages, CLAUDE, "high") == (
            [USER, self.plain, self.result, self.plain, self.result],
            False,
        )
        assert with_thinking_blocks([*messages, USER], CLAUDE, "high") == ([*messages, USER], True)


def test_streamed_blocks_are_joined_and_incomplete_ones_dropped() -> None:
    thoughts = ThinkingBlocks()
    pieces: list[Any] = [
        [{"type": "thinking", "thinking": "I ", "signature": ""}],
        [{"type": "thinking", "thinking": "look."}],
        [{"type": "thinking", "thinking": "", "signature": "s1"}],
        [{"type": "redacted_thinking", "data": "xx"}],
        [{"type": "thinking", "thinking": "Then."}],
        None,
        ["no block"],
    ]
    assert sum(map(thoughts.add, pieces)) == len("I look.s1xxThen.")
    assert thoughts.complete() == []
    thoughts.add([{"type": "thinking", "thinking": "", "signature": "s2"}])
    assert thoughts.complete() == [
        {"type": "thinking", "thinking": "I look.", "signature": "s1"},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "thinking", "thinking": "Then.", "signature": "s2"},
    ]
