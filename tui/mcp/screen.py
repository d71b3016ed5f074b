"""The screen of MCP servers: each with its state, and keys to let one start, approve changes, restart, take a prompt.

It follows the supervisor while it is up. What is agreed to is what was shown: its fingerprint, or the hashes of its
tools, goes along with the yes. Answers with the key of the server whose prompts are wanted, None else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from core.errors import HandloomError
from tui.dialogs.dialog import SureScreen
from tui.i18n import _
from tui.mcp.server_text import about, line_of
from tui.terminal_io.sanitizer import sanitize

if TYPE_CHECKING:
    from core.mcp.server_status import Server
    from core.mcp.supervisor import Supervisor


class MCPScreen(ModalScreen[str | None]):
    """The servers that count in one workspace."""

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

    def __init__(self, supervisor: Supervisor, folder: str, more: Content) -> None:
        """`more` stands below what is told of a server."""
        super().__init__()
        self._supervisor, self._folder, self._more = supervisor, folder, more
        self._servers: Sequence[Server] = ()
        self._problem = ""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("MCP servers")
            yield OptionList(markup=False)
            with VerticalScroll(id="mcp-about", can_focus=False):
                yield Static(id="mcp-text")

    def on_mount(self) -> None:
        """Show what there is, and follow it."""
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
        self._servers = self._supervisor.at(self._folder)
        lines.clear_options()
        lines.add_options([Option(Content.assemble(*line_of(server))) for server in self._servers])
        lines.display = bool(self._servers)
        if self._servers:
            lines.highlighted = min(at, len(self._servers) - 1)
        self._show_details()

    def on_option_list_option_highlighted(self) -> None:
        """Tell of the server under the cursor."""
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

    # -- what the user says --------------------------------------------------------------------------------------------

    def on_option_list_option_selected(self) -> None:
        """Ask about what is shown: a server that needs consent, or tools that have changed."""
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
        """End the server and start it anew."""
        if (server := self._server) is not None:
            self._do("restart", server.key)

    @work
    async def _do(self, what: str, key: str, *said: str) -> None:
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
        """Leave, to choose one of its prompts."""
        if (server := self._server) is not None and server.has_prompts and server.state == "ready":
            self.dismiss(server.key)

    def action_page(self, pages: int) -> None:
        """Scroll the details."""
        text = self.query_one("#mcp-about", VerticalScroll)
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)

    def action_leave(self) -> None:
        """Leave."""
        self.dismiss(None)


def _keys(server: Server | None) -> str:
    """The keys that do something as things stand."""
    keys = [
        _("Enter start") if server is not None and server.state == "consent" else "",
        _("Enter approve") if server is not None and server.changed else "",
        _("r restart") if server is not None else "",
        _("p prompts") if server is not None and server.has_prompts and server.state == "ready" else "",
        _("PgDn scroll"),
        _("Esc leaves"),
    ]
    return " · ".join(filter(None, keys))
