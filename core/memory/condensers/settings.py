"""The settings of condensers: the section `condenser`. Loads nothing else, as every start reads them."""

from __future__ import annotations

from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.llm.settings import Names

Kind = Literal[
    "pipeline",
    "noop",
    "observation_masking",
    "browser_output_masking",
    "recent",
    "amortized",
    "llm",
    "llm_attention",
    "structured",
    "conversation_window",
]
ROLLING = frozenset({"amortized", "llm", "llm_attention", "structured"})
"""Those that act by themselves once what the model sees has grown too large."""


class CondenserSettings(BaseModel):
    """How a long conversation is shortened for the model; the log keeps all of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: Kind = "pipeline"
    """How: pipeline takes several one after the other, llm sums up, amortized forgets the middle, noop does nothing."""
    pipeline: Names = ("conversation_window", "browser_output_masking", "llm")
    """What the pipeline is made of, in this order."""
    max_size: int = Field(default=240, ge=1)
    """Events that the model sees before the history is condensed to half of that."""
    max_tokens: int | None = Field(default=None, ge=1000)
    """Tokens of a prompt before it is condensed; unset goes by window_share alone."""
    window_share: float = Field(default=0.75, ge=0, le=0.95)
    """The part of the model's context window, where that is known, that a prompt may take before it is condensed."""
    keep_first: int = Field(default=4, ge=0)
    """Events at the beginning that always stay."""
    attention_window: int = Field(default=100, ge=0)
    """Newest events whose observations observation_masking leaves as they are."""
    browser_window: int = Field(default=2, ge=0)
    """Newest pages that browser_output_masking leaves as they are."""
    max_event_length: int = Field(default=10_000, ge=100)
    """Characters of one event that the model reads that sums up."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = sorted({*get_args(Kind)} - {"pipeline"})
        if unknown := [name for name in self.pipeline if name not in known]:
            raise ValueError(f"pipeline: {unknown[0][:40]!r} is no condenser; there are {', '.join(known)}")
        if self.keep_first >= max(1, self.max_size // 2):
            raise ValueError("keep_first has to be less than half of max_size")
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """What there is to be made."""
        return self.pipeline if self.kind == "pipeline" else (self.kind,)
