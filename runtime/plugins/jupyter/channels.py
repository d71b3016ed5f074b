"""The messages of one kernel, by jupyter_client's asynchronous client. Loads zmq: imported in a thread, at the start.

The shell channel takes a request and gives its reply; the iopub channel tells what happens meanwhile and, at last, that
the kernel is idle again. A cell is over when both have said so: the reply can overtake what the cell printed. Messages
that are not signed with the kernel's key, or come twice, are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import KernelConnectionInfo

from runtime.plugins.jupyter.cell_output import Message

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A larger one is refused with its connection; the kernel's program sends none."""
IDLE_WITHIN_S = 5.0
"""After the reply, with nothing said in between; then the kernel's word for the end is lost, whoever took it."""
REPLY_WITHIN_S = 1.0
"""After the kernel said that it is idle. An interrupt before the first line of a cell ends it without a reply, for
ipykernel catches that outside of the cell."""
UNANSWERED = {"status": "error", "ename": "KeyboardInterrupt", "evalue": ""}
MESSAGES_PER_TURN = 32
"""Then the loop serves others."""

Take = Callable[[Message, bool], Awaitable[None]]
"""Takes one message, with whether it belongs to the request; more come when it returns."""


class Channels:
    """Connected to one kernel. Belongs to the running loop."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        context.setsockopt(zmq.SNDTIMEO, 0)
        self.dropped = 0
        """Messages that were not the kernel's."""
        self._client = AsyncKernelClient(context=context)
        self._client.load_connection_info(cast(KernelConnectionInfo, connection))
        self._client.start_channels(stdin=False, hb=False, control=False)
        self._shell, self._iopub = self._client.shell_channel.socket, self._client.iopub_channel.socket

    async def subscribed(self) -> None:
        """Wait until the kernel tells us what happens. Nothing that happens later is missed."""
        while True:
            message = self._read(await self._iopub.recv_multipart())
            if message is not None and message["msg_type"] == "iopub_welcome":
                return

    async def execute(self, code: str, take: Take, *, silent: bool = False) -> Message:
        """Have code executed; the content of the reply, or UNANSWERED. Cancelling stops the listening, not the kernel.

        Raises zmq.Again where the kernel takes no more requests.
        """
        request = self._client.execute(code, silent=silent, store_history=False, allow_stdin=False)
        reply = asyncio.create_task(self._reply(request), name="reply of the kernel")
        try:
            count = 0
            while (parts := await self._published(reply)) is not None:
                message = self._read(parts)
                if message is None:
                    continue
                is_mine = message["parent_header"].get("msg_id") == request
                if is_mine and message["msg_type"] == "status":
                    if message["content"].get("execution_state") == "idle":
                        break
                    continue
                await take(message, is_mine)
                count += 1
                if count % MESSAGES_PER_TURN == 0:
                    await asyncio.sleep(0)
            await asyncio.wait({reply}, timeout=REPLY_WITHIN_S)
            return reply.result() if reply.done() else dict(UNANSWERED)
        finally:
            reply.cancel()

    def close(self) -> None:
        """Let go of the sockets. May be called twice."""
        self._client.stop_channels()
        self._client.context.destroy(linger=0)

    async def _published(self, reply: asyncio.Task[Message]) -> list[bytes] | None:
        """The next message; None where the reply is there and nothing more comes."""
        coming: asyncio.Future[list[bytes]] = self._iopub.recv_multipart()
        if coming.done():
            return coming.result()
        try:
            waited: set[asyncio.Future[Any]] = {coming, reply}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                await asyncio.wait({coming}, timeout=IDLE_WITHIN_S)
            if coming.done():
                return coming.result()
            log.warning("the kernel did not say that it is idle")
            return None
        finally:
            coming.cancel()

    async def _reply(self, request: str) -> Message:
        while True:
            message = self._read(await self._shell.recv_multipart())
            if message is not None and message["parent_header"].get("msg_id") == request:
                content: Message = message["content"]
                return content

    def _read(self, parts: list[bytes]) -> Message | None:
        """A message that the kernel has signed; None for any other."""
        session = self._client.session
        try:
            message: Message = session.deserialize(session.feed_identities(parts)[1])
            return message
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self.dropped += 1
            log.warning("a message that is not the kernel's was dropped: %s", error)
            return None
