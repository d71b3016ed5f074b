"""The routes of the action server. They translate between HTTP and the ActionExecutor.

Closing a request cancels its handler, which interrupts the action; `answer_cache` has the requests that outlast their
connection. Frames are written as they come, and the write waits while the reader is slow, so a fast command is slowed
down by the kernel instead of filling memory. `/server_info` reports resource usage in the form of V0 and, in addition,
for the whole sandbox; numbers that are not available are 0.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web

from core.events import Action, Frame
from core.secrets.command_secrets import lending
from runtime.isolation import cgroups
from runtime.protocol import (
    JSON_TYPE,
    MAX_REQUEST_BYTES,
    NDJSON_TYPE,
    PROTOCOL_VERSION,
    RESUME_HEADER,
    VERSION_HEADER,
    ProtocolError,
    decode_request,
    decode_secrets,
    encode_frame,
    encode_observation,
)
from runtime.server import processes
from runtime.server.action_executor import ActionExecutor
from runtime.server.answer_cache import TIMES, AnswerRoutes, Times
from runtime.server.lease import Lease
from runtime.server.request_guard import Handler, Identity, RefusedError, RequestGuard, json_body, json_value
from runtime.server.transfers import TransferRoutes

EDITOR_PATH = "/vscode/connection_token"
"""This route also answers when there is no editor."""
MCP_NOT_RUN = "MCP servers are stored but not started: this server has no proxy."


class ActionServer:
    """The aiohttp application with its routes."""

    def __init__(
        self,
        executor: ActionExecutor,
        guard: RequestGuard,
        working_dir: str,
        umask: int = 0o022,
        *,
        routes: Iterable[web.RouteDef] = (),
        times: Times = TIMES,
        ownership: Lease | None = None,
        web_hosts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.stdio_servers: list[dict[str, Any]] = []
        """The MCP servers that a client wants to run here, as last sent."""
        self._executor = executor
        self._working_dir = working_dir
        self._web_hosts = dict(web_hosts)
        self._kept = AnswerRoutes(executor.execute, times)

        @web.middleware
        async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await guard.admit(request, handler)
            except RefusedError as refused:
                return refused.answer()

        routes = list(routes)
        if not any(route.path == EDITOR_PATH for route in routes):
            routes.append(web.get(EDITOR_PATH, _no_editor))
        identity, ownership = Identity(), ownership or Lease()
        middlewares = [admit, identity.check, ownership.check]
        self.app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=middlewares)
        self.app.on_response_prepare.append(identity.sign)
        self.app.on_shutdown.append(lambda app: self._kept.aclose())
        self.app.add_routes(
            [
                web.get("/alive", self._alive),
                web.get("/server_info", self._server_info),
                web.post("/execute_action", self._execute_action),
                web.post("/update_mcp_server", self._update_mcp_server),
                *ownership.table,
                *self._kept.table,
                *TransferRoutes(working_dir, umask).table,
                *routes,
            ]
        )

    async def _alive(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _server_info(self, request: web.Request) -> web.Response:
        uptime_s = self._executor.uptime_s
        return web.json_response(
            {
                "uptime": uptime_s,
                "idle_time": self._executor.idle_s,
                "resources": server_usage(self._working_dir, uptime_s),
                "sandbox": sandbox_usage(),
                "protocol_version": PROTOCOL_VERSION,
                "working_dir": self._working_dir,
                **({"web_hosts": self._web_hosts} if self._web_hosts else {}),
            }
        )

    async def _execute_action(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await json_body(request)
            (action, action_id), values = decode_request(body), decode_secrets(body)
        except ProtocolError as error:
            raise RefusedError(400, str(error)) from error
        with lending(values):
            return await self._carry_out(request, action, action_id)

    async def _carry_out(self, request: web.Request, action: Action, action_id: int) -> web.StreamResponse:
        if RESUME_HEADER in request.headers:
            return await self._kept.answer(request, action, action_id)
        is_v0 = VERSION_HEADER not in request.headers
        if NDJSON_TYPE not in request.headers.get("Accept", ""):
            observation = await self._executor.execute(action, action_id, _discard)
            return web.Response(body=encode_observation(observation, is_for_v0=is_v0), content_type=JSON_TYPE)
        response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE})
        await response.prepare(request)

        async def emit(frame: Frame) -> None:
            await response.write(encode_frame(frame) + b"\n")

        observation = await self._executor.execute(action, action_id, emit)
        await response.write_eof(encode_observation(observation, is_for_v0=is_v0) + b"\n")
        return response

    async def _update_mcp_server(self, request: web.Request) -> web.Response:
        servers = await json_value(request)
        if not isinstance(servers, list):
            raise RefusedError(400, "Request must be a list of MCP tools to sync")  # V0's words
        if not all(isinstance(server, dict) and "name" in server and "command" in server for server in servers):
            raise RefusedError(400, "each MCP tool is an object with 'name' and 'command'")
        self.stdio_servers = servers
        said = MCP_NOT_RUN if servers else ""
        return web.json_response({"detail": "MCP server updated successfully", "router_error_log": said})


async def _no_editor(request: web.Request) -> web.Response:
    return web.json_response({"token": None})


async def _discard(frame: Frame) -> None:
    """Drop a frame, for callers that want only the observation."""


def server_usage(working_dir: str, uptime_s: float) -> dict[str, Any]:
    """Return the server's CPU in percent of its lifetime, memory and disk in bytes, and bytes read and written."""
    rss, vms = _memory()
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    disk = shutil.disk_usage(working_dir)
    read, written = _io()
    return {
        "cpu_percent": round(100 * time.process_time() / max(uptime_s, 0.001), 1),
        "memory": {"rss": rss, "vms": vms, "percent": round(100 * rss / total, 2)},
        "disk": {
            "total": disk.total,
            "used": disk.used,
            "free": disk.free,
            "percent": round(100 * disk.used / max(disk.total, 1), 1),
        },
        "io": {"read_bytes": read, "write_bytes": written},
    }


def sandbox_usage() -> dict[str, Any]:
    """Return the processes, memory in bytes and CPU seconds of the server and its descendants, and the number of OOM
    kills.
    """
    pids = {os.getpid(), *processes.descendants(os.getpid())}
    memory, cpu_s = 0, 0.0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]  # includes ended children
            cpu_s += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    kills = cgroups.own_kills()
    return {"processes": len(pids), "memory": memory, "cpu_seconds": round(cpu_s, 2), "oom_kills": kills}


def _memory() -> tuple[int, int]:
    try:
        size, resident = Path("/proc/self/statm").read_text().split()[:2]
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1024), 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(resident) * page, int(size) * page


def _io() -> tuple[int, int]:
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0, 0
    fields = dict(line.split(": ") for line in lines)
    return int(fields["read_bytes"]), int(fields["write_bytes"])
