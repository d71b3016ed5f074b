"""What there is of MCP in a conversation: servers that files of the workspace name, and tools that were called.

Servers that are started are told of in `tui.model.mcp_lines`. Here are the rest: those that a workspace names for other
programs, of which nothing is started, and the tools that were called. Of such a server the name is told, the program
and the names of its variables: arguments and values may be secrets. Pure but for `named_in`, which reads files of the
workspace, and so foreign text; everything that leaves is clean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.display.text import sanitize, sanitize_line
from tui.i18n import _, counted
from tui.panes.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope

FILES = (".vscode/mcp.json", ".cursor/mcp.json")
"""Where projects name servers for other programs."""
TABLES = ("mcpServers", "servers")
"""How these files call the table of servers."""
MAX_BYTES = 256 * 1024
MAX_SERVERS = 50
STATE = _("kept, not started")
CELLS = 160
HOW = _(
    "Your own servers stand in config.toml, each under [mcp.servers.NAME]; a workspace names its own in .mcp.json.\n"
    "Those are started once you have said yes here. Close this and open it again after a change."
)
OTHERS = _("Handloom starts no server from these files. Copy what you want into .mcp.json or config.toml.")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that a file names. Clean."""

    name: str
    file: str
    runs: str
    """Its program, or its address without what may be secret."""
    variables: tuple[str, ...] = ()


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
        """Older calls count as well; the latest error stays the one that is told."""
        told = {name: tool.last_error for name, tool in self.tools.items() if tool.last_error}
        for envelope in envelopes:
            self.apply(envelope)
        for name, error in told.items():
            self.tools[name] = replace(self.tools[name], last_error=error)


def named_in(workspace: str) -> tuple[list[Server], list[str]]:
    """The servers that files of a workspace name, and which files cannot be read, with the reason. Blocks."""
    servers: list[Server] = []
    problems: list[str] = []
    for name in FILES:
        path = Path(workspace) / name
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise ValueError(_("it is longer than {count} bytes").format(count=f"{MAX_BYTES:,}"))
            servers += _servers(json.loads(data), name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, RecursionError) as error:
            problems.append(sanitize_line(_("{file} cannot be read: {error}").format(file=name, error=error), CELLS))
    return servers[:MAX_SERVERS], problems


def _servers(data: Any, file: str) -> Iterator[Server]:
    if not isinstance(data, dict):
        raise ValueError(_("it holds no JSON object"))
    for table in TABLES:
        for name, said in (data.get(table) or {}).items() if isinstance(data.get(table), dict) else ():
            if isinstance(said, dict):
                yield _server(str(name), said, file)


def _server(name: str, said: dict[str, Any], file: str) -> Server:
    if said.get("url"):
        address = str(said["url"]).partition("?")[0]
        scheme, found, rest = address.partition("://")
        runs = f"{scheme}{found}{rest.rpartition('@')[2]}"
    else:
        count = len(said["args"]) if isinstance(said.get("args"), list) else 0
        runs = str(said.get("command") or _("no program is named"))
        if count:
            runs = f"{runs}, {counted(count, '{n} argument', '{n} arguments')}"
    variables = said.get("env") if isinstance(said.get("env"), dict) else {}
    names = tuple(sanitize_line(str(variable), 60) for variable in list(variables or {})[:20])
    return Server(sanitize_line(name, 60), file, sanitize_line(runs, CELLS), names)


def mcp_text(
    servers: Sequence[Server], problems: Sequence[str], tools: Sequence[Tool], *, is_empty: bool = False
) -> list[tuple[str, str]]:
    """What there is beside servers of ours, as texts with their styles; `is_empty` where there are none of ours."""
    parts: list[tuple[str, str]] = []
    if is_empty:
        parts.append((f"{_('No server is configured for this conversation.')}\n", ""))
        parts.append((f"{HOW}\n", "$text-muted"))
    parts += [(f"{problem}\n", "$text-error") for problem in problems]
    if servers:
        parts.append((f"\n{_('Named for other programs')}\n", "bold $text-accent"))
        parts.append((f"  {OTHERS}\n", "$text-muted"))
    for server in servers:
        parts.append((f"  • {server.name}", "bold"))
        parts.append((f"  {STATE}\n", "$text-warning"))
        named = _("{program} · named in {file}").format(program=server.runs, file=server.file)
        parts.append((f"    {named}\n", "$text-muted"))
        if server.variables:
            takes = _("takes {variables} from the environment").format(variables=", ".join(server.variables))
            parts.append((f"    {takes}\n", "$text-muted"))
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
    """Whether an answer says that the tool failed; V0 has that in the JSON of the answer."""
    if getattr(event, "is_error", False):
        return True
    try:
        said = json.loads(str(event.content))
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and bool(said.get("isError"))
