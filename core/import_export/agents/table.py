"""The readers of the agents whose sessions can be read, in the order of `names`."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from core.import_export.agents import (
    aider,
    claude_code,
    cline,
    codex,
    crush,
    gemini,
    goose,
    inspect_ai,
    mini_swe_agent,
    opencode,
    openhands,
    roo,
    swe_agent,
)
from core.import_export.agents.names import AGENTS
from core.import_export.agents.source import Source

_READERS: Mapping[str, ModuleType] = {
    "claude-code": claude_code,
    "codex": codex,
    "opencode": opencode,
    "gemini": gemini,
    "crush": crush,
    "goose": goose,
    "openhands": openhands,
    "swe-agent": swe_agent,
    "mini-swe-agent": mini_swe_agent,
    "cline": cline,
    "aider": aider,
    "roo": roo,
    "inspect": inspect_ai,
}
SOURCES: Mapping[str, Source] = {
    name: Source(name, AGENTS[name].title, reader.discover, reader.read) for name, reader in _READERS.items()
}
"""By name."""
