"""Sections of `config.toml` that modules below the settings use: MCP servers, security, trust, memory, condensers.

Loads nothing else, because every start reads the settings. A key is never in the settings: they name the environment
variable with it.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from core.llm.settings import Names, SettingsSection

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$", max_length=32)]
"""The name of a server. It has no double underscore, which separates it from the names of tools."""


class MCPServerSettings(SettingsSection):
    """One server: a program that is started, or an address that is called."""

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
    sandbox: bool = True
    """Whether the program runs in a sandbox of its own, in the workspace and isolated like the agent's commands, or in
    the agent's container or on its machine; false runs it on this machine with your permissions."""
    allowed_hosts: Names = ()
    """Hosts that it may access from its sandbox, besides sandbox.allowed_hosts."""
    start_s: float = Field(default=30.0, gt=0)
    """Seconds to wait until a server is ready; it is retried later."""
    patience_s: float = Field(default=4.0, gt=0)
    """Seconds without any message or answer to a ping after which a call fails."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that a call may take while the server responds."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("set either a command or a url")
        if (self.transport == "stdio") != bool(self.command) and self.transport is not None:
            raise ValueError("stdio needs a command, http and sse need a url")
        check_url(self.url)
        if not re.fullmatch(r"[A-Za-z0-9-]+", self.key_header):
            raise ValueError("key_header is not a valid header name")
        return self


class MCPSettings(SettingsSection):
    """Servers that give the agent tools with the Model Context Protocol."""

    servers: dict[Name, MCPServerSettings] = {}
    """Your own servers, by their names; each is a table [mcp.servers.NAME]."""
    project_servers: Literal["ask", "never"] = "ask"
    """Servers named in .mcp.json of a workspace: started after you approved them, or never."""
    search_key_env: str = "SEARCH_API_KEY"
    """The environment variable, or the secret, with your Tavily key. With a key, the agent can search the web through
    the server tavily; empty turns that off."""


def check_url(url: str) -> None:
    """Raise ValueError for an address that would send calls and keys unencrypted over a network."""
    if not url:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the url must begin with https:// and name a host")
    if parts.username or parts.password:
        raise ValueError("the url contains a password; name the variable with it in key_env")
    if parts.scheme == "http" and not is_this_machine(parts.hostname):
        raise ValueError("http is only allowed for this machine; use https")


def is_this_machine(host: str) -> bool:
    """Return whether a host name or address is this machine's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class SecuritySettings(SettingsSection):
    """Checks of an action beyond your rules and the mode."""

    taint: bool = True
    """After untrusted content was read, such as pages or downloads, ask in every mode before sending data."""
    analyzers: Names = ("invariant",)
    """Analyzers that rate actions, built in or from other packages; an action with a high rating needs approval."""


class TrustSettings(SettingsSection):
    """How Handloom treats instructions, skills, commands, agents, hooks and servers of a project."""

    projects: Literal["ask", "always", "never"] = "ask"
    """When they are used: after you reviewed and approved them, always, or never. Use always only for your own
    folders: anyone who can write there controls your agent."""
    disabled: Names = ()
    """Names of microagents and skills that are never used."""


class LibrarySettings(SettingsSection):
    """The sessions of other agents on this machine, in lists and searches beside your conversations."""

    other_agents: Literal["ask", "show", "hide"] = "ask"
    """Whether they are read and shown: the list of conversations asks once, always, or never."""
    keep: bool = True
    """Whether the copy of a session stays after its agent has deleted the session."""
    off: Names = ()
    """Agents whose sessions are not read, such as codex; handloom list --help names them all."""


class MemorySettings(SettingsSection):
    """What agents know about other conversations."""

    recall: Literal["off", "project", "everywhere"] = "project"
    """Which conversations the agent may search with a tool: none, those in the same folder, or all."""


Kind = Literal[
    "pipeline",
    "noop",
    "observation_masking",
    "browser_output_masking",
    "recent",
    "amortized",
    "llm",
    "llm_attention",
    "structured",
    "conversation_window",
]
ROLLING = frozenset({"amortized", "llm", "llm_attention", "structured"})
"""Condensers that run automatically when the history is too long."""


class CondenserSettings(SettingsSection):
    """How a long conversation is shortened for the model; the log keeps everything."""

    kind: Kind = "pipeline"
    """The condenser: pipeline uses several in turn, llm summarizes, amortized drops the middle, noop does nothing."""
    pipeline: Names = ("conversation_window", "browser_output_masking", "llm")
    """The condensers of the pipeline, in order."""
    max_size: int = Field(default=240, ge=1)
    """Events that the model sees before the history is condensed to half of that."""
    max_tokens: int | None = Field(default=None, ge=1000)
    """Tokens of a prompt before it is condensed; unset only uses window_share."""
    window_share: float = Field(default=0.75, ge=0, le=0.95)
    """Share of the model's context window, if known, that a prompt may use before it is condensed."""
    keep_first: int = Field(default=4, ge=0)
    """Events at the beginning that are always kept."""
    attention_window: int = Field(default=100, ge=0)
    """Newest events whose observations observation_masking does not mask."""
    browser_window: int = Field(default=2, ge=0)
    """Newest pages that browser_output_masking does not mask."""
    max_event_length: int = Field(default=10_000, ge=100)
    """Maximum characters of one event in a request for a summary."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = sorted({*get_args(Kind)} - {"pipeline"})
        if unknown := [name for name in self.pipeline if name not in known]:
            raise ValueError(f"pipeline: {unknown[0][:40]!r} is not a condenser; known: {', '.join(known)}")
        if self.keep_first >= max(1, self.max_size // 2):
            raise ValueError("keep_first must be less than half of max_size")
        return self

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the condensers, in order."""
        return self.pipeline if self.kind == "pipeline" else (self.kind,)
