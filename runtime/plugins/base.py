"""What a plugin is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aiohttp import web

from runtime.server.action_executor import Table
from runtime.server.outputs import Outputs


class Plugin(Protocol):
    """Something that carries out actions, and is started and ended with the server."""

    @property
    def table(self) -> Table:
        """Its rows; complete before `start`. A handler is called only after `start` has returned."""
        ...

    @property
    def routes(self) -> Sequence[web.RouteDef]:
        """Its own routes, which are there from the start and say themselves what they cannot do yet."""
        ...

    async def start(self) -> None:
        """Make it ready. Raises what keeps it from that, which is then the answer to its actions.

        May be called again after it raised. Cancelling ends what was started.
        """
        ...

    async def aclose(self) -> None:
        """End it and everything that it started, within two seconds. May be called without `start`, and twice."""
        ...


@dataclass(frozen=True, slots=True)
class PluginContext:
    """Where a plugin works: the sandbox, seen from the action server."""

    working_dir: str
    folder: Path
    """Private to the server, removed with it, and short enough for the paths of sockets."""
    cwd: Callable[[], str]
    """Where the agent's shell is at this moment."""
    environ: Mapping[str, str]
    """What programs of the agent are started with; names the proxy where there is one."""
    umask: int = 0o022
    """For what the agent's programs make."""
    outputs: Outputs = field(default_factory=Outputs)
    """Where what programs print is kept whole."""
    data: Path | None = None
    """The session's own data folder, which outlasts the server; None where nothing does."""
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    """Those that it needs, by name; ready when it is started."""
