"""External agents that speak the Agent Client Protocol: chosen by the name ACPAgent, with the command in the settings.

This module imports little; the agent and its process are loaded when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import ConfigurationError

if TYPE_CHECKING:
    from core.plugin_requirements import PluginRequirement
    from core.protocols import LLM, Agent, Runtime

ACP_AGENT = "ACPAgent"


def unconfigured_agent(llm: LLM, plugins: Sequence[PluginRequirement] = (), more_tools: object = None) -> Agent:
    """Create the agent without a command, for the registry. Its first step raises ConfigurationError."""
    from core.acp.acp_agent import ACPAgent
    from core.acp.agent_process import AgentProcess

    return ACPAgent(AgentProcess("", "/", {}), "/", "/")


@dataclass(frozen=True, slots=True)
class ConnectedAgent:
    """The factory of the agent, and the runtime that ends its program."""

    make: Callable[[LLM], Agent]
    runtime: Runtime


def connect_agent(command: str, folder: str, runtime: Runtime, environ: Mapping[str, str]) -> ConnectedAgent:
    """Connect an external agent with this runtime. Its program starts later, in this environment.

    Blocks. Raises ConfigurationError.
    """
    from core.acp.acp_agent import ACPAgent, ACPRuntime
    from core.acp.agent_process import AgentProcess

    if not command.strip():
        raise ConfigurationError(f"{ACP_AGENT} needs the command of an agent. Set agent.acp_command in config.toml.")
    process = AgentProcess(command, folder, environ)
    agent = ACPAgent(process, folder, runtime.working_dir)
    return ConnectedAgent(lambda llm: agent, ACPRuntime(runtime, process))
