"""A process that has one conversation and is killed in the middle of it: `python -m tests.killed`, a task as input.

It says `{"id": ...}` on its output once the conversation rests, or once a command in it waits for input, and then
does nothing until it is killed. `killed` has one such process live and die.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from core.conversations.conversation_manager import ConversationManager
from core.events import Frame, Status
from core.settings.config import Settings
from runtime.local.local_runtime import LocalRuntime
from tests.program import ROOT

READY_S = 60.0


async def _live(task: dict[str, Any]) -> None:
    settings = Settings.model_validate(task["settings"])
    waits = asyncio.Event()

    def heard(frame: Frame) -> None:
        if isinstance(frame, Status) and frame.id == "STATUS$WAITING_FOR_INPUT":
            waits.set()

    async with ConversationManager(Path(task["home"]), settings, make_runtime=LocalRuntime, environ={}) as manager:
        session = await manager.create(workspace=task["workspace"], model=task["model"], agent=task["agent"])
        session.frames.watch(heard)
        await session.send("go")
        await (waits.wait() if task["reads"] else session.settled())
        sys.stdout.write(json.dumps({"id": session.id}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


async def killed(
    home: Path, workspace: Path, model: str, settings: Settings, *, reads: bool = False, agent: str = ""
) -> str:
    """The id of a conversation whose process was killed (SIGKILL) while it rested, or while a command `reads`."""
    workspace.mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.killed", cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    task = {"home": str(home), "workspace": str(workspace), "model": model, "reads": reads, "agent": agent}
    process.stdin.write(json.dumps({**task, "settings": settings.model_dump(mode="json")}).encode())
    process.stdin.close()
    try:
        async with asyncio.timeout(READY_S):
            line = await process.stdout.readline()
        assert line, "the process ended by itself"
        return str(json.loads(line)["id"])
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_live(json.load(sys.stdin)))
