"""Private addresses in every spelling that clients and resolvers know, and names that are resolved again.

Everybody is allowed here, so that nothing but the look at the address itself can refuse.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.isolation.egress_proxy import EgressProxy, Rule
from tests.runtime.isolation.confined import isolated, repository, run
from tests.runtime.isolation.test_egress_proxy import ask, page, proxy

HOSTS = {
    "loopback": (
        *("127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.255.255.254", "127.8.9.10"),
        *("localhost", "LOCALHOST", "localhost.", "lOcAlHoSt.", "ip6-localhost"),
    ),
    "loopback as a number": (
        *("2130706433", "0x7f000001", "0X7F000001", "0x7f.1", "0x7f.0.0.1", "0x7f.0x0.0x0.0x1"),
        *("0177.0.0.1", "017700000001", "0177.1", "00000177.0.0.1", "127.0x1", "127.00.00.01"),
    ),
    "loopback in version 6": (
        *("[::1]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::0001]"),
        *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]"),
        *("[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::ffff:0:127.0.0.1]"),
    ),
    "any address": ("0.0.0.0", "0", "0x0", "00", "0.0", "[::]", "[::ffff:0.0.0.0]", "0.1.2.3"),
    "metadata of a cloud": (
        *("169.254.169.254", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518"),
        *("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]"),
        *("[fd00:ec2::254]", "[fe80::a9fe:a9fe]", "169.254.170.2", "100.100.100.200"),
    ),
    "networks of ours": (
        *("10.0.0.1", "10.1", "0xa000001", "012.0.0.1", "172.16.0.1", "172.17.0.1", "172.31.255.255", "192.168.0.1"),
        *("3232235521", "192.168.1", "[::ffff:10.0.0.1]", "[::ffff:c0a8:1]", "[fc00::1]", "[fd12:3456:789a::1]"),
        *(
            "[fe80::1]",
            "[fe80::1%25lo]",
            "[fec0::1]",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.0.1",
            "224.0.0.1",
            "[ff02::1]",
        ),
        *("255.255.255.255", "240.0.0.1"),
    ),
}
URLS = [(kind, host) for kind, hosts in HOSTS.items() for host in hosts]
TRICKS = (
    "http://example.org@127.0.0.1:{port}/",
    "http://example.org:80@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@example.org/",
    "http://127.0.0.1:{port}?@example.org/",
    "http://127.0.0.1:{port}\\@example.org/",
    "http://127.0.0.1:{port}%00.example.org/",
    "http://127.0.0.1%2f:{port}/",
    "http:127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "HTTP://127.0.0.1:{port}/",
    "http://127。0。0。1:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "https://127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/_x",
    "file:///etc/passwd",
    "dict://127.0.0.1:{port}/x",
)
"""Addresses that two readers could take for two places. None is answered by the page on `port`."""


@pytest.fixture
async def secret(tmp_path: Path) -> object:
    """A proxy that allows every host and port, and a page of the host that must stay unreachable; yields its port."""
    async with page("secret") as port:
        rules = [f"*:{number}" for number in (80, 443, port)]
        async with proxy(tmp_path, *rules) as egress_process:
            yield egress_process, port


def test_enough_attack_paths_are_tried() -> None:
    assert len(URLS) + len(TRICKS) >= 60
    assert len(set(URLS)) == len(URLS)


@pytest.mark.parametrize(("kind", "host"), URLS)
async def test_private_address_is_refused_in_every_spelling(secret: tuple[Path, int], kind: str, host: str) -> None:
    egress_process, port = secret
    for target in (f"GET http://{host}:{port}/ HTTP/1.1", f"CONNECT {host}:{port} HTTP/1.1"):
        answer = await ask(egress_process, f"{target}\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 403 "), answer
        assert b"does not answer" not in answer, "nobody was called"


@pytest.mark.parametrize("url", TRICKS)
async def test_ambiguous_url_is_refused(secret: tuple[Path, int], url: str) -> None:
    egress_process, port = secret
    answer = await ask(egress_process, f"GET {url.format(port=port)} HTTP/1.1\r\nHost: example.org\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 "), answer


async def test_host_header_does_not_choose_the_destination(tmp_path: Path) -> None:
    """The address of the request decides, and only it is sent to the server: see RFC 9112, 3.2.2."""
    async with page("allowed") as port, page("secret") as other, proxy(tmp_path, f"127.0.0.1:{port}") as egress_process:
        asked = f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{other}\r\nHost: x\r\n\r\n"
        assert f"allowed / for 127.0.0.1:{port}".encode() in await ask(egress_process, asked.encode())
        second = f"GET http://127.0.0.1:{other}/ HTTP/1.1\r\nHost: x\r\n\r\n"
        assert b"secret" not in await ask(egress_process, (asked + second).encode())


class Rebinding:
    """A resolver with a time to live of zero: a public address first, a private one afterwards."""

    def __init__(self, *answers: str) -> None:
        self.answers: Iterator[str] = itertools.chain(answers, itertools.repeat(answers[-1]))
        self.asked = 0

    async def getaddrinfo(self, host: str, port: int, **options: object) -> list[tuple[object, ...]]:
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(self.answers), port))]


@pytest.mark.parametrize("answers", [("93.184.215.14", "127.0.0.1"), ("127.0.0.1", "93.184.215.14")])
async def test_dns_rebinding_reaches_the_checked_address(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[str, str]
) -> None:
    resolver, called = Rebinding(*answers), []

    async def call(host: str, port: int) -> object:
        called.append(host)
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver.getaddrinfo)
    monkeypatch.setattr(asyncio, "open_connection", call)
    egress = EgressProxy([Rule.parse("rebound.test")])
    for _ in range(3):
        with pytest.raises(Exception, match=r"does not answer|address of this machine"):
            await egress.connect("rebound.test", 80)
    assert resolver.asked == 3, "each call is looked up once, and no cache answers for it"
    assert set(called) <= {"93.184.215.14"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_to_a_private_address_is_refused(tmp_path: Path, status: int) -> None:
    """A redirect is passed on unchanged; a client that follows it makes another request, which is refused."""
    async with page("secret") as inwards:
        to = f"http://127.0.0.1:{inwards}/"
        async with (
            page("moved", status, {"Location": to}) as port,
            proxy(tmp_path, f"127.0.0.1:{port}") as egress_process,
        ):
            moved = await ask(egress_process, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert f"HTTP/1.1 {status}".encode() in moved
            assert b"secret" not in moved
            followed = await ask(egress_process, f"GET {to} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert followed.startswith(b"HTTP/1.1 403 ")


@pytest.mark.bubblewrap
async def test_curl_in_a_sandbox_reaches_no_private_address(tmp_path: Path) -> None:
    """curl has its own spellings and resolver; with every host allowed, it reaches no private address."""
    async with (
        page("secret") as port,
        isolated(repository(tmp_path / "workspace"), allowed_hosts=(f"*:{port}",)) as inside,
    ):
        urls = [f"http://{host}:{port}/" for _, host in URLS] + [url.format(port=port) for url in TRICKS]
        listing = "\n".join(urls)
        script = (
            f"while IFS= read -r url; do curl -gsS -m 5 -L --noproxy '' \"$url\"; done <<'URLS' 2>&1\n{listing}\nURLS"
        )
        said = (await run(inside, script)).content
    assert "secret" not in said
    assert said.count("is an address of this machine or its network") > 40
