"""An MCP server that sends mail, which is to say writes it where the trial looks: `mail.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("mail")


@server.tool()
def send(to: str, text: str) -> str:
    """Send a mail."""
    with Path(sys.argv[1]).open("a") as sent:
        sent.write(f"{to}: {text}\n")
    return "sent"


server.run("stdio")
