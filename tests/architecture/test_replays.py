"""A replay carries out nothing: its rooms import nothing that could, and while one plays no program starts and no
connection is made. The layers' contract of the same meaning is in pyproject.toml.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.test_imports import loaded_by
from tests.blocking import ROOT
from tests.tapes import long_tape

ACTING = ("runtime", "litellm", "core.session.agent_session", "core.conversations.conversation_manager", "core.llm",
"core.agent", "core.controller", "core.store.event_store", "core.stream", "core.memory")  # fmt: skip

WATCHED = """
import asyncio, sys
from pathlib import Path

FORBIDDEN = ("subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "os.startfile",
             "pty.spawn", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto")
asked = []

def watch(event, arguments):
    if event.startswith(FORBIDDEN):
        asked.append((event, repr(arguments)))

async def play(home):
    from tests.tui.workspace.running_app import until
    from tests.tui.replay.screens import go, replay, replay_app, settle
    from tui.replay.replay_start import replay_to

    async with replay_app(home, "long", (160, 48)) as it:
        tab = replay(it)
        tab.player.speed, tab.player.skips_waiting = 64.0, True
        replay_to(it.app, tab, 0)
        await until(it.pilot, lambda: tab.player.position.is_end)
        for target in (0, 30, 5):
            await go(it, target)
        await it.pilot.press("left", "right", "m", "apostrophe", "slash", *"part", "enter", "n", "b", "f")
        await settle(it)

sys.addaudithook(watch)
asyncio.run(play(Path(sys.argv[1])))
print("ASKED", asked)
"""


def test_replay_imports_no_module_that_could_act() -> None:
    loaded = loaded_by("import core.replay.player, tui.replay.replay_tab, tui.replay.transport_bar")
    assert [name for name in loaded if name.startswith(ACTING)] == []


@pytest.mark.parametrize("traced", [pytest.param(True, marks=pytest.mark.strace), False], ids=["strace", "audit"])
def test_replay_starts_no_program_and_opens_no_connection(tmp_path: Path, traced: bool) -> None:
    asyncio.run(long_tape(30).keep(tmp_path / "home"))
    log = tmp_path / "calls"
    command = [sys.executable, "-c", WATCHED, str(tmp_path / "home")]
    if traced:
        calls = "trace=execve,execveat,fork,vfork,connect,bind"
        command = ["strace", "-f", "-qq", "-e", "signal=none", "-e", calls, "-o", str(log), *command]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "ASKED []" in done.stdout
    if traced:
        calls_made = [line.split(maxsplit=1)[1] for line in log.read_text().splitlines()]
        assert [call for call in calls_made if not call.startswith("execve(")] == []
        assert len(calls_made) == 1, "strace's own start of the program, and nothing after it"
