"""The settings of what lasts beyond a conversation: the section `memory`. Loads nothing else, as every start reads
them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class MemorySettings(BaseModel):
    """What an agent knows of other conversations."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    recall: Literal["off", "project", "everywhere"] = "project"
    """Which conversations the agent may search, by a tool: none, those in the same folder, or all of this home."""
