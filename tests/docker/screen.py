"""`python -m tests.docker.screen HOME WORKSPACE SPARES`: a screen with one conversation, for a test that kills it.

Says the name of its container once a variable is set in the container's shell, and waits.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from core.events import CmdRunAction
from runtime.docker.docker_runtime import DockerRuntime
from tests.fleets import fleet


async def main(home: Path, workspace: Path, spares: int) -> None:
    of_one_home = fleet(home, spares=spares)
    of_one_home.warm(DockerRuntime(of_one_home, workspace))
    await of_one_home.settled()
    runtime = DockerRuntime(of_one_home, workspace)
    runtime.keep(home / "sandboxes" / "conversation")
    await runtime.start()
    await runtime.execute(CmdRunAction(command="kept=1"), 1, lambda frame: None)
    sys.stdout.write(f"{runtime.container_name}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
