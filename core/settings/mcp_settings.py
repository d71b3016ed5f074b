"""The settings of MCP servers, as `config.toml` has them under `[mcp]`.

Beside the layers, as the settings are read everywhere. A key never stands here: a setting names the variable of the
environment that holds it.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$", max_length=32)]
"""What a server may be called: no two underscores in a row, which stand between its name and a tool's."""


class MCPServerSettings(BaseModel):
    """One server: a program that is started, or an address that is called."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    command: str = ""
    """The program, searched in PATH."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: tuple[str, ...] = ()
    """Names of environment variables that are passed to it, besides PATH, HOME and the like."""
    url: str = ""
    """The address of a running server; https, or this machine."""
    transport: Literal["stdio", "http", "sse"] | None = None
    """The transport; unset is stdio for a program, and http (streamable HTTP) for an address."""
    key_env: str = ""
    """The environment variable with the key for the address."""
    key_header: str = "Authorization"
    """The header for the key; in Authorization it is sent as `Bearer KEY`."""
    enabled: bool = True
    """Whether it is started."""
    start_s: float = Field(default=30.0, gt=0)
    """Seconds to wait until a server is ready; it is tried again later."""
    patience_s: float = Field(default=4.0, gt=0)
    """Seconds without any message or answer to a ping after which a call fails."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that a call may take while the server responds."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("name either a command or a url")
        if (self.transport == "stdio") != bool(self.command) and self.transport is not None:
            raise ValueError("stdio goes with a command, http and sse go with a url")
        check_url(self.url)
        if not re.fullmatch(r"[A-Za-z0-9-]+", self.key_header):
            raise ValueError("key_header is no name of a header")
        return self


class MCPSettings(BaseModel):
    """Servers that give the agent tools with the Model Context Protocol."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    servers: dict[Name, MCPServerSettings] = {}
    """Your own servers, by their names; each is a table [mcp.servers.NAME]."""
    project_servers: Literal["ask", "never"] = "ask"
    """Servers named in .mcp.json of a workspace: started after you approved them, or never."""


def check_url(url: str) -> None:
    """Raise ValueError for an address that would take calls and keys across a network in the clear."""
    if not url:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the url begins with https:// and names a host")
    if parts.username or parts.password:
        raise ValueError("the url holds a password; name the variable that has it in key_env")
    if parts.scheme == "http" and not is_this_machine(parts.hostname):
        raise ValueError("http is for this machine alone; use https")


def is_this_machine(host: str) -> bool:
    """Whether the name or address of a host is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
