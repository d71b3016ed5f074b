"""The MCP servers of a conversation: their state, the tools that were called, and their prompts.

The screen follows the supervisor while it is open, and has keys to start a server, approve changes, restart it and use
a prompt. What the user approves is what was shown: its fingerprint, or the hashes of its tools. The result is the
server whose prompts the user wants, or None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.dialogs.dialog import SureScreen
from tui.dialogs.modal import Modal
from tui.i18n import _, counted
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.mcp.supervisor import Server, Supervisor

if TYPE_CHECKING:
    from core.llm.host_protocol import Line
    from core.mcp.supervisor import Server, Supervisor
    from tui.workspace.context import Context
    from tui.workspace.tab import Tab

STATES = {
    "connecting": (_("connecting …"), "$text-muted"),
    "ready": (_("ready"), "$text-success"),
    "failed": (_("failed"), "$text-error"),
    "consent": (_("needs your approval"), "$text-warning"),
    "off": (_("not started"), "$text-muted"),
}
"""By a server's state, in words and with a colour."""
CONSENT = _(
    "This workspace defines this server. It runs in the sandbox; without a sandbox, on this machine with your "
    "permissions. Review the whole command above. Enter asks for your approval, which covers exactly this command."
)
ASKED_AGAIN = _("The command, or a file of the workspace that it names, has changed since you approved it.")
FLOATS = _("It has no fixed version, so the newest one would be downloaded and run. Set a version in the file.")
BLOCKED = _("These tools have changed since you approved them, and are blocked. Press Enter to approve them.")
CELLS = 100
ABOUT_CHARS = 1_000

Part = tuple[str, str]


def line_of(server: Server) -> list[Part]:
    """One line for a list: name, state and number of tools."""
    words, colour = STATES[server.state]
    parts = [(sanitize_line(server.spec.name, 40), "bold"), (f"  {words}", colour)]
    if server.state == "ready":
        parts.append((f"  {counted(len(server.tools), '{n} tool', '{n} tools')}", "$text-muted"))
    if server.changed:
        changed = counted(len(server.changed), "{n} tool changed", "{n} tools changed")
        parts.append((f"  {changed}", "$text-warning"))
    return parts


def about(server: Server) -> list[Part]:
    """The details of a server, as texts with styles."""
    return [(sanitize(text), style) for text, style in _about(server)]


def _marks(tool: Line) -> str:
    """The server's annotations that mark a tool as harmless; empty if there are none."""
    if tool.get("reads"):
        return _("read-only, no network") if tool.get("closed") else _("read-only")
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
            yield f"    {_('as approved:')} {_('none, or with other parameters')}\n", "$text-muted"
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
        left = _("skipped: {why}").format(why=_flat(why))
        yield f"  {left}\n", "$text-warning"
    if server.has_resources:
        yield f"{_('It has resources, which the agent can list and read.')}\n", "$text-muted"
    if server.has_prompts:
        yield f"{_('It has prompts; p puts one into your prompt.')}\n", "$text-muted"


def _flat(text: str) -> str:
    return " ".join(str(text)[:ABOUT_CHARS].split())


class MCPScreen(Modal[str | None]):
    """The MCP servers of one workspace."""

    DEFAULT_CSS = """
    MCPScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: 90%; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        OptionList, OptionList:focus { height: auto; max-height: 8; border: none; background: $surface; padding: 0; }
        Static { height: auto; }
        #mcp-about { margin-top: 1; height: 1fr; }
    }
    """
    BINDINGS = [
        Binding("escape,q", "leave", "Leave"),
        Binding("r", "restart", show=False),
        Binding("p", "prompts", show=False),
        Binding("pagedown,space", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
    ]

    def __init__(self, supervisor: Supervisor, folder: str, conversation: str, more: Content) -> None:
        """`more` is shown below the details of a server."""
        super().__init__()
        self._supervisor, self._more = supervisor, more
        self._folder, self._conversation = folder, conversation
        self._servers: Sequence[Server] = ()
        self._problem = ""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("MCP servers")
            yield OptionList(markup=False)
            with VerticalScroll(id="mcp-about", can_focus=False):
                yield Static(id="mcp-text")

    def on_mount(self) -> None:
        """Show the servers, and follow their changes."""
        self._supervisor.listeners.add(self._changed)
        self._show()
        self.query_one(OptionList).focus()

    def on_unmount(self) -> None:
        """Stop following."""
        self._supervisor.listeners.discard(self._changed)

    def _changed(self, server: Server, words: str) -> None:
        self.call_later(self._show)

    @property
    def _server(self) -> Server | None:
        index = self.query_one(OptionList).highlighted
        return self._servers[index] if index is not None and index < len(self._servers) else None

    def _show(self) -> None:
        lines = self.query_one(OptionList)
        at = lines.highlighted or 0
        self._servers = self._supervisor.at(self._folder, self._conversation)
        lines.clear_options()
        lines.add_options([Option(Content.assemble(*line_of(server))) for server in self._servers])
        lines.display = bool(self._servers)
        if self._servers:
            lines.highlighted = min(at, len(self._servers) - 1)
        self._show_details()

    def on_option_list_option_highlighted(self) -> None:
        """Show the details of the server under the cursor."""
        self._show_details()

    def _show_details(self) -> None:
        server = self._server
        parts: list[Content | str | tuple[str, str]] = []
        if self._problem:
            parts.append((f"{self._problem}\n\n", "$text-error"))
        parts += about(server) if server is not None else []
        parts += ["\n" if server is not None else "", self._more]
        self.query_one(Vertical).border_subtitle = _keys(server)
        self.query_one("#mcp-text", Static).update(Content.assemble(*parts))

    # -- answers of the user -------------------------------------------------------------------------------------------

    def on_option_list_option_selected(self) -> None:
        """Ask about the selected server: consent for it, or approval of its changed tools."""
        if (server := self._server) is None:
            return
        if server.state == "consent":
            command = sanitize(server.spec.shown)
            question = _("Start this MCP server, now and whenever a conversation here needs it?")
            said = ("allow", server.key, server.spec.fingerprint)
            self._ask(f"{question}\n\n{command}", _("start it"), *said)
        elif server.changed:
            hashes = [str(tool["hash"]) for tool, _before in server.changed]
            self._ask(
                _("Approve the changed tools as they are now?"), _("approve them"), "approve", server.key, *hashes
            )

    def _ask(self, question: str, yes: str, what: str, key: str, *said: str) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._do(what, key, *said)

        self.app.push_screen(SureScreen(question, yes), answered)

    def action_restart(self) -> None:
        """Restart the server."""
        if (server := self._server) is not None:
            self._do("restart", server.key)

    @work
    async def _do(self, what: str, key: str, *said: str) -> None:
        from core.errors import HandloomError

        self._problem = ""
        try:
            match what:
                case "allow":
                    await self._supervisor.allow(key, said[0])
                case "approve":
                    await self._supervisor.approve(key, said)
                case _:
                    await self._supervisor.restart(key)
        except HandloomError as error:
            self._problem = sanitize(str(error))
        self._show()

    def action_prompts(self) -> None:
        """Close the screen to choose one of the server's prompts."""
        if (server := self._server) is not None and server.has_prompts and server.state == "ready":
            self.dismiss(server.key)

    def action_page(self, pages: int) -> None:
        """Scroll the details."""
        text = self.query_one("#mcp-about", VerticalScroll)
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)

    def action_leave(self) -> None:
        """Close the screen."""
        self.dismiss(None)


def _keys(server: Server | None) -> str:
    """The keys that apply to the selected server."""
    keys = [
        _("Enter start") if server is not None and server.state == "consent" else "",
        _("Enter approve") if server is not None and server.changed else "",
        _("r restart") if server is not None else "",
        _("p prompts") if server is not None and server.has_prompts and server.state == "ready" else "",
        _("PgDn scroll"),
        _("Esc closes"),
    ]
    return " · ".join(filter(None, keys))


def show_servers(app: Context) -> None:
    """Show the servers of the current tab."""
    if app.tabs.current is not None:
        app.attempt(_show_servers(app, app.tabs.current))


async def _show_servers(app: Context, tab: Tab) -> None:
    from tui.mcp.called_tools import mcp_text

    assert app.manager is not None
    supervisor = app.manager.mcp
    if tab is app.tabs.conversation:
        await app.manager.read_settings()
        await supervisor.open(tab.folder, tab.id)
    problems = [sanitize(text) for text in supervisor.problems.get(tab.folder, ())]
    tools = list(tab.mcp_tools.tools.values())
    more = mcp_text(problems, tools, is_empty=not supervisor.at(tab.folder, tab.id))
    screen = MCPScreen(supervisor, tab.folder, tab.id, Content.assemble(*more))
    if (key := await app.push_screen_wait(screen)) is not None:
        await _take_prompt(app, supervisor, key)


async def _take_prompt(app: Context, supervisor: Supervisor, key: str) -> None:
    """Let the user choose a server's prompt and fill in its arguments; its text is put into the prompt, unsent."""
    from core.mcp.mcp_host_client import ServerError
    from tui.dialogs.dialog import Choice, ChoiceScreen, LineScreen

    try:
        prompts = {str(prompt["name"]): prompt for prompt in await supervisor.prompts(key)}
        choices = [Choice(name, sanitize_line(name, 60), sanitize_line(prompt["about"], 200))
                   for name, prompt in prompts.items()]  # fmt: skip
        chosen = await app.push_screen_wait(ChoiceScreen(_("Prompts of a server"), choices))
        if chosen is None:
            return
        arguments: dict[str, str] = {}
        for argument in prompts[chosen]["arguments"]:
            title, hint = sanitize_line(argument["name"], 60), sanitize_line(argument["about"], 60)
            text = await app.push_screen_wait(LineScreen(title, hint))
            if text is None:
                return
            if text or argument["required"]:
                arguments[argument["name"]] = text
        app.workspace.prompt.put(sanitize(await supervisor.prompt(key, chosen, arguments)))
    except ServerError as error:
        app.flash(sanitize_line(str(error), 300))


ROWS = (
    Command("conv.mcp", (), "MCP servers", "Show the servers, their status, and the tools that were called.",
            Group.CONVERSATIONS, leader="M", slash="mcp", run=show_servers),
)  # fmt: skip
