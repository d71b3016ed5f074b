"""What git in the sandbox calls in place of ssh: it has git's forwarder run the user's ssh, outside of the sandbox.

`python -m runtime.isolation.git_ssh SOCKET KEY -p PORT USER@HOST COMMAND` sends one line of JSON and then standard
input. The answer is a row of frames: one byte (1 output, 2 error output, 0 exit status), four bytes of length, data.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.interpreter import start_command
from core.sandbox_types import SSH_PORT

OUTPUT, ERRORS, EXIT = 1, 2, 0
CHUNK_BYTES = 64 * 1024
_FRAME = struct.Struct(">BI")


def frame(channel: int, data: bytes) -> bytes:
    """Return a frame of the answer."""
    return _FRAME.pack(channel, len(data)) + data


def ssh_command(socket: Path) -> str:
    """Return the command that git in the sandbox calls in place of ssh, without the key at its end."""
    return shlex.join(start_command("runtime.isolation.git_ssh", str(socket)))


def _asked(key: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what git asks of ssh. Raises ValueError."""
    *options, where, command = words
    port = int(options[options.index("-p") + 1]) if "-p" in options else SSH_PORT
    user, _, host = where.rpartition("@")
    service, path = shlex.split(command)
    asked: dict[str, Any] = {"key": key, "user": user, "host": host, "port": port, "service": service, "path": path}
    return {**asked, "protocol": os.environ.get("GIT_PROTOCOL", "")}


async def _ssh(socket: str, key: str, words: Sequence[str]) -> int:
    """Be ssh for git; return its exit status."""
    try:
        asked = _asked(key, words)
        reader, writer = await asyncio.open_unix_connection(socket)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"handloom: git cannot use ssh here: {error}\n")
        return 255
    writer.write(json.dumps(asked).encode() + b"\n")
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    sending = asyncio.create_task(_send(stdin, writer))
    outputs = {OUTPUT: sys.stdout.buffer, ERRORS: sys.stderr.buffer}
    try:
        while True:
            channel, length = _FRAME.unpack(await reader.readexactly(_FRAME.size))
            data = await reader.readexactly(length)
            if channel == EXIT:
                return data[0]
            outputs[channel].write(data)
            outputs[channel].flush()
    except (OSError, asyncio.IncompleteReadError):
        return 255
    finally:
        sending.cancel()


async def _send(stdin: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await stdin.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


if __name__ == "__main__":
    sys.exit(asyncio.run(_ssh(sys.argv[1], sys.argv[2], sys.argv[3:])))
