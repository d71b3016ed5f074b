"""The agents whose sessions can be read, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Mapping

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
from core.import_export.agents.source import Source

_ROWS: tuple[Source, ...] = (
    Source("claude-code", "Claude Code", claude_code.discover, claude_code.read),
    Source("codex", "Codex", codex.discover, codex.read),
    Source("opencode", "opencode", opencode.discover, opencode.read),
    Source("gemini", "Gemini CLI", gemini.discover, gemini.read),
    Source("crush", "crush", crush.discover, crush.read),
    Source("goose", "goose", goose.discover, goose.read),
    Source("openhands", "OpenHands", openhands.discover, openhands.read),
    Source("cline", "Cline", cline.discover, cline.read),
    Source("roo", "Roo Code", roo.discover, roo.read),
    Source("aider", "aider", aider.discover, aider.read),
    Source("mini-swe-agent", "mini-swe-agent", mini_swe_agent.discover, mini_swe_agent.read),
    Source("swe-agent", "SWE-agent", swe_agent.discover, swe_agent.read),
    Source("inspect", "Inspect", inspect_ai.discover, inspect_ai.read),
)
SOURCES: Mapping[str, Source] = {source.name: source for source in _ROWS}
"""By name."""
