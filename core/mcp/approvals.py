"""Approvals: the commands of project servers and the tools of all servers that the user has approved.

Stored in `mcp.json` in the home folder. A project's server is only started while its fingerprint is the approved one,
and a tool is only offered while its hash is. A user's own server needs no approval, so its first list of tools is
approved automatically; so is that of a project's server right after the approval of its command. All methods block. The
file is written atomically.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from core.llm.host_protocol import Line
from core.mcp.server_definitions import ServerSpec
from core.regular_files import read_bytes, write_private

NAME = "mcp.json"
VERSION = 1
KEPT_CHARS = 1_000
"""How much of a description is stored, to show what has changed."""


class Approvals:
    """The approvals in one home folder."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def is_approved(self, spec: ServerSpec) -> bool:
        """Whether exactly this command may be started. Raises ConfigurationError."""
        return not spec.folder or self._entry(self._read(), spec).get("agreed") is True

    def was_approved(self, spec: ServerSpec) -> bool:
        """Whether another command was approved for a server of this name. Raises ConfigurationError."""
        return bool(self._read().get(spec.approval_key, {}).get("agreed"))

    def approve(self, spec: ServerSpec) -> None:
        """Approve exactly this command; the tools that it then has are approved too. Raises ConfigurationError."""
        self._change(spec, {"agreed": True})

    def forget(self, spec: ServerSpec) -> None:
        """Delete all approvals for a server. Raises ConfigurationError."""
        servers = self._read()
        servers.pop(spec.approval_key, None)
        self._write(servers)

    def forget_folder(self, folder: str) -> None:
        """Delete all approvals for the servers of a workspace. Raises ConfigurationError."""
        servers = self._read()
        kept = {key: entry for key, entry in servers.items() if not key.endswith(f"@{folder}")}
        if len(kept) < len(servers):
            self._write(kept)

    def approved_tools(self, spec: ServerSpec) -> dict[str, Mapping[str, str]] | None:
        """Return the approved tools by name, each with `hash` and `about`; None if none were ever approved.

        Raises ConfigurationError.
        """
        tools = self._entry(self._read(), spec).get("tools")
        return tools if isinstance(tools, dict) else None

    def approve_tools(self, spec: ServerSpec, tools: Sequence[Line]) -> None:
        """Replace the approved tools by these. Raises ConfigurationError."""
        kept = {tool["name"]: {"hash": tool["hash"], "about": tool["about"][:KEPT_CHARS]} for tool in tools}
        self._change(spec, {"tools": kept})

    def _entry(self, servers: Mapping[str, Any], spec: ServerSpec) -> dict[str, Any]:
        """Return the entry of a server, or {} if its command is different."""
        entry = servers.get(spec.approval_key)
        if not isinstance(entry, dict) or entry.get("fingerprint") != spec.fingerprint:
            return {}
        return entry

    def _change(self, spec: ServerSpec, update: Mapping[str, Any]) -> None:
        servers = self._read()
        servers[spec.approval_key] = {**self._entry(servers, spec), "fingerprint": spec.fingerprint, **update}
        self._write(servers)

    def _read(self) -> dict[str, Any]:
        path = self._home / NAME
        try:
            stored = json.loads(read_bytes(path))
            servers = stored["servers"]
            if stored["version"] != VERSION or not all(isinstance(entry, dict) for entry in servers.values()):
                raise ValueError("it has another version")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            text = f"{path} cannot be read: {error}. Move it away; then servers of projects need your approval again."
            raise ConfigurationError(text) from error
        return dict(servers)

    def _write(self, servers: Mapping[str, Any]) -> None:
        path = self._home / NAME
        try:
            write_private(path, json.dumps({"version": VERSION, "servers": servers}, indent=1))
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {error}. Make room, and try again.") from error
