"""The way out of a sandbox: only to whom the user named, only to addresses of the internet, looked at on every hop."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from core.errors import RuntimeUnavailableError
from core.sandbox_types import Denials, DeniedHosts
from runtime.isolation.egress_proxy import (
    MAX_CONNECTIONS,
    DeniedError,
    EgressProxy,
    RefusedError,
    Rule,
    destination,
    is_public,
)
from tests.repeated import leaves_nothing_running
from tests.runtime.isolation.confined import isolated, repository, run

INWARDS = (
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "172.17.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2001:db8::1",
)
SPELLED = (
    "localhost",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0",
    "[::1]",
    "[::ffff:7f00:1]",
    "LOCALHOST.",
    "169.254.43518",
)


@pytest.mark.parametrize("address", INWARDS)
def test_private_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "2a00:1450::1", "64:ff9b::101:101"])
def test_internet_address_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", [*INWARDS, *SPELLED])
async def test_private_addresses_are_refused_with_allow_all(host: str) -> None:
    egress = EgressProxy([Rule.parse("*")])
    with pytest.raises(RefusedError):
        await egress.addresses(host, 80)


async def test_host_names_match_allow_rules() -> None:
    rules = [Rule.parse(text) for text in ("example.org", "*.example.net", "example.com:8443", "[2606:4700::1111]:53")]

    def allowed(host: str, port: int = 443) -> bool:
        return any(rule.allows(host, port) for rule in rules)

    assert allowed("example.org")
    assert allowed("example.org", 80)
    assert not allowed("example.org", 22)
    assert not allowed("www.example.org")
    assert not allowed("example.org.evil.test")
    assert not allowed("evilexample.org")
    assert allowed("a.b.example.net")
    assert not allowed("example.net")
    assert not allowed("evil-example.net")
    assert allowed("example.com", 8443)
    assert not allowed("example.com")
    assert allowed("2606:4700::1111", 53)
    with pytest.raises(RefusedError, match=r"sandbox.allowed_hosts"):
        await EgressProxy(rules).addresses("elsewhere.test", 443)


@pytest.mark.parametrize("text", ["", " ", "a b", "http://example.org", "user@example.org", "example.org:many"])
def test_invalid_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Rule.parse(text)


async def test_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def two(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", ("93.184.215.14", 443)), (2, 1, 6, "", ("10.0.0.1", 443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
    with pytest.raises(RefusedError, match="address of this machine"):
        await EgressProxy([Rule.parse("rebound.test")]).addresses("rebound.test", 443)


def denying(*globs: str) -> list[DeniedHosts]:
    return [DeniedHosts(glob, f"policy.toml:1 deny net({glob})") for glob in globs]


@pytest.mark.parametrize(
    ("glob", "host"),
    [
        ("evil.test", "evil.test"),
        ("evil.test", "EVIL.test."),
        ("Evil.Test", "evil.test"),
        ("*.evil.test", "deep.er.evil.test"),
        ("*", "anybody.test"),
        ("büro.test", "xn--bro-hoa.test"),
        ("evil.test", "1.1.1.1"),
        ("evil.test", "16843009"),
        ("evil.test", "0x1010101"),
        ("evil.test", "[2606:4700::1111]"),
        ("1.1.1.1", "1.1.1.1"),
    ],
)
async def test_denied_host_is_refused_and_the_rule_named(glob: str, host: str) -> None:
    with pytest.raises(DeniedError, match=r"policy\.toml:1 deny net\("):
        await EgressProxy([Rule.parse("*")], denying(glob)).addresses(host, 443)


async def test_name_of_a_denied_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", ("93.184.215.14", 443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    assert await EgressProxy([Rule.parse("*")], denying("evil.test")).addresses("fine.test", 443) == ["93.184.215.14"]
    with pytest.raises(DeniedError, match=r"fine\.test is denied by the rule"):
        await EgressProxy([Rule.parse("*")], denying("93.184.*")).addresses("fine.test", 443)


async def test_allowed_address_is_reached_while_names_are_denied() -> None:
    egress = EgressProxy([Rule.parse("127.0.0.1:8080"), Rule.parse("*")], denying("evil.test"))
    assert await egress.addresses("127.0.0.1", 8080) == ["127.0.0.1"]


@pytest.mark.parametrize("request_", [b"CONNECT evil.test:443 HTTP/1.1", b"GET http://evil.test/ HTTP/1.1"])
async def test_denied_call_names_the_rule_in_status_line_and_body(tmp_path: Path, request_: bytes) -> None:
    rule = DeniedHosts("evil.test", "policy.toml:1 deny net(evil.test) \r\nX: é")
    async with proxy(tmp_path, "*", denied=[rule]) as socket:
        answer = await ask(socket, request_ + b"\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *fields = head.split(b"\r\n")
    assert first == b"HTTP/1.1 403 evil.test is denied by the rule policy.toml:1 deny net(evil.test) X: ?"
    assert not any(field.startswith(b"X:") for field in fields)
    assert body.decode().startswith("evil.test is denied by the rule policy.toml:1")


CREDENTIALS = base64.b64encode(b"user:password").decode()


@pytest.mark.parametrize(
    "field",
    [
        f"Proxy-Authorization: Basic {CREDENTIALS}",
        f"proxy-authorization : Basic {CREDENTIALS}",
        "Proxy-Connection: keep-alive",
        "Connection: keep-alive",
        "Keep-Alive: timeout=5",
        "Host: elsewhere.test",
    ],
)
def test_proxy_headers_are_not_forwarded(field: str) -> None:
    head = f"GET http://example.org/x HTTP/1.1\r\n{field}\r\nAccept: */*\r\n\r\n".encode()
    passed_on = b"GET /x HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    assert destination(head) == ("example.org", 80, passed_on)


# -- over the wire ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def page(text: str = "a page", status: int = 200, headers: Mapping[str, str] | None = None) -> AsyncIterator[int]:
    """A web server of the host, on loopback; its port."""

    async def answer(request: web.Request) -> web.Response:
        said = f"{text} {request.path_qs} for {request.host} {await request.text()}"
        return web.Response(text=said, status=status, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def proxy(folder: Path, *rules: str, denied: Sequence[DeniedHosts] = ()) -> AsyncIterator[Path]:
    egress = EgressProxy(map(Rule.parse, rules), denied)
    server = await asyncio.start_unix_server(egress.serve, folder / "proxy", limit=64 * 1024)
    async with server:
        yield folder / "proxy"


async def ask(socket: Path, request: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(request)
    try:
        async with asyncio.timeout(10):
            return await reader.read(1_000_000)
    finally:
        writer.close()


async def test_allowed_private_address_is_reached(tmp_path: Path) -> None:
    async with page() as port, proxy(tmp_path, f"127.0.0.1:{port}") as socket:
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert b"200" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /x HTTP/1.0\r\n\r\n")
        assert b"a page /x" in await reader.read()
        writer.close()


async def test_plain_request_is_forwarded_without_proxy_headers(tmp_path: Path) -> None:
    async with page() as port, proxy(tmp_path, f"127.0.0.1:{port}") as socket:
        head = f"POST http://127.0.0.1:{port}/y?z=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nProxy-Connection: keep-alive\r\n"
        answer = await ask(socket, f"{head}Content-Length: 4\r\n\r\nbody".encode())
        assert f"a page /y?z=1 for 127.0.0.1:{port} body".encode() in answer
        assert b"Connection: close" in answer


async def test_many_sequential_connections_are_not_refused(tmp_path: Path) -> None:
    async with page() as port, proxy(tmp_path, f"127.0.0.1:{port}") as socket:

        async def call() -> None:
            answer = await ask(socket, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 200 "), answer

        await leaves_nothing_running(call, times=MAX_CONNECTIONS + 1)


async def test_too_many_concurrent_connections_are_refused(tmp_path: Path) -> None:
    async with page() as port, proxy(tmp_path, f"127.0.0.1:{port}") as socket:
        opened = [await asyncio.open_unix_connection(socket) for _ in range(MAX_CONNECTIONS + 1)]
        assert b"too many connections at once" in await opened[-1][0].read()
        reader, last = opened[-2]
        last.write(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize(
    "request_",
    [
        b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET file:///etc/passwd HTTP/1.1\r\n\r\n",
        b"GET ftp://example.org/ HTTP/1.1\r\n\r\n",
        b"CONNECT :443 HTTP/1.1\r\n\r\n",
        b"CONNECT a:b:c HTTP/1.1\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
async def test_hosts_that_are_not_allowed_are_refused(tmp_path: Path, request_: bytes) -> None:
    async with proxy(tmp_path, "allowed.test") as socket:
        assert (await ask(socket, request_)).startswith(b"HTTP/1.1 403 ")


async def test_endless_header_is_refused(tmp_path: Path) -> None:
    async with proxy(tmp_path, "*") as socket:
        assert (await ask(socket, b"GET http://a/ HTTP/1.1\r\nA: " + b"a" * 100_000)).startswith(b"HTTP/1.1 431 ")


def test_proxy_program_refuses_an_invalid_rule(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "runtime.isolation.egress_proxy",
        "--uds",
        str(tmp_path / "s"),
        "--allow",
        "http://x",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 2
    assert "is not a host" in done.stderr


# -- from a sandbox --------------------------------------------------------------------------------------------------


@pytest.mark.bubblewrap
async def test_deny_rule_blocks_a_host_for_all_programs_of_a_sandbox(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    denials = Denials(hosts=(*denying("127.0.0.2", "*.evil.test"),))
    async with page() as port:
        hosts = (f"127.0.0.1:{port}", f"127.0.0.2:{port}", "*")
        async with isolated(workspace, denials=denials, allowed_hosts=hosts) as runtime:
            fetch = "curl -sS -m 10 --noproxy '' {}"
            http = await run(runtime, fetch.format(f"http://127.0.0.2:{port}/"))
            told = "127.0.0.2 is denied by the rule policy.toml:1 deny net(127.0.0.2)"
            assert (told in http.content, told in http.metadata.suffix) == (True, True)
            https = await run(runtime, fetch.format("https://www.evil.test/"))
            told = "www.evil.test is denied by the rule policy.toml:1 deny net(*.evil.test)"
            assert (https.exit_code, told in https.metadata.suffix) == (56, True)
            urllib = "import urllib.request as r; r.urlopen('https://www.evil.test/')"
            python = await run(runtime, f'python3 -c "{urllib}"')
            assert f"Tunnel connection failed: 403 {told}" in python.content
            other = await run(runtime, fetch.format(f"http://127.0.0.1:{port}/"))
            assert other.content.startswith("a page")
            assert "denied" not in other.metadata.suffix


@pytest.mark.bubblewrap
async def test_denying_every_host_leaves_only_loopback(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    async with page() as port:
        allowed = (f"127.0.0.1:{port}", "*")
        async with isolated(workspace, denials=Denials(hosts=(*denying("*"),)), allowed_hosts=allowed) as runtime:
            said = await run(runtime, f"curl -sS -m 10 --noproxy '' http://127.0.0.1:{port}/")
            assert "127.0.0.1 is denied by the rule policy.toml:1 deny net(*)" in said.content
            serve = "python3 -m http.server -b 127.0.0.1 8765 >/dev/null 2>&1 &"
            until = "until curl -sS http://127.0.0.1:8765/ 2>/dev/null; do sleep 0.1; done"
            assert "Directory listing" in (await run(runtime, f"{serve} {until}")).content


@pytest.mark.bubblewrap
async def test_sandbox_reaches_only_allowed_hosts(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    async with (
        page() as port,
        page("another") as other,
        isolated(workspace, allowed_hosts=(f"127.0.0.1:{port}",)) as runtime,
    ):
        fetch = "curl -sS -m 10 --noproxy '' http://127.0.0.1:{}/"
        assert (await run(runtime, fetch.format(port))).content.startswith("a page")
        assert "is not allowed" in (await run(runtime, fetch.format(other))).content
        direct = await run(runtime, f"curl -s -m 5 --noproxy '*' http://127.0.0.1:{port}/")
        assert direct.exit_code != 0


@pytest.mark.bubblewrap
async def test_redirect_is_checked_again(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    async with page("secret") as inwards:
        to = {"Location": f"http://127.0.0.1:{inwards}/"}
        async with page("moved", 302, to) as port, isolated(workspace, allowed_hosts=(f"127.0.0.1:{port}",)) as runtime:
            said = await run(runtime, f"curl -sS -L -m 10 --noproxy '' http://127.0.0.1:{port}/")
    assert "secret" not in said.content
    assert "is not allowed" in said.content


@pytest.mark.bubblewrap
async def test_without_allowed_hosts_the_proxy_refuses_everything(tmp_path: Path) -> None:
    async with page("secret") as port, isolated(repository(tmp_path / "workspace")) as runtime:
        for host in (f"127.0.0.1:{port}", "example.org", "1.1.1.1"):
            said = await run(runtime, f"curl -sS -m 10 --noproxy '' http://{host}/")
            assert "is not allowed" in said.content


@pytest.mark.bubblewrap
async def test_unknown_name_is_reported_and_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match=r"is not a host.*Correct sandbox\.allowed_hosts"):
        async with isolated(repository(tmp_path / "workspace"), allowed_hosts=("http://x",)):
            pass
