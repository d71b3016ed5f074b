"""RemoteRuntime beyond the contract: authentication, error messages, and ownership of the server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from core.errors import ConfigurationError, RuntimeUnavailableError
from core.events import CmdRunAction, Status
from core.protocols import Runtime
from runtime.protocol import PROTOCOL_VERSION, VERSION_HEADER
from runtime.reconnecting_client import LINK
from runtime.remote.remote_runtime import RemoteRuntime, parse_address, read_key
from tests.contract.remote_here import NOWHERE, RemoteHere
from tests.links import linked
from tests.runtime.action_server import KEY, Process
from tests.runtime.certificates import Authority
from tests.runtime.conftest import Watcher
from tests.runtime.server.test_identity import listening

CANARY = "c4nary" * 8


@pytest.fixture(autouse=True)
def no_server_stays() -> Iterator[None]:
    yield
    RemoteHere.end_servers()


@asynccontextmanager
async def at(url: str, key: str = KEY, ca_file: Path | None = None) -> AsyncIterator[RemoteRuntime]:
    runtime = RemoteRuntime(parse_address(url), lambda: key, ca_file=ca_file, patience_s=1.0)
    try:
        yield runtime
    finally:
        await runtime.aclose()


async def refusal(url: str, key: str = KEY, ca_file: Path | None = None) -> str:
    """Why it cannot be started."""
    async with at(url, key, ca_file) as runtime:
        with pytest.raises(RuntimeUnavailableError) as raised:
            await runtime.start()
    return str(raised.value)


def run(command: str) -> CmdRunAction:
    return CmdRunAction(command=command, blocking=True, timeout=60)


def test_remote_runtime_implements_the_protocol() -> None:
    runtime: Runtime = RemoteRuntime(parse_address("https://sandbox.example"), lambda: KEY)
    assert (runtime.isolation, runtime.why_open, runtime.working_dir) == ("remote", "", "/workspace")


class TestAddress:
    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("", "Set remote.url"),
            ("sandbox.example", "not the address of a server"),
            ("ftp://sandbox.example", "not the address of a server"),
            ("https://", "not the address of a server"),
            ("https://sandbox.example:port", "not a valid address"),
            ("https://sandbox.example/?key=x", "not the address of a server"),
            ("https://user@sandbox.example", "contains a user name or a password"),
            (f"https://user:{CANARY}@sandbox.example", "contains a user name or a password"),
            (f"https://:{CANARY}@[bad", "not a valid address"),
            ("http://sandbox.example", "http is not encrypted"),
            ("http://10.0.0.1:80", "http is not encrypted"),
            ("http://127.0.0.1.evil.example", "http is not encrypted"),
        ],
    )
    def test_unsafe_address_is_refused_without_quoting_a_password(self, url: str, said: str) -> None:
        with pytest.raises(ConfigurationError, match=said) as raised:
            parse_address(url)
        assert CANARY not in str(raised.value)

    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1/", "https://x.example"]
    )
    def test_loopback_needs_no_tls(self, url: str) -> None:
        assert parse_address(url).url == url.rstrip("/")


class TestKey:
    def test_key_comes_from_the_file_or_the_environment(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        file.write_text(f"{KEY}\n")
        file.chmod(0o600)
        assert read_key({"NAME": "other"}, "NAME", file) == KEY
        assert read_key({"NAME": KEY}, "NAME", None) == KEY

    def test_invalid_key_is_reported_without_quoting_it(self, tmp_path: Path) -> None:
        file = tmp_path / "key"

        def said(content: str | bytes, mode: int = 0o600) -> str:
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            file.chmod(mode)
            with pytest.raises(ConfigurationError) as raised:
                read_key({}, "NAME", file)
            assert CANARY not in str(raised.value)
            return str(raised.value)

        assert "Other users can read" in said(CANARY, 0o644)
        assert "has no key" in said(" \n")
        assert "is not a key" in said(f"{CANARY}\r\nX-Header: x")
        assert "it is not text" in said(CANARY.encode() + b"\xff")
        file.unlink()
        with pytest.raises(ConfigurationError, match=r"cannot be read from the file .*: No such file"):
            read_key({}, "NAME", file)
        with pytest.raises(ConfigurationError, match=r"has no key\. .* into the environment variable NAME"):
            read_key({}, "NAME", None)

    async def test_key_is_in_no_message_log_or_frame(
        self, tmp_path: Path, watcher: Watcher, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        process = Process(tmp_path)
        process.key_file.write_text(CANARY)
        process.start("--lives", where=("--port", "0"))
        said = []
        try:
            url = process.ready().split()[1]
            async with linked(int(url.rpartition(":")[2])) as link, at(link.url, CANARY) as runtime:
                await runtime.start()
                running = asyncio.create_task(runtime.execute(run("echo begun; env; sleep 100"), 1, watcher))
                await watcher.sees(b"begun")
                link.cut()
                await watcher.sees_frame(Status("info", LINK, "The connection to the sandbox is back."))
                os.kill(process.life, signal.SIGKILL)
                with pytest.raises(RuntimeUnavailableError) as raised:
                    await running
                said.append(repr(raised.value) + repr(raised.value.__cause__))
            said += [await refusal(url, f"{CANARY}-wrong"), await refusal(NOWHERE, CANARY)]
        finally:
            assert process.child is not None
            process.child.terminate()
            said.append(process.child.communicate(timeout=10)[1].decode())
        assert CANARY not in " ".join([*said, *map(repr, watcher.frames), caplog.text])


class TestConnections:
    async def test_unreachable_server_is_reported(self) -> None:
        assert await refusal(NOWHERE) == (
            f"Nothing answers at {NOWHERE}: Connect call failed ('127.0.0.1', 1). Start the server there, or correct "
            "remote.url."
        )

    async def test_wrong_key_is_reported(self, process: Process) -> None:
        process.start(where=("--port", "0"))
        assert "has another key" in await refusal(process.ready().split()[1], "wrong" * 10)

    @pytest.mark.parametrize(
        ("status", "headers", "said"),
        [
            (200, {VERSION_HEADER: str(PROTOCOL_VERSION + 1)}, "uses protocol version 2"),
            (426, {VERSION_HEADER: str(PROTOCOL_VERSION + 1)}, "uses protocol version 2"),
            (404, {}, "is not an action server of this version"),
            (403, {}, "may not be called by this name"),
            (302, {"Location": "http://127.0.0.1:1/elsewhere"}, "must not get the key"),
            (307, {"Location": "http://127.0.0.1:1/elsewhere"}, "must not get the key"),
        ],
    )
    async def test_certificate_of_another_host_is_refused(
        self, status: int, headers: dict[str, str], said: str
    ) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response({}, status=status, headers=headers)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with listening(app) as port:
            assert said in await refusal(f"http://127.0.0.1:{port}")

    async def test_other_protocol_is_reported(self) -> None:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example\r\n")
            writer.close()

        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            assert "is not an action server, or the link breaks" in await refusal(f"http://127.0.0.1:{port}")
            assert "does not support secure TLS" in await refusal(f"https://127.0.0.1:{port}")


class TestCertificates:
    @pytest.fixture
    def authority(self, tmp_path_factory: pytest.TempPathFactory) -> Authority:
        return Authority(tmp_path_factory.mktemp("tls") / "authority")

    def secure(self, process: Process, authority: Authority, name: str, days: int = 1) -> str:
        """Start a server with a certificate for this name; its address."""
        signed = authority.sign(name, days=days)
        process.start("--tls-cert", str(signed.certificate), "--tls-key", str(signed.key), where=("--port", "0"))
        return process.ready().split()[1]

    async def test_trusted_certificate_is_accepted(
        self, process: Process, authority: Authority, watcher: Watcher
    ) -> None:
        url = self.secure(process, authority, "IP:127.0.0.1")
        async with at(url, ca_file=authority.certificate) as runtime:
            await runtime.start()
            assert (await runtime.execute(run("echo hi"), 1, watcher)).content == "hi"
            assert runtime.working_dir == str(process.folder)

    async def test_certificate_of_an_unknown_authority_is_refused(self, process: Process, authority: Authority) -> None:
        said = await refusal(self.secure(process, authority, "IP:127.0.0.1"))
        assert said.startswith("The certificate of 127.0.0.1 is not trusted: unable to get local issuer certificate.")
        assert "Set remote.ca_file to the file of its authority" in said

    async def test_certificate_of_another_authority_is_refused(
        self, process: Process, authority: Authority, tmp_path: Path
    ) -> None:
        other = Authority(tmp_path / "other").certificate
        assert "is not trusted" in await refusal(self.secure(process, authority, "IP:127.0.0.1"), ca_file=other)

    async def test_certificate_for_another_name_is_refused(self, process: Process, authority: Authority) -> None:
        said = await refusal(self.secure(process, authority, "DNS:other.example"), ca_file=authority.certificate)
        assert "IP address mismatch" in said

    async def test_expired_certificate_is_refused(self, process: Process, authority: Authority) -> None:
        url = self.secure(process, authority, "IP:127.0.0.1", days=-1)
        assert "certificate has expired" in await refusal(url, ca_file=authority.certificate)

    async def test_file_without_a_certificate_is_refused(self, tmp_path: Path) -> None:
        for file, content in ((tmp_path / "nothing", None), (tmp_path / "text", "text")):
            if content is not None:
                file.write_text(content)
            assert "is not a file of certificates" in await refusal("https://127.0.0.1:1", ca_file=file)


class TestServerOwnership:
    async def test_two_conversations_do_not_share_a_server(self, tmp_path: Path) -> None:
        first = RemoteHere(tmp_path)
        await first.start()
        said = await refusal(first.url)
        assert said == "The server is used by another conversation. Close that conversation, or use another server."
        await first.aclose()
        async with at(first.url) as second:
            await second.start()

    async def test_conversation_finds_its_shell_and_jobs_after_a_crash(self, tmp_path: Path, watcher: Watcher) -> None:
        first = RemoteHere(tmp_path)
        first.keep(tmp_path / "kept")
        await first.start()
        await first.execute(run("kept=1; setsid sleep 4322 &"), 1, watcher)
        await first._end()  # as a crash would: without handing the server back
        async with at(first.url) as again:
            again.keep(tmp_path / "kept")
            await again.start()
            assert (await again.execute(run("echo $kept"), 2, watcher)).content.startswith("1")
            async with asyncio.timeout(30):
                while [job.command for job in await again.jobs()] != ["sleep 4322"]:
                    await asyncio.sleep(0.05)  # the copy of bash that becomes it may not have done so yet
        assert (tmp_path / "kept/owner").stat().st_mode & 0o077 == 0

    async def test_connection_broken_while_idle_resumes_the_same_shell(self, tmp_path: Path, watcher: Watcher) -> None:
        server = RemoteHere(tmp_path)
        await server.start()
        await server._release()
        async with linked(int(server.url.rpartition(":")[2])) as link, at(link.url) as runtime:
            await runtime.start()
            await runtime.execute(run("kept=1"), 1, watcher)
            link.cut()
            await runtime.start()
            assert (await runtime.execute(run("echo $kept"), 2, watcher)).content == "1"

    async def test_restarted_server_is_a_new_session(self, tmp_path: Path, watcher: Watcher) -> None:
        runtime = RemoteHere(tmp_path)
        await runtime.start()
        await runtime.execute(run("kept=1"), 1, watcher)
        assert runtime.server_pid is not None
        os.kill(runtime.server_pid, signal.SIGKILL)
        await runtime.start()
        assert (await runtime.execute(run("echo -$kept-"), 2, watcher)).content == "--"
        await runtime.aclose()
