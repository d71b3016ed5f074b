"""The agents by name. To add one, add its class here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.acp.choice import unlinked
from core.agent.codeact import CodeActAgent
from core.errors import ConfigurationError
from core.plugins import PluginRequirement
from core.ports import LLM, Agent

AGENTS: dict[str, Callable[[LLM, Sequence[PluginRequirement]], Agent]] = {
    "CodeActAgent": CodeActAgent,
    "ACPAgent": unlinked,
}

DEFAULT_AGENT = "CodeActAgent"


def check_agent(name: str) -> None:
    """Raise ConfigurationError that lists the names there are, where this is none of them."""
    if name not in AGENTS:
        raise ConfigurationError(f"There is no agent {name!r}. Choose one of: {', '.join(sorted(AGENTS))}.")


def create_agent(name: str, llm: LLM, plugins: Sequence[PluginRequirement] = ()) -> Agent:
    """The agent of that class name, for a sandbox with those plugins. Raises ConfigurationError as `check_agent`."""
    check_agent(name)
    return AGENTS[name](llm, plugins)
