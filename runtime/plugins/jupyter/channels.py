"""The messages of one kernel, through jupyter_client's asynchronous client. Imported in a thread, because zmq is slow.

The shell channel carries requests and replies; the iopub channel carries output and, at the end, the idle status. A
cell is over when both the reply and the idle status have arrived, because the reply can overtake output. Messages that
are not signed with the kernel's key, or are repeated, are dropped and counted.
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
"""A larger message closes the connection; the kernel's program sends none."""
IDLE_WITHIN_S = 5.0
"""Without a message for this time after the reply, the idle status counts as lost."""
REPLY_WITHIN_S = 1.0
"""How long to wait for the reply after the idle status. If a cell is interrupted before its first line, ipykernel sends
none."""
UNANSWERED = {"status": "error", "ename": "KeyboardInterrupt", "evalue": ""}
MESSAGES_PER_TURN = 32
"""After so many messages, other tasks of the event loop get a turn."""

Take = Callable[[Message, bool], Awaitable[None]]
"""Receives a message, and whether it belongs to the request. The next message comes after it returns."""


class Channels:
    """The connections to one kernel. Belongs to the running event loop."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        context.setsockopt(zmq.SNDTIMEO, 0)
        self.dropped = 0
        """How many messages were not signed by the kernel."""
        self._client = AsyncKernelClient(context=context)
        self._client.load_connection_info(cast(KernelConnectionInfo, connection))
        self._client.start_channels(stdin=False, hb=False, control=False)
        self._shell, self._iopub = self._client.shell_channel.socket, self._client.iopub_channel.socket

    async def subscribed(self) -> None:
        """Wait until the iopub subscription is active. No later message is missed."""
        while True:
            message = self._read(await self._iopub.recv_multipart())
            if message is not None and message["msg_type"] == "iopub_welcome":
                return

    async def execute(self, code: str, take: Take, *, silent: bool = False) -> Message:
        """Execute code and return the content of the reply, or UNANSWERED. Cancelling does not interrupt the kernel.

        Raises zmq.Again if the kernel takes no more requests.
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
        """Close the sockets. May be called twice."""
        self._client.stop_channels()
        self._client.context.destroy(linger=0)

    async def _published(self, reply: asyncio.Task[Message]) -> list[bytes] | None:
        """Return the next message; None if the reply has arrived and no message follows."""
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
        """Decode a message; None if the kernel has not signed it."""
        session = self._client.session
        try:
            message: Message = session.deserialize(session.feed_identities(parts)[1])
            return message
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self.dropped += 1
            log.warning("a message that is not the kernel's was dropped: %s", error)
            return None
