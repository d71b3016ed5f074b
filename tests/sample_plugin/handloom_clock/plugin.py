"""Carries the action out, in the sandbox."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from aiohttp import web

from core.events import ErrorObservation, Observation
from handloom_clock.events import TellTimeAction, TimeObservation
from runtime.plugins.base import PluginContext
from runtime.server.action_executor import Emit, Table


class ClockPlugin:
    """Knows the zones of the machine it runs on."""

    routes: Sequence[web.RouteDef] = ()

    def __init__(self, context: PluginContext) -> None:
        self.table: Table = {TellTimeAction: self._tell}

    async def start(self) -> None:
        """Nothing has to be started."""

    async def aclose(self) -> None:
        """Nothing has to be ended."""

    async def _tell(self, action: TellTimeAction, action_id: int, emit: Emit) -> Observation:
        try:
            now = datetime.now(ZoneInfo(action.zone))
        except (ZoneInfoNotFoundError, ValueError):
            return ErrorObservation(content=f"There is no time zone {action.zone!r}. Try Europe/Berlin.")
        return TimeObservation(content=now.isoformat(timespec="seconds"), zone=action.zone)
