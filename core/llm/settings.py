"""The settings of a hosted model, one field each."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LLMSettings(BaseModel):
    """How a hosted model is called. Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    api_base: str | None = None
    """Address of the provider's API, in place of its usual one. https, or plain http on this machine."""
    title_model: str = ""
    """A cheap model that names new conversations; empty names them by the first line that was said."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """How freely the model chooses words; None leaves it to the provider, and some models take no other."""
    vision: Literal["auto", "yes", "no"] = "auto"
    """Whether the model is shown pictures; auto goes by litellm's table, in which models of your own are missing."""
    tools: Literal["auto", "yes", "no"] = "auto"
    """Whether the model calls tools by itself; else calls are written as text. Auto goes by litellm's table and by what
    the provider says."""
    connect_timeout_s: float = Field(default=15.0, gt=0)
    """Until a connection to the provider stands."""
    first_token_timeout_s: float = Field(default=180.0, gt=0)
    """Until the answer begins: models may think long before they speak."""
    idle_timeout_s: float = Field(default=90.0, gt=0)
    """Between two pieces of an answer."""
    total_timeout_s: float = Field(default=1200.0, gt=0)
    """For a whole answer."""
    num_retries: int = Field(default=5, ge=1, le=20)
    """How often a call is tried at most, the first time included."""
    retry_min_wait_s: float = Field(default=1.0, gt=0)
    """The wait before the second try; each further one is twice as long."""
    retry_max_wait_s: float = Field(default=64.0, gt=0)
    """The longest wait between two tries, unless the provider asks for more."""
