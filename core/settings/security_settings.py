"""The settings of security, as `config.toml` has them under `[security]`.

The settings of trust, as `config.toml` has them under `[trust]`. Beside the layers, as the settings are read
everywhere.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.llm.settings import Names


class SecuritySettings(BaseModel):
    """Who is heard, beside your rules and the mode, before an action is carried out."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    taint: bool = True
    """Whether what could carry data out asks first in every mode, once foreign content was read: pages, downloads."""
    analyzers: Names = ("invariant",)
    """Which analyzers are asked, ours and those of other packages; where one calls the risk high, the action asks."""


class TrustSettings(BaseModel):
    """What becomes of instructions, skills, commands, agents, hooks and servers that a project brings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    projects: Literal["ask", "always", "never"] = "ask"
    """Whether they count: once you have read them and said yes, always, or never. Always is for folders of your own
    alone: whoever writes there directs your agent."""
    disabled: Names = ()
    """Names of microagents and skills that are never told, whoever brings them."""
