"""The routes of the action server. They translate between HTTP and the ActionExecutor or the BashSession.

Closing a request cancels its handler, which interrupts the action; `answer_cache` has the requests that outlast their
connection. Frames are written as they come, and the write waits while the reader is slow, so a fast command is slowed
down by the kernel instead of filling memory. `/server_info` reports resource usage in the form of V0 and, in addition,
for the whole sandbox; numbers that are not available are 0.

TerminalRoutes are routes that V0 does not have: watch, type, resize, read outputs, list and end jobs, change variables.
None of them waits for the running command or makes it wait.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web

from core.events import Action, Frame
from core.secrets.command_secrets import injecting
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
from runtime.sandbox_facts import MAX_OUTPUT_BYTES, WITH_STATE, run_script
from runtime.server import processes
from runtime.server.action_executor import ActionExecutor
from runtime.server.answer_cache import TIMES, AnswerCache, Times
from runtime.server.bash_session import BashSession, NothingRunsError
from runtime.server.lease import Lease
from runtime.server.outputs import READ_BYTES, Output, OutputError
from runtime.server.processes import JobError, end_job, jobs
from runtime.server.request_guard import (
    Handler,
    Identity,
    RefusedError,
    RequestGuard,
    json_body,
    json_value,
    whole_body,
)
from runtime.server.transfers import TransferRoutes

EDITOR_PATH = "/vscode/connection_token"
"""This route also answers when there is no editor."""


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
        lease: Lease | None = None,
        web_hosts: Mapping[str, int] = MappingProxyType({}),
        git: Mapping[str, int | str] = MappingProxyType({}),
    ) -> None:
        self._executor = executor
        self._working_dir = working_dir
        self._web_hosts = dict(web_hosts)
        self._git = dict(git)
        self._answers = AnswerCache(executor.execute, times)

        @web.middleware
        async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await guard.admit(request, handler)
            except RefusedError as refused:
                return refused.answer()

        routes = list(routes)
        if not any(route.path == EDITOR_PATH for route in routes):
            routes.append(web.get(EDITOR_PATH, _no_editor))
        identity, lease = Identity(), lease or Lease()
        middlewares = [admit, identity.check, lease.check]
        self.app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=middlewares)
        self.app.on_response_prepare.append(identity.sign)
        self.app.on_shutdown.append(lambda app: self._answers.aclose())
        self.app.add_routes(
            [
                web.get("/alive", self._alive),
                web.get("/server_info", self._server_info),
                web.get("/facts", self._facts, allow_head=False),
                web.post("/execute_action", self._execute_action),
                *lease.table,
                *self._answers.table,
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
                "sandbox": {**sandbox_usage(), "memory_history": self._executor.memory_history},
                "protocol_version": PROTOCOL_VERSION,
                "working_dir": self._working_dir,
                **({"web_hosts": self._web_hosts} if self._web_hosts else {}),
                **({"git": self._git} if self._git else {}),
            }
        )

    async def _facts(self, request: web.Request) -> web.Response:
        """Return what `runtime.sandbox_facts` finds, one line each."""
        environ = {**os.environ, **WITH_STATE}
        try:
            body = await asyncio.to_thread(run_script, (), folder=self._working_dir, environ=environ)
        except OSError as error:
            raise RefusedError(500, str(error)) from error
        return web.Response(body=body[:MAX_OUTPUT_BYTES])

    async def _execute_action(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await json_body(request)
            (action, action_id), values = decode_request(body), decode_secrets(body)
        except ProtocolError as error:
            raise RefusedError(400, str(error)) from error
        with injecting(values):
            return await self._execute(request, action, action_id)

    async def _execute(self, request: web.Request, action: Action, action_id: int) -> web.StreamResponse:
        if RESUME_HEADER in request.headers:
            return await self._answers.answer(request, action, action_id)
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


async def _no_editor(request: web.Request) -> web.Response:
    return web.json_response({"token": None})


async def _discard(frame: Frame) -> None:
    """Ignore a frame, for callers that want only the observation."""


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
    """Return processes, memory in bytes, CPU seconds and OOM kills of the server and its descendants."""
    pids = {os.getpid(), *processes.descendants(os.getpid())}
    cpu_s = 0.0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]  # includes ended children
            cpu_s += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    usage = {"processes": len(pids), "memory": processes.memory_bytes(pids), "cpu_seconds": round(cpu_s, 2)}
    return {**usage, "oom_kills": cgroups.own_kills()}


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


MAX_ROWS = MAX_COLUMNS = 1000
"""V0's window; a terminal that is larger is a mistake."""
DEFAULT_LINES = 1000


class TerminalRoutes:
    """The routes to the terminal of one BashSession."""

    def __init__(self, bash: BashSession) -> None:
        self._bash = bash
        self.table = [
            web.post("/terminal/input", self._input),
            web.post("/terminal/resize", self._resize),
            web.post("/terminal/give_back", self._give_back),
            web.get("/terminal/stream", self._stream, allow_head=False),
            web.get(r"/outputs/{number:\d{1,9}}", self._output, allow_head=False),
            web.get("/jobs", self._jobs, allow_head=False),
            web.delete(r"/jobs/{pid:\d{1,9}}", self._end_job),
            web.post("/environment", self._change_environment),
        ]

    async def _input(self, request: web.Request) -> web.Response:
        keys = await _keys(request)
        try:
            self._bash.type(keys)
        except NothingRunsError as error:
            raise RefusedError(409, str(error)) from error
        except ValueError as error:
            raise RefusedError(413, str(error)) from error
        return web.json_response({"accepted_bytes": len(keys)})

    async def _resize(self, request: web.Request) -> web.Response:
        size = await json_value(request)
        rows, columns = (size.get("rows"), size.get("columns")) if isinstance(size, dict) else (None, None)
        if type(rows) is not int or type(columns) is not int:
            raise RefusedError(400, "the body must be a JSON object with integers 'rows' and 'columns'")
        if not (0 < rows <= MAX_ROWS and 0 < columns <= MAX_COLUMNS):
            raise RefusedError(400, f"'rows' and 'columns' must be from 1 to {MAX_ROWS}")
        self._bash.resize(rows, columns)
        return web.json_response({"rows": rows, "columns": columns})

    async def _give_back(self, request: web.Request) -> web.Response:
        self._bash.give_back()
        return web.json_response({})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE})
        await response.prepare(request)
        async with aclosing(self._bash.viewers.watch()) as frames:
            async for frame in frames:
                await response.write(encode_frame(frame) + b"\n")
        await response.write_eof()
        return response

    async def _output(self, request: web.Request) -> web.Response:
        """Return bytes from `offset`, or whole lines from `line`; the total size is in the headers."""
        by_line = "line" in request.query or "lines" in request.query
        if by_line and ("offset" in request.query or "limit" in request.query):
            raise RefusedError(400, "use either 'offset' and 'limit', or 'line' and 'lines'")
        try:
            output = self._bash.outputs.find(int(request.match_info["number"]))
            if by_line:
                line, lines = _number(request, "line", 1), _number(request, "lines", DEFAULT_LINES)
                body = await asyncio.to_thread(output.read_lines, max(line, 1), lines)
            else:
                offset, limit = _number(request, "offset", 0), _number(request, "limit", READ_BYTES)
                body = await asyncio.to_thread(output.read, offset, limit)
        except OutputError as error:
            raise RefusedError(404, str(error)) from error
        return web.Response(body=body, content_type="application/octet-stream", headers=_output_headers(output))

    async def _jobs(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(job) for job in await asyncio.to_thread(jobs)])

    async def _end_job(self, request: web.Request) -> web.Response:
        pid = int(request.match_info["pid"])
        try:
            await end_job(pid)
        except JobError as error:
            raise RefusedError(404, str(error)) from error
        return web.json_response({"pid": pid})

    async def _change_environment(self, request: web.Request) -> web.Response:
        """Change the variables of the agent's programs; null removes one."""
        body = await json_value(request)
        variables = body.get("variables") if isinstance(body, dict) else None
        if not isinstance(variables, dict) or not all(isinstance(value, str | None) for value in variables.values()):
            raise RefusedError(400, "the body must be a JSON object with an object 'variables' of strings and nulls")
        try:
            self._bash.environment.change(variables)
        except ValueError as error:
            raise RefusedError(400, str(error)) from error
        return web.json_response({"variables": len(variables)})


async def _keys(request: web.Request) -> bytes:
    """Return the keys to type: the raw body, or base64 in `data` of a JSON object. Raises RefusedError."""
    if request.content_type == JSON_TYPE:
        body = await json_value(request)
        try:
            return base64.b64decode(body["data"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise RefusedError(400, "the body must be a JSON object with base64 in 'data'") from error
    return await whole_body(request)


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise RefusedError(400, f"'{name}' must be a number that is not negative")
    return int(text)


def _output_headers(output: Output) -> dict[str, str]:
    headers = {"X-Output-Bytes": str(output.size_bytes), "X-Output-Lines": str(output.lines)}
    return headers | ({"X-Output-Loss": output.loss} if output.loss else {})
