"""The agents by name. To add one, add its class here."""

from __future__ import annotations

from collections.abc import Callable

from core.agent.codeact import CodeActAgent
from core.errors import ConfigurationError
from core.ports import LLM, Agent

AGENTS: dict[str, Callable[[LLM], Agent]] = {"CodeActAgent": CodeActAgent}

DEFAULT_AGENT = "CodeActAgent"


def check_agent(name: str) -> None:
    """Raise ConfigurationError that lists the names there are, where this is none of them."""
    if name not in AGENTS:
        raise ConfigurationError(f"There is no agent {name!r}. Choose one of: {', '.join(sorted(AGENTS))}.")


def create_agent(name: str, llm: LLM) -> Agent:
    """The agent of that class name. Raises ConfigurationError as `check_agent`."""
    check_agent(name)
    return AGENTS[name](llm)
