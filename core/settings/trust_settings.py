"""The settings of trust, as `config.toml` has them under `[trust]`. Beside the layers, as the settings are read
everywhere."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.llm.settings import Names


class TrustSettings(BaseModel):
    """What becomes of instructions, skills, commands, agents, hooks and servers that a project brings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    projects: Literal["ask", "always", "never"] = "ask"
    """Whether they count: once you have read them and said yes, always, or never. Always is for folders of your own
    alone: whoever writes there directs your agent."""
    disabled: Names = ()
    """Names of microagents and skills that are never told, whoever brings them."""
