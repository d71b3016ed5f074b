"""The agents whose sessions can be read, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Mapping

from core.import_export.agents import claude_code, codex, crush, gemini, goose, opencode
from core.import_export.agents.source import Source

_ROWS: tuple[Source, ...] = (
    Source("claude-code", "Claude Code", claude_code.discover, claude_code.read),
    Source("codex", "Codex", codex.discover, codex.read),
    Source("opencode", "opencode", opencode.discover, opencode.read),
    Source("gemini", "Gemini CLI", gemini.discover, gemini.read),
    Source("crush", "crush", crush.discover, crush.read),
    Source("goose", "goose", goose.discover, goose.read),
)
SOURCES: Mapping[str, Source] = {source.name: source for source in _ROWS}
"""By name."""
