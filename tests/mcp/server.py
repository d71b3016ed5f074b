"""A whole server of the SDK, over each transport: `server.py stdio | sse PORT | streamable-http PORT`.

`MARK` names a file into which it writes its process id, and what became of `linger`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Image, MCPServer

MARK = os.environ.get("MARK", os.devnull)
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645"
    "400000000049454e44ae426082"
)
server = MCPServer("good")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it cannot be done")


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PNG, format="png")


@server.tool()
def environment() -> str:
    """The names of its variables."""
    return " ".join(sorted(os.environ))


@server.tool()
async def linger() -> str:
    """Take very long."""
    Path(MARK).write_text("begun")
    try:
        await anyio.sleep(3600)
    except BaseException:
        Path(MARK).write_text("cancelled")
        raise
    return "never"


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


@server.resource("notes://first")
def first() -> str:
    """The first note."""
    return "the text of a note"


@server.resource("notes://{name}/whole")
def whole(name: str) -> str:
    """Any note."""
    return f"the note {name}"


@server.resource("file:///{path}")
def file(path: str) -> str:
    """Any file of the machine, as a careless server offers it."""
    return f"the file {path}"


@server.prompt()
def review(code: str) -> str:
    """Ask for a review."""
    return f"Review this: {code}"


if __name__ == "__main__":
    transport, *port = sys.argv[1:]
    if os.devnull != MARK:
        Path(MARK).write_text(str(os.getpid()))
    if transport == "stdio":
        server.run()
    else:
        server.run(transport, host="127.0.0.1", port=int(port[0]))  # type: ignore[call-overload]
