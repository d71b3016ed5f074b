"""A shortage of memory, disk or inodes is reported with the observation, and the process that caused it is ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.events import CmdOutputObservation, CmdRunAction, FileReadObservation, IPythonRunCellAction
from runtime.client import ActionExecutionClient
from runtime.isolation.cgroups import ControlGroup, Limits
from runtime.isolation.confinement import Isolation
from runtime.local.local_runtime import LocalRuntime
from runtime.protocol import ProtocolError, usage_of
from runtime.shortage_messages import memory_ran_out, with_note
from tests.runtime.action_server import KEY, Process
from tests.runtime.conftest import Watcher
from tests.runtime.isolation.confined import run

MB = 1024 * 1024
MOUNTED = 'mount -t tmpfs -o size=64m,nr_inodes=4000 none "$0"; exec "$@"'
DISK_TOLD, FILES_TOLD = "MB left, so running commands were ended. Free some space.]", "Remove some.]"


class Sandbox:
    """A server whose workspace is a disk of 64 MB and 4000 files, of which 24 MB stay free."""

    def __init__(self, client: ActionExecutionClient) -> None:
        self._client = client

    async def run(self, command: str, timeout: float = 20) -> CmdOutputObservation:
        action = CmdRunAction(command=command, timeout=timeout, blocking=True)
        observation = await self._client.execute(action, 1, Watcher())
        assert isinstance(observation, CmdOutputObservation), observation
        return observation

    async def ends(self, command: str) -> None:
        """Wait until a job was there and has ended."""
        for is_there in (True, False):
            async with asyncio.timeout(10):
                while any(command in job.command for job in await self._client.jobs()) is not is_there:
                    pass

    async def cell(self, code: str) -> str:
        return (await self._client.execute(IPythonRunCellAction(code=code, timeout=20), 1, Watcher())).content


@pytest.fixture
async def sandbox(process: Process) -> AsyncIterator[Sandbox]:
    disk = process.folder / "disk"
    disk.mkdir()
    within = ("unshare", "--map-root-user", "--mount", "sh", "-c", MOUNTED, str(disk))
    options = ("--working-dir", str(disk), "--min-free", str(24 * MB), "--plugins", "jupyter", "--lazy-plugins")
    process.start(*options, within=within)
    assert process.ready().startswith("ready")
    async with ActionExecutionClient(KEY, uds=str(process.socket)) as client:
        yield Sandbox(client)


@pytest.mark.mount
class TestDisk:
    async def test_command_that_fills_the_disk_is_ended_and_the_conversation_continues(self, sandbox: Sandbox) -> None:
        filled = await sandbox.run("head -c 50M /dev/zero > large; sleep 15")
        assert DISK_TOLD in filled.metadata.suffix
        after = await sandbox.run("stat -c %s large; sleep 1; rm large; echo still here")
        assert after.content.endswith("still here")
        assert DISK_TOLD not in after.metadata.suffix

    async def test_job_that_fills_the_disk_is_ended_and_reported_with_the_next_command(self, sandbox: Sandbox) -> None:
        fill = "setsid sh -c 'head -c 50M /dev/zero > large; sleep 61'"
        assert DISK_TOLD not in (await sandbox.run(f"{fill} &")).metadata.suffix
        await sandbox.ends("sleep 61")
        assert DISK_TOLD in (await sandbox.run("true")).metadata.suffix

    async def test_shell_that_fills_the_disk_is_replaced(self, sandbox: Sandbox) -> None:
        forever = "printf -v line '%1000000s' x; while :; do echo \"$line\" >> large; done"
        assert DISK_TOLD in (await sandbox.run(forever)).metadata.suffix
        assert (await sandbox.run("rm large; echo still here")).content.endswith("still here")

    async def test_kernel_that_fills_the_disk_is_ended(self, sandbox: Sandbox) -> None:
        code = "import time\nwith open('large', 'wb') as f:\n  f.write(bytes(50_000_000)); f.flush(); time.sleep(15)"
        assert DISK_TOLD in await sandbox.cell(code)
        assert "still here" in await sandbox.cell("import os; os.remove('large'); print('still here')")

    async def test_command_that_uses_all_inodes_is_ended(self, sandbox: Sandbox) -> None:
        many = f"{sys.executable} -c 'import time; [open(str(n), \"w\") for n in range(3985)]; time.sleep(15)'"
        told = (await sandbox.run(f"ulimit -n 4096; mkdir f; cd f; {many}")).metadata.suffix
        assert FILES_TOLD in told
        assert (await sandbox.run("cd ..; rm -r f; echo still here")).content.endswith("still here")

    async def test_command_can_free_space_on_a_full_disk(self, sandbox: Sandbox) -> None:
        await sandbox.run("head -c 44M /dev/zero > large; sleep 15")
        tidied = await sandbox.run("sleep 2; echo x > small; rm large")
        assert DISK_TOLD not in tidied.metadata.suffix
        assert DISK_TOLD in (await sandbox.run("head -c 50M /dev/zero > large; sleep 15")).metadata.suffix


class TestMemory:
    async def test_server_reports_its_own_group_without_isolation(self, tmp_path: Path) -> None:
        limits = Limits(memory_bytes=256 * MB)
        group = ControlGroup("handloom-test-probe-open", limits)
        try:
            if not group.make() or "memory" not in group.applied:
                pytest.skip("no control group can be made here")
        finally:
            group.remove()
        runtime = LocalRuntime(tmp_path, isolation=Isolation("none", limits=limits))
        await runtime.start()
        try:
            hungry = await run(runtime, f"{sys.executable} -c 'bytearray(400_000_000)'")
            assert hungry.to_agent_text().count(f"[{memory_ran_out(256 * MB)}]") == 1
            assert "ran out" not in (await run(runtime, "true")).to_agent_text()
            used = await runtime.usage()
            assert used is not None
            assert used.oom_kills == 1
        finally:
            await runtime.aclose()


def test_note_is_appended_to_the_observation() -> None:
    assert with_note(FileReadObservation(content="x", path="f"), "").content == "x"
    assert with_note(FileReadObservation(content="x", path="f"), "Short.").content == "x\n[Short.]"
    assert with_note(CmdOutputObservation(content="x", command="c"), "Short.").metadata.suffix == "\n[Short.]"


def test_usage_without_kills_or_with_unknown_fields_is_parsed() -> None:
    sandbox = {"processes": 1, "memory": 2, "cpu_seconds": 3}
    info = {"sandbox": sandbox, "resources": {"disk": {"free": 4}}, "uptime": 5}
    assert usage_of(info).oom_kills == 0
    assert usage_of({**info, "sandbox": {**sandbox, "oom_kills": 6}}).oom_kills == 6
    with pytest.raises(ProtocolError):
        usage_of({**info, "sandbox": [1]})
