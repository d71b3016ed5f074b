"""The routes to the agent's terminal, which V0 does not have: watch, type, resize, read outputs, list and end jobs.

They translate between HTTP and the BashSession. None of them waits for the running command or makes it wait.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import aclosing
from dataclasses import asdict

from aiohttp import web

from runtime.protocol import JSON_TYPE, NDJSON_TYPE, encode_frame
from runtime.server.bash_session import BashSession, NothingRunsError
from runtime.server.outputs import READ_BYTES, Output, OutputError
from runtime.server.processes import JobError, end_job, jobs
from runtime.server.request_guard import RefusedError, json_value, whole_body

MAX_ROWS = MAX_COLUMNS = 1000
"""V0's window; a terminal that is larger is a mistake."""
DEFAULT_LINES = 1000


class TerminalRoutes:
    """The routes to one BashSession."""

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
        return web.Response(body=body, content_type="application/octet-stream", headers=_about(output))

    async def _jobs(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(job) for job in await asyncio.to_thread(jobs)])

    async def _end_job(self, request: web.Request) -> web.Response:
        pid = int(request.match_info["pid"])
        try:
            await end_job(pid)
        except JobError as error:
            raise RefusedError(404, str(error)) from error
        return web.json_response({"pid": pid})


async def _keys(request: web.Request) -> bytes:
    """Return the keys to type: the raw body, or base64 in `data` of a JSON object. Raises RefusedError."""
    if request.content_type == JSON_TYPE:
        asked = await json_value(request)
        try:
            return base64.b64decode(asked["data"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise RefusedError(400, "the body must be a JSON object with base64 in 'data'") from error
    return await whole_body(request)


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise RefusedError(400, f"'{name}' must be a number that is not negative")
    return int(text)


def _about(output: Output) -> dict[str, str]:
    about = {"X-Output-Bytes": str(output.size_bytes), "X-Output-Lines": str(output.lines)}
    return about | ({"X-Output-Loss": output.loss} if output.loss else {})
