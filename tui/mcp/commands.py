"""The MCP servers of a conversation: their state, the tools that were called, and their prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.i18n import _
from tui.shortcuts.command import Command, Group
from tui.terminal_io.sanitizer import sanitize, sanitize_line

if TYPE_CHECKING:
    from core.mcp.supervisor import Supervisor
    from tui.workspace.context import Context
    from tui.workspace.tab import Tab


def show_servers(app: Context) -> None:
    """Show the servers of the current tab."""
    if app.tabs.current is not None:
        app.attempt(_show_servers(app, app.tabs.current))


async def _show_servers(app: Context, tab: Tab) -> None:
    from tui.mcp.called_tools import mcp_text
    from tui.mcp.screen import MCPScreen

    assert app.manager is not None
    supervisor = app.manager.mcp
    if tab is app.tabs.conversation:
        await app.manager.read_settings()
        await supervisor.open(tab.folder)
    problems = [sanitize(text) for text in supervisor.problems.get(tab.folder, ())]
    tools = list(tab.mcp_tools.tools.values())
    more = mcp_text(problems, tools, is_empty=not supervisor.at(tab.folder))
    screen = MCPScreen(supervisor, tab.folder, Content.assemble(*more))
    if (key := await app.push_screen_wait(screen)) is not None:
        await _take_prompt(app, supervisor, key)


async def _take_prompt(app: Context, supervisor: Supervisor, key: str) -> None:
    """Have the user choose a prompt of a server and fill in its arguments; its text goes into the prompt, unsent."""
    from core.mcp.mcp_host_client import ServerError
    from tui.dialogs.dialog import Choice, ChoiceScreen
    from tui.dialogs.line_input import LineScreen

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
