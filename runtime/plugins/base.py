"""The protocol of a plugin, and the context that it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aiohttp import web

from runtime.server.action_executor import Table
from runtime.server.outputs import Outputs


class Plugin(Protocol):
    """Carries out actions, and is started and ended with the action server."""

    @property
    def table(self) -> Table:
        """The handlers by action type, complete before `start`. They are only called after `start` has returned."""
        ...

    @property
    def routes(self) -> Sequence[web.RouteDef]:
        """HTTP routes of the plugin. They are served before `start` has returned."""
        ...

    async def start(self) -> None:
        """Prepare to carry out actions. If it raises, its actions are answered with the error.

        May be called again after it raised. Cancelling ends whatever was started.
        """
        ...

    async def aclose(self) -> None:
        """End the plugin and its processes within two seconds. May be called without `start`, and twice."""
        ...


@dataclass(frozen=True, slots=True)
class PluginContext:
    """The sandbox in which a plugin works, as the action server sees it."""

    working_dir: str
    folder: Path
    """A private folder, removed with the server. Its path is short enough for the paths of sockets."""
    cwd: Callable[[], str]
    """Returns the current folder of the agent's shell."""
    environ: Mapping[str, str]
    """The environment of the agent's programs; names the proxy if there is one."""
    umask: int = 0o022
    """The umask of the agent's programs."""
    outputs: Outputs = field(default_factory=Outputs)
    """Stores the complete output of programs."""
    data: Path | None = None
    """The session's data folder, which outlives the server, or None."""
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    """The required plugins by name. They are ready when this plugin is started."""
