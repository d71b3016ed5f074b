"""A long conversation with a model whose context is small, behind a provider that counts.

The provider is the test server. It counts the tokens of each request with a real tokenizer, refuses what is over the
window, checks that every tool call has its result, and finds out how much of each request stood at the beginning of
the one before: what a provider's cache would have. To see the figures:

    python -m tests.memory.long_run [--steps 300] [--window 16000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aiohttp import web

from core.conversations.conversation_manager import ConversationManager
from core.events import AgentState, CondensationAction
from core.settings.config import Settings
from runtime.local.local_runtime import LocalRuntime
from tests.openai_server import KEY, Exchange, OpenAIServer, answers, fails

_LITELLM = find_spec("litellm")
assert _LITELLM is not None
assert _LITELLM.origin is not None
os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(Path(_LITELLM.origin).parent / "litellm_core_utils" / "tokenizers"))
SUMMARY = "The user wants many commands run. Some of them were run, and all of that went well. Next: the one after."


def tokens_in(value: Any) -> int:
    """The tokens of a value in a prompt, by a real tokenizer."""
    import tiktoken

    return len(
        tiktoken.get_encoding("cl100k_base").encode(json.dumps(value, ensure_ascii=False), disallowed_special=())
    )


@dataclass
class Counting:
    """The provider. Give `behave` to an OpenAIServer."""

    steps: int
    window: int
    over: list[int] = field(default_factory=list)
    """Tokens of the requests that did not fit."""
    torn: list[str] = field(default_factory=list)
    """Errors in the pairs of calls and results."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    largest: int = 0
    asked: int = 0
    summed_up: int = 0
    _before: list[str] = field(default_factory=list)

    async def behave(self, request: web.Request, exchange: Exchange) -> web.StreamResponse:
        messages, tools = exchange.body["messages"], exchange.body.get("tools", [])
        tokens = tokens_in(messages) + tokens_in(tools)
        self.largest = max(self.largest, tokens)
        if tokens > self.window:
            self.over.append(tokens)
            return await fails(400, "too long", code="context_length_exceeded")(request, exchange)
        usage = {"prompt_tokens": tokens, "completion_tokens": 60, "total_tokens": tokens + 60}
        if not tools:
            self.summed_up += 1
            return await answers(SUMMARY, usage=usage, piece_chars=1000)(request, exchange)
        self._look(messages, tools)
        self.prompt_tokens += tokens
        self.asked += 1
        calls = _calls(self.asked, self.steps)
        ids = [f"call_{self.asked}_{n}" for n in range(len(calls))]
        return await answers(f"Step {self.asked}.", calls, ids=ids, usage=usage)(request, exchange)

    def _look(self, messages: list[dict[str, Any]], tools: list[Any]) -> None:
        parts = [json.dumps(tools), *map(json.dumps, messages)]
        same = 0
        for one, other in zip(parts, self._before, strict=False):
            if one != other:
                break
            same += 1
        self.cached_tokens += sum(map(tokens_in, [tools, *messages][:same]))
        self._before = parts
        self.torn += torn_pairs(messages)

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / self.prompt_tokens


def torn_pairs(messages: list[dict[str, Any]]) -> list[str]:
    """The problem of a prompt: a call without an immediate result, or a result without a call."""
    found: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not waiting or waiting.pop(0) != message["tool_call_id"]:
                found.append(f"a result without its call: {message['tool_call_id']}")
            continue
        found += [f"a call without its result: {each}" for each in waiting]
        waiting = [call["id"] for call in message.get("tool_calls", [])]
    found += [f"a call without its result: {each}" for each in waiting]
    if [message["role"] for message in messages[:2]] != ["system", "user"]:
        found.append("it does not begin with the instructions and the task")
    return found


def _calls(step: int, steps: int) -> list[tuple[str, str]]:
    """The actions of the model in a step: mostly small, sometimes huge, sometimes many at once."""
    if step >= steps:
        return [("finish", json.dumps({"message": "All is done."}))]
    if step % 40 == 7:
        commands = [f"seq {step} {step + 9000}"]  # far more than the whole window
    elif step % 60 == 30:
        commands = [f"seq {n} {n + 3000}" for n in range(5)]
    else:
        commands = [f"seq {step} {step + step * 37 % 300}"]
    return [("execute_bash", json.dumps({"command": command, "security_risk": "LOW"})) for command in commands]


async def run(folder: Path, steps: int, window: int, **condenser: Any) -> tuple[Counting, AgentState, int]:
    """The provider's counts, how the conversation ended, and the number of condensations."""
    counting = Counting(steps, window)
    workspace = folder / "workspace"
    workspace.mkdir()
    async with OpenAIServer(default=counting.behave) as server:
        model = {"model": "openai/test", "api_base": server.base_url, "key_env": "TEST_API_KEY"}
        settings = Settings.model_validate(
            {
                "agent": {"confirm": "never"},
                "models": {"small": {**model, "context_window": window, "num_retries": 1}},
                "condenser": condenser,
                "sandbox": {"plugins": (), "checkpoints": False, "isolation": "none"},
            }
        )
        environ = {"TEST_API_KEY": KEY}
        os.environ["TEST_API_KEY"] = KEY  # the model host has Handloom's own environment
        async with ConversationManager(
            folder / "home", settings, make_runtime=LocalRuntime, environ=environ
        ) as manager:
            session = await manager.create(workspace=str(workspace), model="small")
            await session.send("Run many commands, one after the other.")
            await session.settled()
            events = await session.stream.read()
            condensed = sum(isinstance(e.event, CondensationAction) for e in events)
            return counting, session.state.agent_state, condensed


def main() -> None:
    """Run it and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.memory.long_run")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--window", type=int, default=16_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counting, state, condensed = asyncio.run(run(Path(folder), given.steps, given.window))
    told = {
        "ended": state.value,
        "requests": counting.asked,
        "condensations": condensed,
        "summaries": counting.summed_up,
        "largest prompt, tokens": counting.largest,
        "over the window": len(counting.over),
        "torn pairs": len(counting.torn),
        "cached share": f"{counting.cached_share:.1%}",
    }
    for name, value in told.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
