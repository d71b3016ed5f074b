"""CodeActAgent, step by step with a scripted model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.agent.registry import AGENTS, Agents, CodeActAgent
from core.agent.tool_agent import ToolAgent, no_more_tools
from core.errors import ConfigurationError, ModelError
from core.events import (
    AgentFinishAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    Frame,
    LLMMetrics,
    MessageAction,
    SystemMessageAction,
    TokenDelta,
)
from core.llm.scripted_model import ScriptedLLM
from core.plugin_requirements import PluginRequirement
from core.protocols import LLM, Agent, FrameSink, LLMRequest, LLMResponse

SCRIPT = """
version: 1
turns:
  - text: I will look.
    tool_calls: [{name: execute_bash, arguments: {command: ls}}]
    usage: {prompt_tokens: 100, completion_tokens: 20, cost: 0.25}
  - expect: 'x\\.py\\n.*exit code 0'
    text: There is x.py.
    usage: {prompt_tokens: 200, completion_tokens: 10, cost: 0.5}
"""


def create_agent(name: str, llm: LLM, plugins: Sequence[PluginRequirement] = ()) -> Agent:
    return AGENTS[name].make(llm, plugins, no_more_tools)


class RecordingLLM:
    """A scripted model that records its requests."""

    def __init__(self, script: Path) -> None:
        self._llm = ScriptedLLM(script)
        self.name = self._llm.name
        self.asked: list[LLMRequest] = []

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        self.asked.append(request)
        return await self._llm.complete(request, on_frame, cause)

    async def aclose(self) -> None:
        await self._llm.aclose()


@pytest.fixture
def llm(tmp_path: Path) -> RecordingLLM:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return RecordingLLM(tmp_path / "script.yaml")


def at(number: int, source: EventSource, event: Event, cause: int | None = None) -> Envelope:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    return Envelope(conversation_id="c", id=number, timestamp=now, source=source, cause=cause, event=event)


async def test_task_takes_several_steps_and_costs_add_up(llm: RecordingLLM) -> None:
    agent = create_agent("CodeActAgent", llm)
    frames: list[Frame] = []
    history = [
        at(0, EventSource.AGENT, agent.system_message()),
        at(1, EventSource.USER, MessageAction(content="What is here?")),
    ]
    (run,) = await agent.step(history, LLMMetrics(), frames.append)
    assert isinstance(run, CmdRunAction)
    assert (run.command, run.thought) == ("ls", "I will look.")
    assert frames == [TokenDelta(1, "I will look.")]

    history += [
        at(2, EventSource.AGENT, run),
        at(
            3,
            EventSource.ENVIRONMENT,
            CmdOutputObservation(content="x.py", command="ls", metadata=CmdOutputMetadata(exit_code=0)),
            cause=2,
        ),
    ]
    assert run.llm_metrics is not None
    (answer,) = await agent.step(history, run.llm_metrics, frames.append)
    assert isinstance(answer, MessageAction)
    assert (answer.content, answer.wait_for_response) == ("There is x.py.", True)
    assert answer.llm_metrics is not None
    assert answer.llm_metrics.accumulated_cost == 0.75
    assert answer.llm_metrics.accumulated_token_usage.prompt_tokens == 300
    assert [message["role"] for message in llm.asked[1].messages] == ["system", "user", "assistant", "tool"]


async def test_missing_tools_are_told_with_the_instructions_while_they_are_missing(llm: RecordingLLM) -> None:
    agent = create_agent("CodeActAgent", llm)
    assert isinstance(agent, ToolAgent)
    history = [
        at(0, EventSource.AGENT, agent.system_message()),
        at(1, EventSource.USER, MessageAction(content="What is here?")),
    ]
    for text in ("The MCP server s has failed.", ""):
        agent.missing_tools = partial(str, text)
        await agent.step(history, LLMMetrics(), lambda frame: None)
    told, silent = (str(request.messages[0]["content"]) for request in llm.asked)
    assert told == f"{silent}\n\nThe MCP server s has failed."


async def test_exit_finishes_without_a_model_call(llm: RecordingLLM) -> None:
    agent = create_agent("CodeActAgent", llm)
    history = [
        at(0, EventSource.AGENT, agent.system_message()),
        at(1, EventSource.USER, MessageAction(content=" /exit\n")),
    ]
    assert await agent.step(history, LLMMetrics(), lambda frame: None) == [AgentFinishAction()]
    assert llm.asked == []
    history += [
        at(2, EventSource.AGENT, AgentFinishAction()),
        at(3, EventSource.USER, MessageAction(content="What does /exit do?")),
    ]
    (run,) = await agent.step(history, LLMMetrics(), lambda frame: None)
    assert isinstance(run, CmdRunAction)


async def test_model_gets_instructions_and_tools(llm: RecordingLLM) -> None:
    agent = create_agent("CodeActAgent", llm)
    system = agent.system_message()
    assert isinstance(system, SystemMessageAction)
    assert system.agent_class == "CodeActAgent"
    history = [at(0, EventSource.AGENT, system), at(1, EventSource.USER, MessageAction(content="Hi"))]
    await agent.step(history, LLMMetrics(), lambda frame: None)
    assert llm.asked[0].messages[0] == {"role": "system", "content": system.content}
    assert list(llm.asked[0].tools) == system.tools


async def test_imported_history_gets_instructions(llm: RecordingLLM) -> None:
    agent = create_agent("CodeActAgent", llm)
    await agent.step([at(0, EventSource.USER, MessageAction(content="Hi"))], LLMMetrics(), lambda frame: None)
    assert [message["role"] for message in llm.asked[0].messages] == ["system", "user"]


async def test_model_error_is_raised_without_event(llm: RecordingLLM) -> None:
    agent = create_agent("CodeActAgent", llm)
    history = [at(n, EventSource.AGENT, MessageAction(content="said")) for n in range(2)]
    with pytest.raises(ModelError, match="All 2 turns"):
        await agent.step(history, LLMMetrics(), lambda frame: None)


def test_instructions_cover_the_important_topics() -> None:
    text = CodeActAgent.prompt
    for word in ("finish", "C-c", "timeout", "security_risk", "secrets", "git"):
        assert word in text
    assert 40 <= len(text.splitlines()) <= 80


def test_unknown_agent_error_lists_known_agents(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no agent 'Nobody'. Choose one of: ACPAgent, BrowsingAgent, Code"):
        Agents(tmp_path).find("Nobody")


def test_every_agent_is_found_by_its_name(llm: RecordingLLM) -> None:
    for name in AGENTS:
        agent: Agent = create_agent(name, llm)
        assert agent.name == name


def test_tools_depend_on_the_plugins_of_the_sandbox(llm: RecordingLLM) -> None:
    def names(*plugins: str) -> set[str]:
        agent = create_agent("CodeActAgent", llm, [PluginRequirement(name, "m:f") for name in plugins])
        tools: Any = getattr(agent.system_message(), "tools", None)
        return {tool["function"]["name"] for tool in tools}

    plain = {"execute_bash", "think", "finish", "str_replace_editor", "task_tracker", "delegate"}
    assert names() == plain
    assert names("jupyter") == plain | {"execute_ipython_cell"}
    assert names("browser", "vscode") == plain | {"browser"}


def test_skills_are_described_if_the_sandbox_has_them(llm: RecordingLLM) -> None:
    def told(*plugins: str) -> str:
        agent = create_agent("CodeActAgent", llm, [PluginRequirement(name, "m:f") for name in plugins])
        return str(agent.system_message().model_dump()["tools"])

    assert "search_dir" in told("agent_skills", "jupyter")
    assert "search_dir" not in told("jupyter")
