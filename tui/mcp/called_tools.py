"""The MCP tools that a conversation has called.

`tui.mcp.commands` shows the servers. Pure; all returned text is clean.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize, sanitize_line
from tui.workspace.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope

CELLS = 160
HOW = _(
    "Your own servers are in config.toml, each under [mcp.servers.NAME]; a workspace has its own in .mcp.json, or\n"
    "in the files of editors, .cursor/mcp.json and .vscode/mcp.json. Those start after you approved them here.\n"
    "Close this and open it again after a change."
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that was called. Clean."""

    name: str
    calls: int = 0
    answers: int = 0
    last_error: str = ""


@dataclass
class ToolsModel(PaneModel):
    """The MCP tools that the loaded part of a conversation has called."""

    tools: dict[str, Tool] = field(default_factory=dict)

    def apply(self, envelope: Envelope) -> None:
        """Count a call or an answer."""
        event, kind = envelope.event, getattr(envelope.event, "kind", "")
        if kind not in ("call_tool_mcp", "mcp"):
            return
        name = sanitize_line(str(getattr(event, "name", "") or "unnamed"), CELLS)
        tool = self.tools.get(name, Tool(name))
        if kind == "call_tool_mcp":
            self.tools[name] = replace(tool, calls=tool.calls + 1)
            return
        error = sanitize_line(str(getattr(event, "content", "")), CELLS) if _failed(event) else tool.last_error
        self.tools[name] = replace(tool, answers=tool.answers + 1, last_error=error)

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """Add older calls; the latest error stays the shown one."""
        text = {name: tool.last_error for name, tool in self.tools.items() if tool.last_error}
        for envelope in envelopes:
            self.apply(envelope)
        for name, error in text.items():
            self.tools[name] = replace(self.tools[name], last_error=error)


def mcp_text(problems: Sequence[str], tools: Sequence[Tool], *, is_empty: bool = False) -> list[tuple[str, str]]:
    """Errors in files and called tools, as styled texts; `is_empty` if there are no servers."""
    parts: list[tuple[str, str]] = []
    if is_empty:
        parts.append((f"{_('No server is configured for this conversation.')}\n", ""))
        parts.append((f"{HOW}\n", "$text-muted"))
    parts += [(f"{problem}\n", "$text-error") for problem in problems]
    parts.append((f"\n{_('Tools called in what is loaded of this conversation')}\n", "bold $text-accent"))
    for tool in tools:
        parts.append((f"  • {tool.name}", "bold"))
        calls = counted(tool.calls, "{n} call", "{n} calls")
        answers = counted(tool.answers, "{n} answer", "{n} answers")
        parts.append((f"  {calls}, {answers}\n", "$text-muted"))
        if tool.last_error:
            parts.append((f"    {_('last error: {error}').format(error=tool.last_error)}\n", "$text-error"))
    if not tools:
        parts.append((f"  {_('None.')}\n", ""))
    return [(sanitize(text), style) for text, style in parts]


def _failed(event: Any) -> bool:
    """Whether the tool failed, according to the JSON in its answer, as in V0."""
    if getattr(event, "is_error", False):
        return True
    try:
        said = json.loads(str(event.content))
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and bool(said.get("isError"))
