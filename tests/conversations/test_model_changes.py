"""One conversation with models of several kinds, over HTTP: its history holds thoughts, failed and pending calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from core.conversations.conversation_manager import ConversationManager
from core.events import AgentState, CmdRunAction, Envelope, ErrorObservation
from core.events.actions import reasoning_of
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from tests.llm.shapes import ANTHROPIC, ProviderServer
from tests.openai_server import Behaviour, answers, events_of_answer, fails, sends
from tests.warm_servers import WarmRuntime

WITHIN_S = 60
SIGNED = {"type": "thinking", "thinking": "I should look.", "signature": "c2ln"}
CLAUDE = "anthropic/claude-sonnet-4-5"
"""A model whose thinking litellm knows how to ask for."""
ENVIRON = {"ANTHROPIC_API_KEY": "sk-ant-" + "0123456789abcdef", "OPENAI_API_KEY": "sk-0123456789abcdef"}


class Provider(ProviderServer):
    """Plays behaviours in their order."""

    def then(self, *behaviours: Behaviour) -> None:
        left = list(behaviours)

        async def behave(request: Any, exchange: Any) -> Any:
            return await left.pop(0)(request, exchange)

        self.behave = behave


def said_text() -> Behaviour:
    """What Anthropic says without any call."""
    head: dict[str, Any] = {"id": "msg_2", "type": "message", "role": "assistant", "model": "claude", "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": head},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "It is done."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return sends(*(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events))


async def said(session: AgentSession) -> list[Envelope]:
    async with asyncio.timeout(WITHIN_S):
        await session.send("go on")
        await session.settled()
    assert session.state.agent_state is AgentState.AWAITING_USER_INPUT, session.state.reason
    return list(await session.stream.read(limit=500))


async def interrupted(session: AgentSession) -> None:
    """Say something, and stop the agent while its command runs."""
    async with asyncio.timeout(WITHIN_S):
        await session.send("wait")
        while not any(
            isinstance(e.event, CmdRunAction) and "sleep" in e.event.command
            for e in await session.stream.read(limit=500)
        ):
            await session.changed()
        await session.interrupt()
        await session.settled()


def thinking(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The thoughts in a request of Anthropic's form."""
    parts = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    return [part for part in parts if part.get("type") == "thinking"]


async def test_conversation_switches_between_reasoning_and_toolless_models(tmp_path: Path) -> None:
    async with Provider() as server:
        models = {
            "thinks": {"model": CLAUDE, "api_base": server.url, "key_env": "ANTHROPIC_API_KEY",
                       "reasoning_effort": "high"},
            "plain": {"model": "openai/test", "api_base": f"{server.url}/v1", "key_env": "OPENAI_API_KEY"},
        }  # fmt: skip
        settings = Settings.model_validate({"agent": {"confirm": "never"}, "llm": {"num_retries": 1}, "models": models})
        (tmp_path / "workspace").mkdir()
        async with ConversationManager(
            tmp_path / "home", settings, make_runtime=WarmRuntime, environ=ENVIRON
        ) as manager:
            server.then(sends(*ANTHROPIC.events), said_text())
            session = await manager.create(workspace=str(tmp_path / "workspace"), model="thinks")
            await said(session)
            first, second = (exchange.body for exchange in server.exchanges)
            assert thinking(first) == []
            assert thinking(second) == [SIGNED], "between tool calls it gets its thoughts back, to the letter"
            assert (first["thinking"]["type"], second["thinking"]["type"]) == ("enabled", "enabled")

            unsound = events_of_answer("", [("execute_bash", '{"comm')])
            refusal, words = fails(400, message="this model does not support tools"), "<function=execute_bash>\n"
            words += "<parameter=command>echo two</parameter>\n"
            server.then(refusal, sends(*unsound), answers(words), answers("Two."))
            await session.active_model.switch("plain")
            log = await said(session)
            assert any(isinstance(e.event, ErrorObservation) for e in log), "a failed call is in the history"
            sleeping = "<function=execute_bash>\n<parameter=command>sleep 60</parameter>\n"
            server.then(answers(sleeping))
            await interrupted(session)
            plain = [exchange.body for exchange in server.exchanges[2:]]
            assert "thinking_blocks" not in json.dumps(plain)
            assert "I should look." not in json.dumps(plain), "another model is not told what this one thought"
            assert all("tools" not in body for body in plain[1:])

            already = len(server.exchanges)
            server.then(sends(*ANTHROPIC.events), said_text())
            await session.active_model.switch("thinks")
            log = await said(session)
            third, fourth = (exchange.body for exchange in server.exchanges[already:])
            assert (len(thinking(third)), len(thinking(fourth))) == (1, 2)
            results = [part for message in fourth["messages"] if isinstance(message["content"], list)
                       for part in message["content"] if part["type"] == "tool_result"]  # fmt: skip
            calls = [part for message in fourth["messages"] if isinstance(message["content"], list)
                     for part in message["content"] if part["type"] == "tool_use"]  # fmt: skip
            assert [one["tool_use_id"] for one in results] == [one["id"] for one in calls], "each call has its result"
            assert len(calls) == 5

            thoughts = [reasoning_of(envelope.event) for envelope in log if reasoning_of(envelope.event)]
            assert thoughts == ["I should look."] * 2
            await manager.close(session.id)
            again = await manager.open(session.id)
            stored = list(await again.stream.read(limit=500))
            assert [reasoning_of(e.event) for e in stored if reasoning_of(e.event)] == thoughts, "and they are kept"
