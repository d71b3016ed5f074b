"""PluginStartup: starts the plugins in order while the server already runs.

The server accepts actions immediately. An action waits until its plugin is ready, and gets an error observation if the
plugin cannot be started. The next action tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from aiohttp import web

from core.events import Action, ErrorObservation, Observation, Status
from core.plugin_requirements import PluginRequirement, load
from runtime.plugins.base import Plugin, PluginContext
from runtime.server.action_executor import Emit, Handler, Table

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
        return [self._waiting(name, plugin.table) for name, plugin in self.plugins.items()]

    @property
    def routes(self) -> list[web.RouteDef]:
        return list(chain.from_iterable(plugin.routes for plugin in self.plugins.values()))

    def begin(self) -> None:
        """Start all plugins without waiting."""
        for name in self.plugins:
            self._begin(name)

    async def ready(self, name: str) -> None:
        """Start a plugin if needed and wait until it is ready. Raises the error of its start.

        Cancelling does not cancel the start.
        """
        await asyncio.shield(self._begin(name))

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

    def _begin(self, name: str) -> asyncio.Task[None]:
        start = self._starts.get(name)
        if start is None or (start.done() and (start.cancelled() or start.exception() is not None)):
            start = self._starts[name] = asyncio.create_task(self._start(name), name=f"start {name}")
            start.add_done_callback(_retrieved)
        return start

    async def _start(self, name: str) -> None:
        for needed in self._needs[name]:
            await asyncio.shield(self._begin(needed))
        async with asyncio.timeout(START_TIMEOUT_S):
            await self.plugins[name].start()

    def _waiting(self, name: str, table: Table) -> Mapping[type[Action], Handler]:
        return {action: self._after_start(name, handler) for action, handler in table.items()}

    def _after_start(self, name: str, handler: Handler) -> Handler:
        async def carry_out(action: Action, action_id: int, emit: Emit) -> Observation:
            start = self._begin(name)
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


def _retrieved(start: asyncio.Task[None]) -> None:
    if not start.cancelled() and (error := start.exception()) is not None:
        log.warning("%s failed: %s", start.get_name(), _described(error))


def _described(error: BaseException | None) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"it was not ready after {START_TIMEOUT_S:.0f} s"
    return str(error).rstrip(".") or type(error).__name__
