"""BatchOptions: what all attempts of a batch have in common, on this machine and on the nodes of a cluster."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.settings.config import Settings, load


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """Has no secrets: a node uses its own."""

    given: Mapping[str, Any]
    """For `core.settings.config.load`, over the settings of the machine."""
    max_answer_tokens: int | None = None
    """The longest answer of a model if the machine's settings have no limit."""
    approve: bool = False
    """Whether every question is answered with yes."""
    has_budget: bool = False
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    """Of this run of the batch, for the folders on its nodes."""
    version: str = field(default_factory=lambda: version("handloom"))
    """Of Handloom, on the driver's machine."""

    def settings(self, home: Path) -> Settings:
        """The settings on this machine. Reads files. Raises ConfigurationError."""
        settings = load(home, os.environ, **self.given)
        if self.max_answer_tokens is not None and settings.llm.max_tokens is None:
            capped = settings.llm.model_copy(update={"max_tokens": self.max_answer_tokens})
            settings = settings.model_copy(update={"llm": capped})
        return settings

    def for_nodes(self, settings: Settings) -> BatchOptions:
        """The same for a cluster, with the model of these settings, and isolation unless they turn it off."""
        isolation = "none" if settings.sandbox.isolation == "none" else "bubblewrap"
        return replace(self, given={**self.given, "model": settings.model or None, "sandbox__isolation": isolation})
