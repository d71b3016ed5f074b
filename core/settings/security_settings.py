"""The settings of security, as `config.toml` has them under `[security]`.

The settings of trust, as `config.toml` has them under `[trust]`. Beside the layers, as the settings are read
everywhere.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.llm.settings import Names


class SecuritySettings(BaseModel):
    """Checks of an action beyond your rules and the mode."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    taint: bool = True
    """After untrusted content was read, such as pages or downloads, ask in every mode before sending data."""
    analyzers: Names = ("invariant",)
    """Analyzers that rate actions, built in or from other packages; an action that one of them rates high asks."""


class TrustSettings(BaseModel):
    """How Handloom treats instructions, skills, commands, agents, hooks and servers of a project."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    projects: Literal["ask", "always", "never"] = "ask"
    """When they are used: after you reviewed and approved them, always, or never. Use always only for your own
    folders: anyone who can write there controls your agent."""
    disabled: Names = ()
    """Names of microagents and skills that are never used."""
