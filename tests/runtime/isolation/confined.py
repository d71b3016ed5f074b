"""An isolated sandbox for tests. Root cannot be isolated in a folder of root, so the workspace gets another owner."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from core.events import CmdOutputObservation, CmdRunAction
from core.sandbox_types import Denials
from runtime.isolation.confinement import Isolation
from runtime.local.local_runtime import LocalRuntime
from runtime.server_runtime import ServerRuntime

SOMEBODY = 12345
"""An arbitrary user ID."""
BUBBLEWRAP = Isolation("bubblewrap")


def own(folder: Path) -> None:
    """Give a folder and its content to a user other than root."""
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)


def repository(folder: Path) -> Path:
    """A workspace that is a git repository, with a hook's sample and a settings file of an editor."""
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / ".vscode").mkdir()
    (folder / ".vscode" / "tasks.json").write_text("{}")
    own(folder)
    return folder


@asynccontextmanager
async def isolated(
    workspace: Path,
    isolation: Isolation = BUBBLEWRAP,
    *,
    options: tuple[str, ...] = (),
    denials: Denials | None = None,
    **changes: object,
) -> AsyncIterator[LocalRuntime]:
    """A started runtime in bubblewrap, with options of the server and denials of rules."""
    wanted = replace(isolation, **changes)  # type: ignore[arg-type]
    runtime = await asyncio.to_thread(LocalRuntime, workspace, isolation=wanted, options=options)
    assert not runtime.why_open
    if denials is not None:
        runtime.deny(lambda: denials)
    try:
        await runtime.start()
        yield runtime
    finally:
        await runtime.aclose()


async def run(runtime: ServerRuntime, command: str, timeout: float = 60) -> CmdOutputObservation:
    """Run a command and return its observation."""
    action = CmdRunAction(command=command, timeout=timeout, blocking=True, hidden=True)
    observation = await runtime.execute(action, 1, lambda frame: None)
    assert isinstance(observation, CmdOutputObservation), observation
    return observation
