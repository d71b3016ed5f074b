"""`python -P -m runtime.server.proxied_program SOCKET COMMAND...`: runs a program that is told of the sandbox's
proxy."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.server.proxy_forwarder import Forwarder


async def _run(target: Path, command: Sequence[str]) -> int:
    way_out = Forwarder(target)
    environ = os.environ | await way_out.start()
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environ)
        return abs(await process.wait())
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror or error}\n")
        return 127
    finally:
        await way_out.aclose()


if __name__ == "__main__":
    sys.exit(asyncio.run(_run(Path(sys.argv[1]), sys.argv[2:])))
