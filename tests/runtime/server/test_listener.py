"""Where a sandbox can be reached: by its socket or on loopback, as the kernel lists it, and never from elsewhere."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from runtime.local.local_runtime import LocalRuntime
from tests.runtime.action_server import Process
from tests.runtime.isolation.confined import isolated, repository, run
from tests.runtime.isolation.escape_attempts import address_of_this_machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

TABLES = ("tcp", "tcp6", "udp", "udp6")
LISTENS, UNCONNECTED = "0A", "07"


def listeners(listing: str) -> set[tuple[str, int]]:
    """Address and port of every socket in texts of /proc/net/tcp and its like that waits for others to call."""
    found = set()
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[3] in (LISTENS, UNCONNECTED):
            address, _, port = fields[1].partition(":")
            found.add((_address(address), int(port, 16)))
    return found


def _address(digits: str) -> str:
    """The kernel writes an address as words of 32 bits, each in the machine's own order."""
    words = [bytes.fromhex(digits[at : at + 8]) for at in range(0, len(digits), 8)]
    return str(ipaddress.ip_address(b"".join(word[:: -1 if sys.byteorder == "little" else 1] for word in words)))


def of_the_machine() -> set[tuple[str, int]]:
    return listeners("\n".join(Path("/proc/net", table).read_text() for table in TABLES))


def test_kernels_table_is_parsed() -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
        with socket.create_server((address, 0), family=family) as listener:
            assert (address, listener.getsockname()[1]) in of_the_machine()


@pytest.mark.alone  # compares the listeners of the whole machine
async def test_local_sandbox_listens_on_a_private_socket(tmp_path: Path) -> None:
    before = of_the_machine()
    runtime = LocalRuntime(tmp_path)
    await runtime.start()
    try:
        new = of_the_machine() - before
        assert runtime._folder is not None
        assert stat.S_IMODE(runtime._folder.path.stat().st_mode) == 0o700
        assert stat.S_IMODE(runtime._folder.socket.stat().st_mode) == 0o600
    finally:
        await runtime.aclose()
    assert new == set()


@pytest.mark.alone
@pytest.mark.bubblewrap
async def test_isolated_sandbox_listens_only_for_its_proxy(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    look = "cat " + " ".join(f"/proc/net/{table}" for table in TABLES)
    before = of_the_machine()
    async with isolated(workspace) as runtime:
        ((address, _),) = listeners((await run(runtime, look)).content)
        assert address == "127.0.0.1"
        assert of_the_machine() - before == set()


@pytest.mark.alone  # compares the listeners of the whole machine
def test_port_is_reachable_only_by_loopback(process: Process) -> None:
    before = of_the_machine()
    process.start(where=("--port", "0"))
    port = int(process.ready().rpartition(":")[2])
    assert of_the_machine() - before == {("127.0.0.1", port)}
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    for address in {address_of_this_machine(), "127.0.1.1", "::1"}:
        with pytest.raises(OSError, match=r"."):
            socket.create_connection((address, port), timeout=0.5).close()


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])
def test_address_that_others_could_reach_is_refused(process: Process, address: str) -> None:
    process.start("--host", address, where=("--port", "0"))
    assert process.child is not None
    _, said = process.child.communicate(timeout=10)
    assert process.child.returncode == 2
    assert b"is not a loopback address" in said
    assert not os.path.exists(process.key_file)
