"""The protocol of a plugin, the context that it gets, and PluginStartup, which starts the plugins of a server.

The server accepts actions while plugins are started. An action waits until its plugin is ready, and gets an error
observation if the plugin cannot be started. The next action tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Protocol

from aiohttp import web

from core.events import Action, ErrorObservation, Observation, Status
from core.plugin_requirements import PluginRequirement, load
from runtime.server.action_executor import Emit, Handler, Table
from runtime.server.outputs import Outputs
from runtime.server.shell import Environment


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
    environ: Environment
    """The environment of the agent's programs; names the proxy if there is one."""
    umask: int = 0o022
    """The umask of the agent's programs."""
    outputs: Outputs = field(default_factory=Outputs)
    """Stores the complete output of programs."""
    data: Path | None = None
    """The session's data folder, which outlives the server, or None."""
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    """The required plugins by name. They are ready when this plugin is started."""


log = logging.getLogger(__name__)

STARTING = "STATUS$PLUGIN_STARTING"
"""Id of the status message while an action waits for its plugin."""
START_TIMEOUT_S = 60.0


class PluginStartup:
    """The plugins of one server. The constructor imports their code. Raises PluginError, and ValueError as `merge`."""

    def __init__(self, requirements: Sequence[PluginRequirement], context: PluginContext) -> None:
        self.plugins: dict[str, Plugin] = {}
        self._needs = {requirement.name: requirement.needs for requirement in requirements}
        self._starts: dict[str, asyncio.Task[None]] = {}
        for requirement in requirements:
            needed = {name: self.plugins[name] for name in requirement.needs}
            self.plugins[requirement.name] = load(requirement, requirement.make)(replace(context, plugins=needed))

    @property
    def tables(self) -> list[Table]:
        """The handlers of all plugins, which wait until their plugin is ready."""
        return [
            {action: self._after_start(name, handler) for action, handler in plugin.table.items()}
            for name, plugin in self.plugins.items()
        ]

    @property
    def routes(self) -> list[web.RouteDef]:
        return list(chain.from_iterable(plugin.routes for plugin in self.plugins.values()))

    def start_all(self) -> None:
        """Start all plugins without waiting."""
        for name in self.plugins:
            self._start_once(name)

    async def aclose(self) -> None:
        """End all plugins, dependents first."""
        starts = list(self._starts.values())
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        for name, plugin in reversed(self.plugins.items()):
            try:
                await plugin.aclose()
            except Exception:  # boundary to third-party code; the other plugins must end too
                log.exception("the plugin %s failed to end", name)

    def _start_once(self, name: str) -> asyncio.Task[None]:
        start = self._starts.get(name)
        if start is None or (start.done() and (start.cancelled() or start.exception() is not None)):
            start = self._starts[name] = asyncio.create_task(self._start(name), name=f"start {name}")
            start.add_done_callback(_log_failure)
        return start

    async def _start(self, name: str) -> None:
        for needed in self._needs[name]:
            await asyncio.shield(self._start_once(needed))
        async with asyncio.timeout(START_TIMEOUT_S):
            await self.plugins[name].start()

    def _after_start(self, name: str, handler: Handler) -> Handler:
        async def carry_out(action: Action, action_id: int, emit: Emit) -> Observation:
            start = self._start_once(name)
            if not start.done():
                await emit(Status("info", STARTING, f"Starting {name}…"))
                try:
                    await asyncio.wait([start])
                finally:
                    await emit(Status("info", STARTING, ""))
            if start.cancelled() or (error := start.exception()) is not None:
                why = "it was ended" if start.cancelled() else _described(error)
                return ErrorObservation(
                    content=f"The plugin {name} could not be started: {why}. Do it another way, or try again."
                )
            return await handler(action, action_id, emit)

        return carry_out


def _log_failure(start: asyncio.Task[None]) -> None:
    if not start.cancelled() and (error := start.exception()) is not None:
        log.warning("%s failed: %s", start.get_name(), _described(error))


def _described(error: BaseException | None) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"it was not ready after {START_TIMEOUT_S:.0f} s"
    return str(error).rstrip(".") or type(error).__name__
