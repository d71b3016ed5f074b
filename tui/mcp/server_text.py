"""What the user reads of an MCP server: how it stands, the whole of what it runs, its tools, what changed. Pure text.

Everything of a server or of a project's file is foreign; what leaves here is clean. A command is never cut off: it is
what the user says yes to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tui.i18n import _, counted
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.llm.host_protocol import Line
    from core.mcp.server_status import Server

STATES = {
    "connecting": (_("connecting …"), "$text-muted"),
    "ready": (_("ready"), "$text-success"),
    "failed": (_("failed"), "$text-error"),
    "consent": (_("needs your consent"), "$text-warning"),
    "off": (_("not started"), "$text-muted"),
}
"""By a server's state, in words and with a colour."""
CONSENT = _(
    "The workspace wants this server started. It runs in the sandbox; without isolation, on this machine as you. "
    "Read the whole of it above; Enter asks you, and your yes holds for exactly this."
)
ASKED_AGAIN = _("You agreed to another command, or a file of the workspace that it names has changed since.")
FLOATS = _("It names no version: whatever is newest would be fetched and run. Better have the file name one.")
BLOCKED = _("These tools are not as you approved them, and are blocked. Enter lets you approve them as they are now.")
CELLS = 100
ABOUT_CHARS = 1_000

Part = tuple[str, str]


def line_of(server: Server) -> list[Part]:
    """One line for a list: its name, how it stands, how many tools it has."""
    words, colour = STATES[server.state]
    parts = [(sanitize_line(server.spec.name, 40), "bold"), (f"  {words}", colour)]
    if server.state == "ready":
        parts.append((f"  {counted(len(server.tools), '{n} tool', '{n} tools')}", "$text-muted"))
    if server.changed:
        changed = counted(len(server.changed), "{n} tool changed", "{n} tools changed")
        parts.append((f"  {changed}", "$text-warning"))
    return parts


def about(server: Server) -> list[Part]:
    """All that there is to know of a server, as texts with their styles."""
    return [(sanitize(text), style) for text, style in _about(server)]


def _marks(tool: Line) -> str:
    """What its server says of a tool; empty where it says nothing good."""
    if tool.get("reads"):
        return _("only reads, and reaches nobody") if tool.get("closed") else _("only reads")
    return ""


def _about(server: Server) -> Iterator[Part]:
    spec = server.spec
    yield f"{_('Address') if spec.url else _('Command')}\n", "bold $text-accent"
    yield f"{spec.shown}\n", ""
    from_project = _("named in .mcp.json of {folder}").format(folder=spec.folder)
    yield f"{from_project if spec.folder else _('one of your own, from config.toml')}\n", "$text-muted"
    if spec.floats:
        yield f"{FLOATS}\n", "$text-warning"
    if server.state == "consent":
        yield f"\n{CONSENT}\n", "$text-warning"
        if server.reason:
            yield f"{ASKED_AGAIN}\n", "$text-error"
    elif server.reason:
        yield f"\n{server.reason}\n", "$text-error"
    elif server.state == "off":
        yield f"\n{_('The setting mcp.project_servers has servers of projects not started.')}\n", "$text-muted"
    if server.changed:
        yield f"\n{BLOCKED}\n", "$text-warning"
    for tool, before in server.changed:
        yield f"  • {_flat(tool['name'])}\n", "bold"
        if before:
            yield f"    {_('as approved:')} {_flat(before)}\n", "$text-muted"
        else:
            yield f"    {_('as approved:')} {_('there was none, or its parameters were others')}\n", "$text-muted"
        yield f"    {_('now:')} {_flat(tool['about'])}\n", ""
    yield f"\n{_('Tools')}\n", "bold $text-accent"
    for tool in server.tools:
        yield f"  • {_flat(tool['name'])}", "bold"
        if marks := _marks(tool):
            yield f"  {marks}", "$text-success"
        yield f"  {sanitize_line(_flat(tool['about']), CELLS)}\n", "$text-muted"
    if not server.tools:
        yield f"  {_('None.')}\n", "$text-muted"
    for why in server.left_out:
        left = _("left out: {why}").format(why=_flat(why))
        yield f"  {left}\n", "$text-warning"
    if server.has_resources:
        yield f"{_('It has resources, which the agent can list and read.')}\n", "$text-muted"
    if server.has_prompts:
        yield f"{_('It has prompts; p puts one into your prompt.')}\n", "$text-muted"


def _flat(text: str) -> str:
    return " ".join(str(text)[:ABOUT_CHARS].split())
