"""The settings of security, as `config.toml` has them under `[security]`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from core.llm.settings import Names


class SecuritySettings(BaseModel):
    """Who is heard, beside your rules and the mode, before an action is carried out."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    taint: bool = True
    """Whether what could carry data out asks first in every mode, once foreign content was read: pages, downloads."""
    analyzers: Names = ("invariant",)
    """Which analyzers are asked, ours and those of other packages; where one calls the risk high, the action asks."""
