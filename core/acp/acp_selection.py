"""How a conversation gets another agent: by the name ACPAgent and the command of the settings. Imports little."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import ConfigurationError

if TYPE_CHECKING:
    from core.plugin_requirements import PluginRequirement
    from core.protocols import LLM, Agent, Runtime

OTHER = "ACPAgent"


def unlinked(llm: LLM, plugins: Sequence[PluginRequirement] = (), more_tools: object = None) -> Agent:
    """For the registry: the agent without a command. Its first step raises ConfigurationError."""
    from core.acp.acp_agent import ACPAgent
    from core.acp.agent_process import Link

    return ACPAgent(Link("", "/", {}), "/", "/")


@dataclass(frozen=True, slots=True)
class Linked:
    """What makes the agent, and the runtime with which its program ends."""

    make: Callable[[LLM], Agent]
    runtime: Runtime


def linked(command: str, folder: str, runtime: Runtime, environ: Mapping[str, str]) -> Linked:
    """Another agent beside this runtime; its program is started later, in this environment. Blocks.

    Raises ConfigurationError.
    """
    from core.acp.acp_agent import ACPAgent
    from core.acp.acp_runtime import BesideRuntime
    from core.acp.agent_process import Link

    if not command.strip():
        raise ConfigurationError(f"{OTHER} needs another agent's command. Set agent.acp_command in config.toml.")
    link = Link(command, folder, environ)
    agent = ACPAgent(link, folder, runtime.working_dir)
    return Linked(lambda llm: agent, BesideRuntime(runtime, link))
