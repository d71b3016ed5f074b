"""How a conversation gets another agent: by the name ACPAgent and the command in the settings. Imports little."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import ConfigurationError

if TYPE_CHECKING:
    from core.plugin_requirements import PluginRequirement
    from core.protocols import LLM, Agent, Runtime

OTHER = "ACPAgent"


def without_command(llm: LLM, plugins: Sequence[PluginRequirement] = (), more_tools: object = None) -> Agent:
    """Return the agent without a command, for the registry. Its first step raises ConfigurationError."""
    from core.acp.acp_agent import ACPAgent
    from core.acp.agent_process import AgentProcess

    return ACPAgent(AgentProcess("", "/", {}), "/", "/")


@dataclass(frozen=True, slots=True)
class ConnectedAgent:
    """The factory of the agent, and the runtime that ends its program."""

    make: Callable[[LLM], Agent]
    runtime: Runtime


def linked(command: str, folder: str, runtime: Runtime, environ: Mapping[str, str]) -> ConnectedAgent:
    """Connect another agent with this runtime; its program starts later, in this environment.

    Blocks. Raises ConfigurationError.
    """
    from core.acp.acp_agent import ACPAgent
    from core.acp.acp_runtime import ACPRuntime
    from core.acp.agent_process import AgentProcess

    if not command.strip():
        raise ConfigurationError(f"{OTHER} needs another agent's command. Set agent.acp_command in config.toml.")
    link = AgentProcess(command, folder, environ)
    agent = ACPAgent(link, folder, runtime.working_dir)
    return ConnectedAgent(lambda llm: agent, ACPRuntime(runtime, link))
