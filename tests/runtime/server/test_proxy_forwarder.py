"""A port in the sandbox that forwards to the proxy's socket, and a program that gets its address."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.server.proxy_forwarder import DIRECT, NAMES, ProxyForwarder
from tests.program import ROOT


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Path]:
    """A socket that answers with the same text in capitals."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "proxy")
    yield tmp_path / "proxy"
    server.close()


async def test_environment_names_a_port_that_forwards_to_the_socket(proxy: Path) -> None:
    forwarder = ProxyForwarder(proxy)
    environ = await forwarder.start()
    assert environ.keys() == {*NAMES, *DIRECT}
    assert {environ[name] for name in DIRECT} == {"localhost,.localhost,127.0.0.1,0.0.0.0,::1"}
    (url,) = {environ[name] for name in NAMES}
    host, _, port = url.removeprefix("http://").rpartition(":")
    assert host == "127.0.0.1"
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"HELLO"
    writer.close()
    await writer.wait_closed()
    await forwarder.aclose()
    with pytest.raises(OSError, match=r"."):
        await asyncio.open_connection(host, int(port))


async def test_connection_is_closed_if_the_proxy_has_ended(tmp_path: Path) -> None:
    forwarder = ProxyForwarder(tmp_path / "none")
    await forwarder.aclose()  # it was never started
    url = (await forwarder.start())["http_proxy"]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    await forwarder.aclose()


TOLD = "import json, os, sys; print(json.dumps(dict(os.environ))); sys.exit(7)"


@pytest.mark.parametrize(
    ("command", "status"),
    [((sys.executable, "-c", TOLD), 7), (("sh", "-c", "kill -TERM $$"), 15), (("/no/such/program",), 127)],
    ids=["a program", "one that a signal ends", "none"],
)
async def test_program_runs_with_the_forwarder(proxy: Path, command: tuple[str, ...], status: int) -> None:
    argv = (sys.executable, "-P", "-m", "runtime.server.proxy_forwarder", str(proxy), *command)
    process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1, cwd=ROOT)
    said, failed = await process.communicate()
    assert process.returncode == status
    if status == 7:
        assert json.loads(said)["HTTPS_PROXY"].startswith("http://127.0.0.1:")
    assert failed == (b"/no/such/program cannot be run: No such file or directory\n" if status == 127 else b"")
