"""The definitions of MCP servers: the user's own in the settings, and those in the files of a workspace.

The files are `.mcp.json`, and those of editors, `.cursor/mcp.json` and `.vscode/mcp.json`, in their formats.

A definition contains everything needed to start a server except the values of variables. Definitions of a project are
untrusted: they are limited, shown completely before anything is started, and identified by a fingerprint, which
includes the files of the workspace that the command names. Reading blocks.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.environment import inherited
from core.llm.host_protocol import Line
from core.mcp.catalogue import clean_line, digest
from core.regular_files import open_bytes
from core.settings.sections import MCPServerSettings, MCPSettings, check_url
from core.trust.folder_reader import FolderReader, UnreadableError

FILE = ".mcp.json"
FILES = {FILE: "mcpServers", ".cursor/mcp.json": "mcpServers", ".vscode/mcp.json": "servers"}
"""The files in a workspace and the table with the servers; the first file wins. Sandboxed agents cannot write them."""
SEARCH, SEARCH_KEY = "tavily", "tvly-"
"""The search server's name, and how its keys begin. As in OpenHands V0, another key starts no server."""
SEARCH_COMMAND = ("npx", "-y", "tavily-mcp@0.2.1")
SEARCH_HOSTS = ("api.tavily.com",)
MAX_FILE_BYTES = 256 * 1024
MAX_SERVERS = 32
MAX_COMMAND_CHARS = 2_000
"""Limit for a project's command with its variables: users cannot review a longer one."""
MAX_HASHED_BYTES = 4 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+)*")
_EDITORS = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}|\$\{(workspaceFolder|input:[^}]*)\}")
"""Variables that editors replace."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FLOATING = {
    "npx": re.compile(r"(@[^@/]+/)?[^@/]+(@latest)?"),
    "bunx": re.compile(r"(@[^@/]+/)?[^@/]+(@latest)?"),
    "uvx": re.compile(r"[^@=<>]+(@latest)?"),
    "pipx": re.compile(r"[^@=<>]+"),
}
"""By package runner: matches a package without a fixed version."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """How to start a server or connect to it."""

    name: str
    folder: str = ""
    """The workspace that defines it; empty for the user's own servers."""
    command: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, whose values may refer to Handloom's environment as `${NAME}`."""
    url: str = ""
    transport: str = "stdio"
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers, with variables as in `environ`."""
    start_s: float = 30.0
    patience_s: float = 4.0
    timeout_s: float = 300.0
    sandbox_of: str = ""
    """The workspace in which a server of the user runs isolated; empty for one that runs on this machine."""
    conversation: str = ""
    """The conversation in whose sandbox it runs; empty for one with a sandbox of its own, or without any."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that it may access from its sandbox, besides those of the settings."""
    files: str = ""
    """Digests of the workspace's files that the command names."""

    @property
    def workspace(self) -> str:
        """The workspace to which it belongs; empty for one that all share."""
        return self.folder or self.sandbox_of

    @property
    def key(self) -> str:
        """Unique key among the servers of this process."""
        place = f"@{self.workspace}" if self.workspace else ""
        return f"{self.name}{place}#{self.conversation}" if self.conversation else f"{self.name}{place}"

    @property
    def is_isolated(self) -> bool:
        """Whether it is a program that runs in a sandbox."""
        return bool(self.workspace and self.command)

    @property
    def approval_key(self) -> str:
        """Key of its approvals: those of a user's server are the same in every workspace."""
        return f"{self.name}@{self.folder}" if self.folder else self.name

    @property
    def fingerprint(self) -> str:
        """A hash that changes with anything that would be run or contacted."""
        return digest([self.command, dict(self.environ), self.url, self.transport, dict(self.headers), self.files])

    @property
    def shown(self) -> str:
        """The complete shell command, or the address with its headers. Not cleaned, so that nothing is hidden."""
        pairs = self.headers if self.url else self.environ
        values = " ".join(f"{name}={shlex.quote(value)}" for name, value in pairs.items())
        return f"{self.url} {values}".strip() if self.url else f"{values} {shlex.join(self.command)}".strip()

    @property
    def floats(self) -> bool:
        """Whether it downloads a program without a fixed version."""
        pattern = _FLOATING.get(Path(self.command[0]).name) if self.command else None
        named = [part for part in self.command[1:] if not part.startswith("-") and part != "run"]
        return pattern is not None and bool(named) and pattern.fullmatch(named[0]) is not None

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return its own variables with their values. Raises ValueError if one is missing."""
        return {name: _fill(value, environ) for name, value in self.environ.items()}

    def order(self, environ: Mapping[str, str]) -> Line:
        """Return the order to connect it, with the values of variables. Raises ValueError if one is missing."""
        return {
            "type": "connect",
            "key": self.key,
            "transport": self.transport,
            "command": list(self.command),
            "environ": inherited(environ) | self.variables(environ),
            "folder": self.workspace or environ.get("HOME") or "/",
            "url": _fill(self.url, environ),
            "headers": {name: _fill(value, environ) for name, value in self.headers.items()},
            "start_s": self.start_s,
            "patience_s": self.patience_s,
            "timeout_s": self.timeout_s,
        }


def _fill(value: str, environ: Mapping[str, str]) -> str:
    """Replace the variables in a value. Raises ValueError if one is missing."""
    if missing := [name for name in _VARIABLE.findall(value) if name not in environ]:
        raise ValueError(f"The variable {missing[0]} is not set. Set it, and restart Handloom.")
    return _VARIABLE.sub(lambda found: environ[found[1]], value)


def of_user(settings: MCPSettings, folder: str, environ: Mapping[str, str]) -> list[ServerSpec]:
    """Return the user's own servers that are enabled, for a workspace, and the search server if there is a key for it.

    A server in the settings with the name of the search server takes its place.
    """
    found = [_of_settings(name, one, folder) for name, one in settings.servers.items() if one.enabled]
    key = settings.search_key_env
    if SEARCH not in settings.servers and environ.get(key, "").startswith(SEARCH_KEY):
        found.append(
            ServerSpec(
                name=SEARCH,
                command=SEARCH_COMMAND,
                environ={"TAVILY_API_KEY": f"${{{key}}}"},
                sandbox_of=folder,
                allowed_hosts=SEARCH_HOSTS,
            )
        )
    return found


def _of_settings(name: str, one: MCPServerSettings, folder: str) -> ServerSpec:
    prefix = "Bearer " if one.key_header.lower() == "authorization" else ""
    return ServerSpec(
        name=name,
        command=(one.command, *one.args) if one.command else (),
        environ={variable: f"${{{variable}}}" for variable in one.env},
        url=one.url,
        transport=one.transport or ("http" if one.url else "stdio"),
        headers={one.key_header: f"{prefix}${{{one.key_env}}}"} if one.key_env else {},
        sandbox_of=folder if one.command and one.sandbox else "",
        allowed_hosts=one.allowed_hosts,
        start_s=one.start_s,
        patience_s=one.patience_s,
        timeout_s=one.timeout_s,
    )


def of_project(folder: str) -> tuple[list[ServerSpec], list[str]]:
    """Return the servers in the files of a workspace, and a line for each problem. Blocks.

    If several files define the same server, the first one wins; a difference is one of the problems.
    """
    specs: dict[str, ServerSpec] = {}
    problems: list[str] = []
    for file, where in FILES.items():
        try:
            table = _table(folder, file, where)
        except (OSError, ValueError, RecursionError, UnreadableError) as error:
            problems.append(clean_line(f"{file} cannot be read: {error}", 200))
            continue
        for name, one in list(table.items())[: MAX_SERVERS - len(specs)]:
            try:
                spec = _of_file(str(name), one, folder)
            except (ValueError, TypeError) as error:
                problems.append(clean_line(f"{file}: {name}: {error}", 200))
                continue
            if specs.setdefault(spec.name, spec).fingerprint != spec.fingerprint:
                problems.append(f"{file}: {spec.name}: another file defines it differently and is used")
    return list(specs.values()), problems


def _table(folder: str, file: str, where: str) -> dict[str, Any]:
    """Read the table of servers from a file; empty if there is no file.

    Raises OSError, ValueError, RecursionError, UnreadableError.
    """
    try:
        with FolderReader(folder) as reader:
            data = reader.read(file, MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if data is None:
        return {}
    content = json.loads(data)
    table = content.get(where) if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise ValueError(f"it has no object {where}")
    return table


def _of_file(name: str, entry: Any, folder: str) -> ServerSpec:
    """Parse a server in the common format. Raises ValueError, TypeError."""
    if not _NAME.fullmatch(name) or len(name) > 32:
        raise ValueError("the name of a server has letters, digits, - and _, at most 32")
    if not isinstance(entry, dict):
        raise TypeError("it is not an object")
    entry = _filled(entry, folder)
    url, command = entry.get("url") or "", entry.get("command") or ""
    if bool(url) == bool(command):
        raise ValueError("it must have either a command or a url")
    check_url(url)
    parts = [str(command), *map(_text, entry.get("args") or [])] if command else []
    kind = str(entry.get("type") or entry.get("transport"))
    transport = "stdio" if not url else "sse" if kind == "sse" else "http"
    spec = ServerSpec(
        name=name,
        folder=folder,
        command=tuple(parts),
        environ=_texts(entry.get("env")),
        url=url,
        transport=transport,
        headers=_texts(entry.get("headers")),
        files=digest(list(_hashes(parts, Path(folder)))),
    )
    if len(spec.shown) > MAX_COMMAND_CHARS or "\0" in "".join(parts):
        raise ValueError("its command is too long to review")
    return spec


def _filled(value: Any, folder: str) -> Any:
    """Convert an editor's variables to ours. Raises ValueError for variables for which editors ask the user."""
    match value:
        case str():
            return _EDITORS.sub(lambda found: _as_ours(found, folder), value)
        case list():
            return [_filled(item, folder) for item in value]
        case dict():
            return {key: _filled(item, folder) for key, item in value.items()}
        case _:
            return value


def _as_ours(found: re.Match[str], folder: str) -> str:
    if found[1]:
        return f"${{{found[1]}}}"
    if found[2] == "workspaceFolder":
        return folder
    raise ValueError(f"only an editor can fill in {found[0][:60]}. Use an environment variable in {FILE} instead")


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value or {}, dict):
        raise TypeError("env and headers must be objects")
    return {_text(name): _text(text) for name, text in (value or {}).items()}


def _text(value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise TypeError("arguments and values must be texts")
    return str(value)


def _hashes(command: list[str], folder: Path) -> Iterator[str]:
    """Return the digest of each workspace file that the command names."""
    for part in command:
        path = folder / part
        try:
            real = path.resolve()
            if real.is_relative_to(folder.resolve()):
                with open_bytes(real, follow=False) as file:
                    yield f"{part} {hashlib.sha256(file.read(MAX_HASHED_BYTES)).hexdigest()}"
        except (OSError, ValueError):
            continue
