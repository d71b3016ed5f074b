"""The server's own restrictions, which also apply to its children; needed in containers without bubblewrap."""

from __future__ import annotations

import errno
import json
import platform
import signal
import subprocess
import sys

import pytest

from core.events import IPythonRunCellAction
from runtime.client import ActionExecutionClient
from runtime.isolation import seccomp
from tests.runtime.action_server import KEY, Process
from tests.runtime.conftest import Watcher, has_ended

pytestmark = pytest.mark.skipif(seccomp.program() is None, reason="no filter is known for this kind of machine")
CALLS = {name: seccomp._DENIED.get(platform.machine(), {}).get(name) for name in ("ptrace", "io_uring_setup", "keyctl")}
TRIED = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(number):
    ctypes.set_errno(0)
    return libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0) and ctypes.get_errno()
print(json.dumps({name: tried(number) for name, number in json.loads(sys.argv[1]).items()}))
"""
ON_ANOTHER_MACHINE = """
import platform, sys
platform.machine = lambda: "vax"
from runtime.server.main import main
sys.exit(main(sys.argv[1:]))
"""


class TestFilter:
    async def test_filtered_calls_fail_in_commands_and_cells(self, process: Process) -> None:
        process.start("--filter-calls", "--plugins", "jupyter", "--lazy-plugins")
        process.ready()
        (process.folder / "tried.py").write_text(TRIED)
        told = await process.run(f"{sys.executable} tried.py '{json.dumps(CALLS)}'; unshare -U true || echo closed")
        assert json.loads(told.splitlines()[0]) == dict.fromkeys(CALLS, errno.EPERM)
        assert told.splitlines()[-1] == "closed"
        assert "42\n" in await process.run("seq 41 43 | sort | cat; (sleep 0 &); wait")
        async with ActionExecutionClient(KEY, uds=str(process.socket)) as client:
            cell = "import threading; t = threading.Thread(target=print, args=(6 * 7,)); t.start(); t.join()"
            assert "42" in (await client.execute(IPythonRunCellAction(code=cell), 1, Watcher())).content

    async def test_server_is_filtered_in_every_thread(self, process: Process) -> None:
        child = process.start("--filter-calls")
        process.ready()
        await process.run("true")
        modes = f"grep -h -E 'Seccomp:|NoNewPrivs:' /proc/{child.pid}/task/*/status | sort -u"
        lines = subprocess.run(["sh", "-c", modes], capture_output=True, text=True, check=True).stdout.split()
        assert lines == ["NoNewPrivs:", "1", "Seccomp:", "2"]

    def test_server_does_not_start_without_a_filter_for_the_architecture(self, process: Process) -> None:
        argv = ["--working-dir", str(process.folder), "--uds", str(process.socket), "--filter-calls"]
        done = subprocess.run(
            [sys.executable, "-P", "-c", ON_ANOTHER_MACHINE, *argv, "--key-file", str(process.key_file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        assert done.returncode == 2
        assert "cannot be filtered on this architecture; leave out --filter-calls" in done.stderr
        assert not process.socket.exists()


class TestAbsence:
    async def test_server_ends_when_the_last_client_has_left(self, process: Process) -> None:
        child = process.start("--idle-exit", "1")
        process.ready()
        async with ActionExecutionClient(KEY, uds=str(process.socket)) as client:
            await client.alive()
            assert not has_ended(child.pid, within_s=1.5), "it ended although somebody is connected"
        assert has_ended(child.pid)
        assert child.wait() == 0
        assert not process.socket.exists()

    def test_server_without_clients_ends(self, process: Process) -> None:
        child = process.start("--idle-exit", "0.2")
        process.ready()
        assert has_ended(child.pid)

    async def test_connections_without_the_key_do_not_keep_the_server_alive(self, process: Process) -> None:
        child = process.start("--idle-exit", "1")
        process.ready()
        async with ActionExecutionClient("x" * 64, uds=str(process.socket)) as stranger:
            while await stranger.alive() or process.socket.exists():
                pass
        assert has_ended(child.pid)

    async def test_processes_left_running_end_with_the_server(self, process: Process) -> None:
        child = process.start("--idle-exit", "0.5")
        process.ready()
        left = int((await process.run("setsid sleep 300 & echo $!")).split()[-1])
        assert has_ended(child.pid)
        assert has_ended(left)

    async def test_server_without_idle_exit_stays(self, process: Process) -> None:
        child = process.start()
        process.ready()
        await process.run("true")
        assert not has_ended(child.pid, within_s=1)
        child.send_signal(signal.SIGTERM)
        assert has_ended(child.pid)
