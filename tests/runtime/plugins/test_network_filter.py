"""What pages may reach: nothing that is not of the web, nothing of the networks around, by no way that a page has."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from aiohttp import web

from runtime.isolation.egress_proxy import ALLOWED_HOSTS
from runtime.plugins.browser.network_filter import NetworkFilter, allowed_in, with_scheme
from tests.runtime.plugins.browser_server import Browser, Site

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRIVATE = "is an address of this machine or its network"


@pytest.mark.browser
class TestAddresses:
    @pytest.mark.parametrize(
        "url",
        [
            *("file:///etc/passwd", "chrome://settings", "view-source:http://localhost/", "javascript:alert(1)"),
            *("data:text/html,x", "blob:http://localhost/1", "devtools://devtools", "ftp://localhost/", "FILE:///etc"),
            *("filesystem:http://localhost/x", "chrome-extension://x/", "about:crash", "intent:x"),
        ],
    )
    async def test_other_schemes_are_refused(self, browser: Browser, url: str) -> None:
        seen = await browser.act(f"goto({url!r})")
        scheme = url.partition(":")[0].lower()
        assert seen.last_browser_action_error == (
            f"ValueError: {scheme}: addresses are refused here, only http:, https: and about:blank are opened"
        )

    @pytest.mark.parametrize(
        "host",
        ["10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "[fd00::1]", "100.64.0.1", "[::ffff:10.0.0.1]"],
    )
    async def test_private_addresses_are_refused(self, browser: Browser, host: str) -> None:
        seen = await browser.browse(f"http://{host}/latest/meta-data")
        assert PRIVATE in seen.last_browser_action_error

    async def test_redirect_to_a_private_address_is_refused(self, browser: Browser, site: Site) -> None:
        async def redirect(request: web.Request) -> web.Response:
            raise web.HTTPFound("http://169.254.169.254/latest/meta-data/")

        site.pages["/"] = redirect
        seen = await browser.browse(site.url())
        assert PRIVATE in seen.last_browser_action_error

    async def test_frames_scripts_and_sockets_cannot_reach_private_addresses(
        self, browser: Browser, site: Site
    ) -> None:
        site.pages["/"] = (
            "<iframe src=http://10.0.0.2/></iframe><img src=http://10.0.0.3/><script>"
            "fetch('http://10.0.0.4/', {mode: 'no-cors'}); new WebSocket('ws://10.0.0.5/');"
            "navigator.sendBeacon('http://10.0.0.6/'); new EventSource('http://10.0.0.7/')</script>"
            "<link rel=stylesheet href=http://10.0.0.8/><form action=http://10.0.0.9/ target=f id=f></form>"
            "<iframe name=f></iframe><script>document.querySelector('#f').submit()</script>"
        )
        seen = await browser.act(f"goto('{site.url()}')\nnoop(300)")
        for last in range(2, 10):
            assert f"[Refused: 10.0.0.{last} {PRIVATE}" in seen.content, last

    async def test_script_cannot_navigate_to_a_file(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = "<h1>still here</h1><script>setTimeout(() => location = 'file:///etc/passwd')</script>"
        seen = await browser.act(f"goto('{site.url()}')\nnoop(200)")
        assert "still here" in seen.content
        assert seen.url == site.url()

    async def test_there_is_no_webrtc(self, browser: Browser, site: Site) -> None:
        site.pages["/"] = "<script>document.title = typeof RTCPeerConnection</script>"
        assert "RootWebArea 'undefined'" in (await browser.act(f"goto('{site.url()}')")).content

    async def test_service_workers_are_blocked(self, browser: Browser, site: Site) -> None:
        async def script(request: web.Request) -> web.Response:
            return web.Response(text="", content_type="text/javascript")

        site.pages |= {
            "/sw.js": script,
            "/": "<script>navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker"
            ".getRegistrations()).then(all => document.title = 'workers ' + all.filter(w => w.active).length)</script>",
        }
        assert "workers 1" not in (await browser.act(f"goto('{site.url()}')\nnoop(200)")).content


class TestGate:
    @pytest_asyncio.fixture(loop_scope="module")
    async def network_filter(self) -> AsyncIterator[NetworkFilter]:
        network_filter = NetworkFilter("", lambda note: None)
        await network_filter.start()
        yield network_filter
        network_filter.close()

    async def test_allowed_private_address_is_open(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # sends nothing, and tells by which address it would be sent
            except OSError:
                pytest.skip("this machine has no address but loopback")
            own = probe.getsockname()[0]
        async with Site(own).served() as site:
            site.pages["/"] = "here"
            port = urlsplit(site.url()).port
            for allowed, answer in (
                (f"{own}:{port}", b"here"),
                (f"{own}:1", PRIVATE.encode()),
                ("*", PRIVATE.encode()),
            ):
                network_filter = NetworkFilter(
                    "", lambda note: None, allowed_in({ALLOWED_HOSTS: f"example.org,{allowed}"})
                )
                await network_filter.start()
                assert answer in await self.asked(network_filter, f"GET {site.url()} HTTP/1.1\r\n\r\n".encode())
                network_filter.close()

    async def asked(self, network_filter: NetworkFilter, *pieces: bytes) -> bytes:
        """The filter's answers to requests and to data in their tunnels."""
        port = int(network_filter.address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(60):
            answer = b""
            for piece in pieces:
                writer.write(piece)
                if piece is not pieces[-1]:
                    answer += await reader.readuntil(b"\r\n\r\n")
            answer += await reader.read()
        writer.close()
        return answer

    @pytest.mark.parametrize(
        ("fields", "is_admitted"),
        [
            (b"Sec-Fetch-Site: none\r\n", True),
            (b"Sec-Fetch-Site: same-origin\r\n", True),
            (b"Sec-Fetch-Site: cross-site\r\nReferer: http://localhost:3000/\r\n", True),
            (b"Sec-Fetch-Site: cross-site\r\nReferer: https://example.org/\r\n", False),
            (b"Sec-Fetch-Site: cross-site\r\n", False),
        ],
    )
    async def test_cross_site_request_to_the_sandbox_is_refused(
        self, network_filter: NetworkFilter, site: Site, fields: bytes, is_admitted: bool
    ) -> None:
        site.pages["/"] = "ours"
        url = site.url().encode()
        answer = await self.asked(network_filter, b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (url, fields))
        assert (b"ours" in answer) is is_admitted
        assert (b"403" in answer.partition(b"\r\n")[0]) is not is_admitted
        assert site.asked == (["/"] if is_admitted else [])

    async def test_cross_site_websocket_to_the_sandbox_is_refused(
        self, network_filter: NetworkFilter, site: Site
    ) -> None:
        address = site.url().removeprefix("http://").rstrip("/").encode()
        tunnel = b"CONNECT %s HTTP/1.1\r\n\r\n" % address
        knock = b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nOrigin: %s\r\n\r\n"
        assert b" 403 " in await self.asked(network_filter, tunnel, knock % (address, b"https://example.org"))
        assert site.asked == []
        site.pages["/"] = "ours"
        assert b"ours" in await self.asked(network_filter, tunnel, knock % (address, b"http://localhost:3000"))

    @pytest.mark.parametrize("head", [b"\r\n\r\n", b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff\r\n\r\n"])
    async def test_invalid_request_is_refused(self, network_filter: NetworkFilter, head: bytes) -> None:
        assert (await self.asked(network_filter, head)).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("example.org", "https://example.org"),
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        (" http://x/ ", "http://x/"),
        ("file:///x", "file:///x"),
        ("//example.org/x", "https://example.org/x"),
    ],
)
async def test_missing_scheme_is_added(written: str, meant: str) -> None:
    assert with_scheme(written) == meant
