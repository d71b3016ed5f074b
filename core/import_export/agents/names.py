"""The names of the agents whose sessions can be read. Imports nothing slow, because command lines name them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Agent(NamedTuple):
    title: str
    """Shown to people."""
    traces: tuple[str, ...]
    """Folders below the user's home, one of which has files if the agent was used."""


AGENTS: Mapping[str, Agent] = {
    "claude-code": Agent("Claude Code", (".claude/projects", ".config/claude/projects")),
    "codex": Agent("Codex", (".codex/sessions", ".codex/archived_sessions")),
    "opencode": Agent("opencode", (".local/share/opencode",)),
    "gemini": Agent("Gemini CLI", (".gemini/tmp",)),
    "crush": Agent("crush", (".local/share/crush",)),
    "goose": Agent("goose", (".local/share/goose", "Library/Application Support/goose")),
    "openhands": Agent("OpenHands", (".openhands/conversations",)),
    "swe-agent": Agent("SWE-agent", ()),
    "mini-swe-agent": Agent("mini-swe-agent", (".config/mini-swe-agent",)),
    "cline": Agent("Cline", (".cline/data", ".config/Code/User/globalStorage/saoudrizwan.claude-dev")),
    "aider": Agent("aider", (".aider",)),
    "roo": Agent("Roo Code", (".config/Code/User/globalStorage/rooveterinaryinc.roo-cline",)),
    "inspect": Agent("Inspect", ()),
}
"""By the name that commands use, in the order in which they are shown."""


def present(home: Path) -> list[str]:
    """The titles of the agents that were used on this machine, told from the names in their folders. Blocks."""
    from core.import_export.agents.files import walk

    return [agent.title for agent in AGENTS.values() if any(any(walk(home / trace)) for trace in agent.traces)]


def is_agent_record(kind: str) -> bool:
    """Whether an event of this kind is a record of another agent's session without a counterpart here."""
    return kind.removeprefix("observation:").partition(".")[0] in AGENTS
