"""The agents by name. To add one, add its class here."""

from __future__ import annotations

from collections.abc import Callable

from core.agent.codeact import CodeActAgent
from core.errors import ConfigurationError
from core.ports import LLM, Agent

AGENTS: dict[str, Callable[[LLM], Agent]] = {"CodeActAgent": CodeActAgent}

DEFAULT_AGENT = "CodeActAgent"


def create_agent(name: str, llm: LLM) -> Agent:
    """The agent of that class name. Raises ConfigurationError that lists the names there are."""
    make = AGENTS.get(name)
    if make is None:
        raise ConfigurationError(f"There is no agent {name!r}. Choose one of: {', '.join(sorted(AGENTS))}.")
    return make(llm)
