"""A server on a network: one owner at a time, a life for each, TLS or nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from core.errors import RuntimeUnavailableError
from core.events import CmdRunAction, ErrorObservation, FileEditAction, FileEditObservation
from runtime.client import ActionExecutionClient
from runtime.protocol import OWNER_HEADER
from runtime.server.request_guard import MAX_STRANGERS
from tests.runtime.action_server import KEY, Process
from tests.runtime.certificates import Authority
from tests.runtime.conftest import WITHIN_S, Watcher, has_ended
from tests.runtime.isolation.escape_attempts import address_of_this_machine

FIRST, SECOND = "a" * 32, "b" * 32


@asynccontextmanager
async def owner(url: str, name: str) -> AsyncIterator[ActionExecutionClient]:
    async with ActionExecutionClient(KEY, url=url, headers={OWNER_HEADER: name}) as client:
        yield client


async def ask(client: ActionExecutionClient, method: str) -> int:
    """Claim or release a server. Returns the status of the response."""
    async with client._request(method, "/owner") as response:
        return response.status


async def run(client: ActionExecutionClient, command: str) -> str:
    return (await client.execute(CmdRunAction(command=command), 1, Watcher())).content


def lasting(process: Process) -> str:
    """Start a server that has several lives; its address."""
    process.start("--lives", where=("--port", "0"))
    return process.ready().split()[1]


class TestOwners:
    async def test_claimed_server_serves_only_its_owner(self, process: Process) -> None:
        url = lasting(process)
        async with owner(url, FIRST) as first, owner(url, SECOND) as second, owner(url, "") as nobody:
            assert await run(nobody, "echo open") == "open"
            assert await ask(first, "PUT") == await ask(first, "PUT") == 200
            assert await ask(second, "PUT") == 409
            assert await ask(second, "DELETE") == 409
            assert await second.alive()
            for other in (second, nobody):
                with pytest.raises(RuntimeUnavailableError, match="used by another conversation"):
                    await run(other, "touch done")
            assert await run(first, "ls") == ""

    async def test_next_owner_gets_a_new_process(self, process: Process) -> None:
        url = lasting(process)
        async with owner(url, FIRST) as first, owner(url, SECOND) as second:
            await ask(first, "PUT")
            await run(first, "kept=1; cd /; setsid sleep 4323 &")
            before = process.life
            assert await ask(first, "DELETE") == 200
            assert await ask(second, "PUT") == 200
            assert await run(second, "printf %s \"$kept\"; pgrep -fx 'sleep 4323'; pwd") == str(process.folder)
            with pytest.raises(RuntimeUnavailableError, match="another server answers in its place"):
                await run(first, "true")
        assert has_ended(before, 0)


class TestLives:
    async def test_killed_process_is_replaced_and_its_processes_end(self, process: Process) -> None:
        url = lasting(process)
        async with owner(url, FIRST) as first:
            job = int(await run(first, "(setsid sleep 100 >/dev/null 2>&1 & echo $!)"))
        os.kill(process.life, signal.SIGKILL)
        async with owner(url, SECOND) as second:
            assert await run(second, "echo usable") == "usable"
        assert has_ended(job, 0)

    async def test_signal_ends_all_processes(self, process: Process) -> None:
        async with owner(lasting(process), FIRST) as first:
            await run(first, "setsid sleep 100 &")
        life = process.life
        assert process.child is not None
        process.child.terminate()
        assert process.child.wait(timeout=WITHIN_S) == 0
        assert has_ended(life, 0)

    async def test_server_process_ends_with_its_parent(self, process: Process) -> None:
        async with owner(lasting(process), FIRST) as first:
            job = int(await run(first, "(setsid sleep 100 >/dev/null 2>&1 & echo $!)"))
        life = process.life
        assert process.child is not None
        process.child.kill()
        assert has_ended(life)
        assert has_ended(job)

    def test_process_that_cannot_start_is_the_last(self) -> None:
        program = (
            "import sys; from runtime.server.lease import serve_repeatedly; "
            "sys.exit(serve_repeatedly(lambda is_first: 2 if is_first else 0))"
        )
        assert subprocess.run([sys.executable, "-c", program], timeout=10, check=False).returncode == 2


@pytest.mark.parametrize(
    ("lasted_s", "status", "is_paused"), [(0.5, 1, True), (1.0, 1, False), (5.0, 1, False), (0.5, 0, False)]
)
def test_restart_is_delayed_after_an_immediate_failure(lasted_s: float, status: int, is_paused: bool) -> None:
    program = f"""
import sys
from runtime.server import lease
lease.time.sleep = lambda seconds: print("paused", seconds, flush=True)
lease.time.monotonic = iter([0.0, {lasted_s}, 10.0, 10.0]).__next__ if {status} else iter([0.0, 10.0]).__next__
def live(is_first):
    print("life", is_first, flush=True)
    return {status} if is_first else 2
sys.exit(lease.serve_repeatedly(live))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    paused = ["paused 1.0"] if is_paused else []
    assert done.stdout.splitlines() == ["life True", *paused, "life False"]


async def test_readiness_is_printed_once(process: Process) -> None:
    url = lasting(process)
    before = process.life
    os.kill(before, signal.SIGKILL)
    async with owner(url, FIRST) as first:
        assert await run(first, "echo usable") == "usable"
    assert process.child is not None
    process.child.terminate()
    said, _ = await asyncio.to_thread(process.child.communicate, timeout=WITHIN_S)
    assert said == b""


class TestHistory:
    async def test_owner_cannot_undo_edits_of_another(self, process: Process) -> None:
        process.start("--lives", "--state-dir", f"{process.folder}/state", where=("--port", "0"))
        url, file = process.ready().split()[1], process.folder / "file"
        file.write_text("one\n")
        edit = FileEditAction(command="str_replace", path=str(file), old_str="one", new_str="two")
        undo = FileEditAction(command="undo_edit", path=str(file))
        said = []
        for name, action in ((FIRST, edit), (SECOND, undo), (FIRST, undo)):
            async with owner(url, name) as client:
                assert await ask(client, "PUT") == 200
                said.append(type(await client.execute(action, 1, Watcher())))
                assert await ask(client, "DELETE") == 200
        assert said == [FileEditObservation, ErrorObservation, FileEditObservation]
        assert file.read_text() == "one\n"

    async def test_claim_fails_if_the_history_cannot_be_stored(self, process: Process) -> None:
        (process.folder / "state").touch()
        process.start("--lives", "--state-dir", f"{process.folder}/state", where=("--port", "0"))
        url = process.ready().split()[1]
        for name in (FIRST, SECOND):
            async with owner(url, name) as client:
                assert await ask(client, "PUT") == 500


@pytest.fixture
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


class TestTls:
    def options(self, authority: Authority, name: str = "DNS:sandbox.example") -> list[str]:
        signed = authority.sign(name)
        return ["--tls-cert", str(signed.certificate), "--tls-key", str(signed.key)]

    async def test_network_address_requires_tls_and_its_name(self, process: Process, authority: Authority) -> None:
        options = [*self.options(authority), "--host", "0.0.0.0", "--allow-host", "Sandbox.example"]
        process.start(*options, where=("--port", "0"))
        port = int(process.ready().rpartition(":")[2])
        machine = address_of_this_machine()
        believed = ssl.create_default_context(cafile=str(authority.certificate))
        url = f"https://{machine}:{port}"
        async with aiohttp.ClientSession() as http:
            for host, status in (
                ("sandbox.example", 200),
                (f"SANDBOX.example:{port}", 200),
                ("evil.example", 403),
                ("sandbox.example.evil.example", 403),
                ("sandbox.example:x", 403),
                (machine, 403),
            ):
                headers = {"X-Session-API-Key": KEY, "Host": host}
                async with http.get(
                    f"{url}/alive", headers=headers, ssl=believed, server_hostname="sandbox.example"
                ) as r:
                    assert r.status == status, host
            with pytest.raises(aiohttp.ClientError):
                async with http.get(f"http://{machine}:{port}/alive"):
                    pass

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_old_versions_are_refused(self, process: Process, authority: Authority, version: ssl.TLSVersion) -> None:
        process.start(*self.options(authority), where=("--port", "0"))
        port = int(process.ready().rpartition(":")[2])
        context = ssl.create_default_context(cafile=str(authority.certificate))
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(("127.0.0.1", port)) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(plain, server_hostname="sandbox.example")

    def test_missing_tls_options_are_reported(self, process: Process, authority: Authority) -> None:
        network, files = ("--host", "0.0.0.0"), self.options(authority)

        def refusal(*options: str) -> str:
            process.key_file.write_text(KEY)
            child = process.start(*options, where=("--port", "0"))
            said = child.communicate(timeout=10)[1].decode()
            assert child.returncode == 2
            return said

        assert "give --tls-cert and --tls-key" in refusal(*network)
        assert "go together" in refusal(*network, *files[:2])
        assert "give it with --allow-host" in refusal(*network, *files)
        Path(files[3]).chmod(0o640)
        assert "other users can read" in refusal(*network, *files, "--allow-host", "x")
        Path(files[3]).write_text("nothing")
        Path(files[3]).chmod(0o600)
        assert "are not a certificate and its key" in refusal(*network, *files, "--allow-host", "x")

    async def test_clients_without_handshake_do_not_block_others(self, process: Process, authority: Authority) -> None:
        process.start(*self.options(authority, "IP:127.0.0.1"), where=("--port", "0"))
        port = int(process.ready().rpartition(":")[2])
        believed = ssl.create_default_context(cafile=str(authority.certificate))
        strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(3 * MAX_STRANGERS)]
        try:
            async with ActionExecutionClient(KEY, url=f"https://127.0.0.1:{port}", tls=believed) as client:
                async with asyncio.timeout(WITHIN_S):
                    assert await run(client, "echo hi") == "hi"
        finally:
            for stranger in strangers:
                stranger.close()
