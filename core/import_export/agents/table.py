"""The agents whose sessions can be read, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Mapping

from core.import_export.agents import claude_code, codex
from core.import_export.agents.source import Source

_ROWS: tuple[Source, ...] = (
    Source("claude-code", "Claude Code", claude_code.discover, claude_code.read),
    Source("codex", "Codex", codex.discover, codex.read),
)
SOURCES: Mapping[str, Source] = {source.name: source for source in _ROWS}
"""By name."""
