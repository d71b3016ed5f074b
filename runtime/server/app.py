"""The routes of the action server. They translate between HTTP and the ActionExecutor, and decide nothing.

Closing a request cancels its handler, which is the interrupt. Frames are written as they come, and the
write waits while the reader is slow: so a fast command is slowed down by the kernel instead of filling our
memory.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from core.events import Frame
from runtime.protocol import (
    JSON_TYPE,
    MAX_REQUEST_BYTES,
    NDJSON_TYPE,
    PROTOCOL_VERSION,
    ProtocolError,
    decode_request,
    encode_frame,
    encode_observation,
)
from runtime.server import resources
from runtime.server.executor import ActionExecutor
from runtime.server.guard import Guard, Handler

BODY_TIMEOUT_S = 30.0
"""For a body of at most 8 MiB; who takes longer holds a connection for nothing."""


class ActionServer:
    """The application and what its routes need."""

    def __init__(self, executor: ActionExecutor, guard: Guard, working_dir: str) -> None:
        self._executor = executor
        self._working_dir = working_dir

        @web.middleware
        async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await guard.admit(request, handler)

        self.app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=[admit])
        self.app.add_routes(
            [
                web.get("/alive", self._alive),
                web.get("/server_info", self._server_info),
                web.post("/execute_action", self._execute_action),
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
                "resources": resources.usage(self._working_dir, uptime_s),
                "sandbox": resources.of_all(),
                "protocol_version": PROTOCOL_VERSION,
            }
        )

    async def _execute_action(self, request: web.Request) -> web.StreamResponse:
        if request.content_type != JSON_TYPE:
            return web.json_response({"detail": f"the body is {JSON_TYPE}"}, status=415)
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                action, action_id = decode_request(await request.read())
        except TimeoutError:
            return web.json_response({"detail": "the body did not arrive in time"}, status=408)
        except ProtocolError as error:
            return web.json_response({"detail": str(error)}, status=400)
        if NDJSON_TYPE not in request.headers.get("Accept", ""):
            observation = await self._executor.execute(action, action_id, _discard)
            return web.Response(body=encode_observation(observation), content_type=JSON_TYPE)
        response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE})
        await response.prepare(request)

        async def emit(frame: Frame) -> None:
            await response.write(encode_frame(frame) + b"\n")

        observation = await self._executor.execute(action, action_id, emit)
        await response.write_eof(encode_observation(observation) + b"\n")
        return response


async def _discard(frame: Frame) -> None:
    """For callers that want the observation alone."""
