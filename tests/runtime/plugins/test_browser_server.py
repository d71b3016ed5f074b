"""The browser through a server: isolated, watched live, with too large pages, and absent from the list of jobs."""

from __future__ import annotations

import asyncio
import io
import time
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest
from PIL import Image

from core.errors import UsageError
from core.events import BrowseInteractiveAction, BrowserOutputObservation, BrowseURLAction, PageShown
from runtime.client import ActionExecutionClient
from runtime.local.local_runtime import LocalRuntime
from tests.runtime.action_server import KEY, Server
from tests.runtime.isolation.confined import isolated, own, run
from tests.runtime.plugins.browser_server import Browser, Site

pytestmark = pytest.mark.browser
PLUGIN = ("--plugins", "browser")


async def seen(runtime: LocalRuntime, url: str) -> BrowserOutputObservation:
    observation = await runtime.execute(BrowseURLAction(url=url), 1, lambda frame: None)
    assert isinstance(observation, BrowserOutputObservation), observation
    return observation


@pytest.mark.bubblewrap
async def test_isolated_browser_opens_servers_of_its_sandbox(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "index.html").write_text("<h1>built here</h1>")
    own(workspace)
    async with isolated(workspace, options=PLUGIN) as runtime:
        server = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)"
        serve = f"{server}; print(s.server_port, flush=True); s.serve_forever()"
        port = (await run(runtime, f'mkfifo p; python3 -c "{serve}" >p 2>/dev/null & read n <p; echo $n')).content
        page = await seen(runtime, f"localhost:{port.split()[0]}")  # after it comes the line of the job
        assert "# built here" in page.content
        assert page.screenshot_path is not None
        assert (await run(runtime, f"head -c 4 {page.screenshot_path} | tail -c 3")).content.startswith("PNG")
        outside = await seen(runtime, "http://example.org/")
        refusal = "example.org:80 is not allowed; the user can add it to sandbox.allowed_hosts"
        assert outside.last_browser_action_error == refusal


PDF = """%PDF-1.1
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R>>endobj
4 0 obj<</Length 27>>stream
1 0 0 rg 0 0 612 792 re f
endstream endobj
trailer<</Root 1 0 R>>
"""
"""A page that is red."""


LOOKS = 20
MANY_PIXELS = 50_000


@pytest.mark.bubblewrap
async def test_isolated_browser_shows_pictures_and_pdf_files_of_its_sandbox(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.pdf").write_text(PDF)
    Image.new("RGB", (400, 300), "red").save(workspace / "b.png")
    own(workspace)
    async with isolated(workspace, options=PLUGIN) as runtime:
        address = (await run(runtime, "cat /tmp/oh-server-url")).content.split()[0]
        for name in ("a.pdf", "b.png"):
            red = 0
            for _attempt in range(LOOKS):  # Chromium draws a PDF after the page is loaded
                page = await seen(runtime, f"{address}/view?path={workspace}/{name}")
                assert not page.error, page.content
                await run(runtime, f"cp {page.screenshot_path} {workspace}/{name}.shot")
                pixels = Image.open(workspace / f"{name}.shot").convert("RGB").tobytes()
                red = sum(pixels[n] > 200 and pixels[n + 1] < 50 for n in range(0, len(pixels), 3))
                if red > MANY_PIXELS:
                    break
            assert red > MANY_PIXELS, name


class TestStream:
    async def test_screenshots_are_sent_while_watched(self, tmp_path: Path) -> None:
        async with Site().served() as site:
            site.pages["/"] = (
                "<title>Clock</title><h1></h1><script>setInterval(() => document.querySelector('h1').textContent"
                " = performance.now(), 5)</script>"
            )
            runtime = LocalRuntime(tmp_path, options=PLUGIN)
            await runtime.start()
            try:
                assert runtime._client is not None
                await seen(runtime, site.url())
                shown: list[PageShown] = []
                began = time.monotonic()
                async with aclosing(runtime._client.watch_page()) as pages, asyncio.timeout(20):
                    async for page in pages:
                        shown.append(page)
                        if len(shown) == 4:
                            break
                assert time.monotonic() - began > 0.55, "more than five a second"
                assert {(page.title, page.url, page.cause) for page in shown[1:]} == {("Clock", site.url(), 1)}
                picture = Image.open(io.BytesIO(shown[-1].data))
                assert picture.format == "JPEG"
                assert picture.size == (shown[-1].width, shown[-1].height)
                assert shown[0].data != shown[-1].data
                assert "Clock" in (await self.tree(runtime))
            finally:
                await runtime.aclose()

    async def tree(self, runtime: LocalRuntime) -> str:
        return (
            await runtime.execute(BrowseInteractiveAction(browser_actions="noop(1)"), 2, lambda frame: None)
        ).content

    async def test_active_tab_is_shown(self, tmp_path: Path) -> None:
        async with Site().served() as site:
            site.pages |= {"/a": "<title>A</title>a", "/b": "<title>B</title>b"}
            runtime = LocalRuntime(tmp_path, options=PLUGIN)
            await runtime.start()
            try:
                assert runtime._client is not None
                await seen(runtime, site.url("/a"))
                async with aclosing(runtime._client.watch_page()) as pages, asyncio.timeout(20):
                    async for page in pages:
                        if page.title == "A":
                            break
                    calls = f"new_tab()\ngoto('{site.url('/b')}')"
                    await runtime.execute(BrowseInteractiveAction(browser_actions=calls), 2, lambda frame: None)
                    async for page in pages:
                        if page.title == "B":
                            break
            finally:
                await runtime.aclose()

    async def test_reader_waits_for_the_sandbox_and_follows_the_next(self, tmp_path: Path) -> None:
        async with Site().served() as site:
            site.pages["/"] = "<title>Here</title>"
            runtime = LocalRuntime(tmp_path, options=PLUGIN)
            async with aclosing(runtime.watch_page()) as pages, asyncio.timeout(40):
                for _ in range(2):
                    coming = asyncio.ensure_future(anext(pages))
                    try:
                        await runtime.start()
                        await seen(runtime, site.url())
                        while (await coming).title != "Here":
                            coming = asyncio.ensure_future(anext(pages))
                    finally:
                        await runtime.aclose()

    async def test_missing_browser_is_reported(self, client: ActionExecutionClient) -> None:
        with pytest.raises(UsageError, match="no browser"):
            await anext(client.watch_page())

    async def test_stream_requires_the_key(self, server: Server, http: aiohttp.ClientSession) -> None:
        assert (await http.get(f"{server.url}/browser/stream")).status == 401
        assert (await http.get(f"{server.url}/browser/stream", headers={"X-Session-API-Key": KEY})).status == 404


async def test_browser_is_not_a_job(tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path, options=PLUGIN)
    await runtime.start()
    try:
        await seen(runtime, "about:blank")
        assert await runtime.jobs() == []
    finally:
        await runtime.aclose()


class TestTooMuch:
    @pytest.fixture
    async def browser(self, tmp_path: Path) -> Browser:
        return Browser(tmp_path)

    @pytest.mark.parametrize(
        "page",
        [
            pytest.param("<p>" + "word " * 400_000, id="2 MB of text"),
            pytest.param("<p><b>x</b>" * 10_000, id="20,000 elements"),
            pytest.param("<div>" * 5_000 + "x", id="nested 5,000 deep"),
            pytest.param("<div style='width: 100000px; height: 100000px'>x</div>", id="100,000 pixels wide and high"),
        ],
    )
    async def test_too_large_page_is_shown_in_part(self, browser: Browser, page: str) -> None:
        async with Site().served() as site:
            site.pages["/"] = page
            try:
                await browser.plugin.start()
                began = time.monotonic()
                observation = await browser.browse(site.url())
                tree = await browser.act("scroll(0, 10)")
                assert time.monotonic() - began < 2 * 40
                assert len(observation.content) < 210_000
                assert len(tree.content) < 210_000
                if len(page) > 100_000:
                    assert "truncated" in observation.content + tree.content
                site.pages["/"] = "<h1>well</h1>"
                assert "# well" in (await browser.browse(site.url())).content
            finally:
                await browser.aclose()
