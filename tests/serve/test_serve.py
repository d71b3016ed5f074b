"""The workspace in a web browser: a real `handloom serve`, and a real headless Chromium that looks at it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pyte
import pytest
from playwright.async_api import Browser, Page, WebSocket, async_playwright

from runtime.plugins.browser import chromium
from tests.doubles import FINISH, bash, write_script
from tests.program import NO_ISOLATION, Handloom
from tests.runtime.conftest import has_ended
from tui.serve.web_server import GONE, REFUSED, WorkspaceServer

WITHIN_S = 60.0


class Served:
    """A `handloom serve` under way, and its address."""

    def __init__(self, handloom: Handloom, *arguments: str) -> None:
        self.process = handloom.start("serve", *arguments)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().decode().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.process.communicate(timeout=20)
        self.host = urlsplit(self.address).netloc
        self.token = urlsplit(self.address).fragment

    def children(self) -> list[int]:
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, check=False)
        return [int(pid) for pid in listed.stdout.split()]

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            for pipe in (self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    # the terminal in which it is started can draw nothing: the page is one of its own
    return Handloom(tmp_path, TERM="dumb", HANDLOOM__AGENT__CONFIRM="never")


@pytest.fixture
def served(handloom: Handloom) -> Iterator[Served]:
    look = {"text": "A look around.", "tool_calls": [bash("echo seen-$((6*7)); touch worked")]}
    server = Served(handloom, "--model", write_script(handloom.workspace.parent, [look, FINISH]))
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        program = chromium.find(playwright)
        opened = await playwright.chromium.launch(executable_path=program, chromium_sandbox=False)
        yield opened
        await opened.close()


class Screen:
    """The data sent to a page, as a terminal shows it: the page draws on a canvas without text."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._screen = pyte.Screen(200, 60)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = asyncio.Event()
        self.sent: list[Any] = []
        self.complaints: list[str] = []
        page.on("websocket", self._watch)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)

    def _watch(self, socket: WebSocket) -> None:
        self._screen.reset()
        socket.on("framereceived", self._take)
        socket.on("framesent", lambda payload: self.sent.append(json.loads(payload)))

    def _take(self, payload: str | bytes) -> None:
        if isinstance(payload, bytes):
            self._stream.feed(payload)
            self._changed.set()

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    async def shows(self, *words: str) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                while not all(word in self.text for word in words):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{words} are not on the screen:\n{self.text}\n{self.complaints}") from None


async def opened(browser: Browser, address: str) -> Screen:
    context = await browser.new_context(viewport={"width": 1280, "height": 760})
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    screen = Screen(await context.new_page())
    await screen.page.goto(address)
    return screen


async def colours(page: Page) -> int:
    """How many colours a picture of the page has: a page that draws nothing has one or two."""
    import io

    from PIL import Image

    with Image.open(io.BytesIO(await page.screenshot())) as picture:
        return len(picture.convert("RGB").getcolors(1 << 24) or [])


async def draws(page: Page) -> None:
    """Wait until the page has drawn the data that it got, which takes some frames."""
    async with asyncio.timeout(WITHIN_S):
        while await colours(page) <= 20:
            await asyncio.sleep(0.1)


# -- it draws, takes keys, copies, and is there again ----------------------------------------------------------------


@pytest.mark.browser
async def test_task_is_typed_answered_copied_and_survives_a_reload(
    served: Served, browser: Browser, handloom: Handloom
) -> None:
    screen = await opened(browser, served.address)
    await screen.shows("Ask for something", "waiting for you")
    assert served.token not in await screen.page.evaluate("location.href")
    await draws(screen.page)
    await screen.page.keyboard.type("look around — 你好")
    await screen.shows("look around — 你好")
    await screen.page.keyboard.press("Enter")
    await screen.shows("seen-42", "finished")
    assert (handloom.workspace / "worked").exists()

    for key in ("Control+x", "y"):
        await screen.page.keyboard.press(key)
    await screen.shows("Copied")
    assert await clipboard(screen.page) == "All is done."

    await screen.page.keyboard.type("half a sentence")
    await screen.shows("half a sentence")
    child = served.children()
    await screen.page.reload()
    await screen.shows("seen-42", "half a sentence", "finished")
    assert served.children() == child
    await draws(screen.page)
    assert screen.complaints == []
    await screen.page.keyboard.press("Control+q")
    await words_of(screen.page, "The workspace has ended")
    await screen.page.reload()
    async with asyncio.timeout(WITHIN_S):  # the page has the old screen until the next workspace draws
        while served.children() in ([], child):
            await asyncio.sleep(0.05)
    await screen.shows("seen-42")
    (child_pid,) = served.children()
    assert served.end() == 0
    assert has_ended(child_pid)


@pytest.mark.browser
async def test_second_viewer_takes_over(served: Served, browser: Browser) -> None:
    first = await opened(browser, served.address)
    await first.shows("waiting for you")
    second = await opened(browser, served.address)
    await second.shows("waiting for you")
    await words_of(first.page, "shown in another tab")
    await second.page.keyboard.type("typed here")
    await second.shows("typed here")
    assert "typed here" not in first.text
    await second.page.set_viewport_size({"width": 640, "height": 400})
    await second.shows("chat  events  terminal")  # one pane: the terminal has the page's size


@pytest.mark.browser
async def test_page_without_token_is_empty(served: Served, browser: Browser) -> None:
    screen = await opened(browser, served.address.partition("#")[0])
    await words_of(screen.page, "not complete")
    assert (screen.text, served.children()) == ("", [])


@pytest.mark.browser
async def test_paste_is_one_paste_and_is_not_sent(served: Served, browser: Browser, handloom: Handloom) -> None:
    screen = await opened(browser, served.address)
    await screen.shows("waiting for you")
    await screen.page.evaluate("text => navigator.clipboard.writeText(text)", "first 你好\nsecond\n")
    await screen.page.keyboard.press("Control+Shift+V")
    await screen.shows("first 你好", "second")
    pasted = [message[1] for message in screen.sent if message[0] == "stdin" and "first" in message[1]]
    assert pasted == ["\x1b[200~first 你好\rsecond\r\x1b[201~"]
    assert "waiting for you" in screen.text
    assert handloom.conversations() == [] or not handloom.conversations()[0].get("title")


# -- its end, and its way back ---------------------------------------------------------------------------------------


@pytest.fixture
def kept(handloom: Handloom) -> Iterator[Callable[[], Served]]:
    """Starts a server again and again on one port with one token; its agent runs a long command.

    There is no isolation, so that the number that the shell has of itself is the one it has here.
    """
    handloom.environ = {**handloom.environ, **NO_ISOLATION}
    look = {"text": "I wait.", "tool_calls": [bash("echo $$ > shell; echo begun-$((40+2)); sleep 600")]}
    model = write_script(handloom.workspace.parent, [look, FINISH])
    servers: list[Served] = []

    def start() -> Served:
        port = servers[-1].host.partition(":")[2] if servers else "0"
        token = str(handloom.home.parent / "token")
        servers.append(Served(handloom, "--model", model, "--port", port, "--token-file", token))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


def descendants(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, check=False).stdout.split()
    children = [int(child) for child in listed]
    return [*children, *(below for child in children for below in descendants(child))]


async def at_work(browser: Browser, server: Served, handloom: Handloom) -> tuple[Screen, list[int]]:
    """A page in which the agent runs a command that lasts, and everything that the server has started for it."""
    screen = await opened(browser, server.address)
    await screen.shows("waiting for you")
    await screen.page.keyboard.type("begin")
    await screen.shows("begin")
    await screen.page.keyboard.press("Enter")
    await screen.shows("begun-42")
    started = await asyncio.to_thread(descendants, server.process.pid)
    assert int((handloom.workspace / "shell").read_text()) in started
    return screen, started


@pytest.mark.browser
async def test_restarted_server_reconnects_the_page(
    kept: Callable[[], Served], browser: Browser, handloom: Handloom
) -> None:
    first = kept()
    screen, started = await at_work(browser, first, handloom)
    first.process.send_signal(signal.SIGTERM)
    await words_of(screen.page, "The server has ended. As soon as it is back")
    assert await asyncio.to_thread(first.process.wait, 30) == 0
    assert [pid for pid in started if not has_ended(pid)] == []
    (conversation,) = handloom.conversations()
    events = handloom.export(conversation["conversation_id"])
    (ran,) = [event for event in events if event.get("action") == "run" and "begun" in event["args"]["command"]]
    assert [event["cause"] for event in events if event.get("observation") in ("run", "error")] == [ran["id"]]

    async with screen.page.expect_websocket(timeout=90_000):
        again = await asyncio.to_thread(kept)
    assert again.token == first.token
    await screen.shows("begun-42", "stopped")
    assert await screen.page.locator("#notice").inner_text() == ""


SLOW = "echo x >> starts; trap 'read -r < go; exit' TERM; echo up; while :; do sleep 600 & wait; done"


async def test_viewer_connecting_during_shutdown_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "go")
    server = WorkspaceServer(["bash", "-c", SLOW], os.environ)
    await server.start()
    address = f"http://127.0.0.1:{server.port}/ws/{server.token}"
    origin = {"Origin": f"http://127.0.0.1:{server.port}"}
    async with aiohttp.ClientSession() as client, client.ws_connect(address, headers=origin) as first:
        assert b"up" in (await first.receive(timeout=WITHIN_S)).data
        ending = asyncio.create_task(server.aclose())
        assert (await first.receive(timeout=WITHIN_S)).data == GONE
        async with client.ws_connect(address, headers=origin) as late:
            asked = asyncio.create_task(late.receive(timeout=WITHIN_S))
            await asyncio.to_thread((tmp_path / "go").write_text, "\n")
            assert (await asked).data == GONE
        await ending
    assert (tmp_path / "starts").read_text() == "x\n"


@pytest.mark.browser
async def test_killed_server_leaves_no_workspace(
    kept: Callable[[], Served], browser: Browser, handloom: Handloom
) -> None:
    first = kept()
    screen, started = await at_work(browser, first, handloom)
    first.process.kill()
    await words_of(screen.page, "The server does not answer.")
    async with asyncio.timeout(WITHIN_S):
        for pid in started:
            while not has_ended(pid):
                await asyncio.sleep(0.05)  # the end of a foreign process is no event
    async with screen.page.expect_websocket():
        again = await asyncio.to_thread(kept)
    await screen.shows("begun-42")
    assert again.children()


@pytest.mark.browser
async def test_new_tab_shows_the_screen_of_a_closed_tab(
    kept: Callable[[], Served], browser: Browser, handloom: Handloom
) -> None:
    server = kept()
    screen, started = await at_work(browser, server, handloom)
    await screen.page.keyboard.type("half a sentence")
    await screen.shows("half a sentence")
    await screen.page.context.close()
    other = await opened(browser, server.address)
    await other.shows("begun-42", "half a sentence")
    assert [pid for pid in started if has_ended(pid, 0)] == []


@pytest.mark.browser
async def test_page_of_another_server_says_so(served: Served, browser: Browser) -> None:
    screen = await opened(browser, served.address.partition("#")[0] + "#" + "x" * 43)
    await words_of(screen.page, "Another server is here than the one of this page.")
    assert (screen.text, served.children()) == ("", [])


async def words_of(page: Page, words: str) -> None:
    await page.get_by_text(words).wait_for(timeout=WITHIN_S * 1000)


async def clipboard(page: Page) -> str:
    return str(await page.evaluate("navigator.clipboard.readText()"))


# -- authorization -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "[::1]:{port}", "localhost.evil.example:{port}"])
async def test_foreign_host_name_that_resolves_here_is_refused(served: Served, host: str) -> None:
    port = served.host.partition(":")[2]
    async with aiohttp.ClientSession() as client:
        asked = await client.get(f"http://{served.host}/", headers={"Host": host.format(port=port)})
        assert asked.status == 421
        assert "<html" not in await asked.text()


async def test_foreign_host_gets_no_websocket(served: Served) -> None:
    headers = {"Host": "evil.example", "Origin": "http://evil.example"}
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"http://{served.host}/ws/{served.token}", headers=headers)
    assert refused.value.status == 421
    assert served.children() == []


async def closed_with(served: Served, token: str, origin: str | None) -> int | None:
    """How the socket ends for a request like this; None if it stays open."""
    headers = {} if origin is None else {"Origin": origin}
    address = f"http://{served.host}/ws/{token}?width=80&height=24"
    async with aiohttp.ClientSession() as client, client.ws_connect(address, headers=headers) as socket:
        message = await socket.receive(timeout=WITHIN_S)
        return socket.close_code if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED) else None


async def test_websocket_requires_token_and_origin(served: Served) -> None:
    ours = f"http://{served.host}"
    assert await closed_with(served, "x" * 43, ours) == REFUSED
    assert await closed_with(served, served.token[:-1], ours) == REFUSED
    assert await closed_with(served, "%C3%A4", ours) == REFUSED
    for origin in (None, "null", "http://evil.example", f"https://{served.host}", ours + ".evil.example"):
        assert await closed_with(served, served.token, origin) == REFUSED
    assert served.children() == []
    assert await closed_with(served, served.token, ours) is None


async def test_server_listens_on_loopback_with_security_headers(served: Served) -> None:
    listening = Path(f"/proc/{served.process.pid}/net/tcp")
    port = int(served.host.partition(":")[2])
    if listening.exists():
        lines = [line.split() for line in listening.read_text().splitlines()[1:]]
        ours = [line[1] for line in lines if line[3] == "0A" and int(line[1].partition(":")[2], 16) == port]
        assert [address.partition(":")[0] for address in ours] == ["0100007F"]
    async with aiohttp.ClientSession() as client:
        page = await client.get(f"http://{served.host}/")
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert (page.headers["X-Frame-Options"], page.headers["Referrer-Policy"]) == ("DENY", "no-referrer")
        assert served.token not in await page.text()
        for way_out in (
            "/static/../server.py",
            "/static/%2e%2e/server.py",
            "/page.html",
            "/page.py",
            "/ws/",
            "/static/",
        ):
            asked = await client.get(f"http://{served.host}{way_out}", allow_redirects=False)
            assert asked.status in (400, 403, 404), way_out


NO_MESSAGES = (
    "", "{", "[" * 100_000, "7", "[]", '["stdin"]', '["stdin", 5]', '["resize", {"width": "x"}]',
    '["resize", {"width": 0, "height": -5}]', '["resize", {"width": 999999, "height": 1}]',
)  # fmt: skip


async def test_invalid_messages_of_the_page_are_ignored(served: Served) -> None:
    ours = {"Origin": f"http://{served.host}"}
    async with aiohttp.ClientSession() as client:
        address = f"http://{served.host}/ws/{served.token}?width=99999999&height=-1"
        async with client.ws_connect(address, headers=ours) as socket:
            for text in NO_MESSAGES:
                await socket.send_str(text)
            await socket.send_bytes(b"\x00\xff")
            await socket.send_str('["ping", "17"]')
            while (message := await socket.receive(timeout=WITHIN_S)).type is not aiohttp.WSMsgType.TEXT:
                assert message.type is aiohttp.WSMsgType.BINARY
            assert message.json() == ["pong", "17"]


# -- the command -----------------------------------------------------------------------------------------------------


def test_taken_port_is_reported(served: Served, handloom: Handloom) -> None:
    done = handloom("serve", "--port", served.host.partition(":")[2])
    assert (done.status, done.out) == (2, "")
    assert "Address already in use. Choose another port: handloom serve --port N" in done.err


def test_token_file_is_created_private_and_reused(handloom: Handloom, tmp_path: Path) -> None:
    file = tmp_path / "token"
    first = Served(handloom, "--model", "demo", "--token-file", str(file))
    assert first.end() == 0
    assert (file.read_text().strip(), file.stat().st_mode & 0o777) == (first.token, 0o600)
    file.chmod(0o640)
    done = handloom("serve", "--token-file", str(file))
    assert (done.status, done.out, "chmod 600" in done.err) == (2, "", True)
    file.chmod(0o600)
    for text in ("", "short", "x" * 500, "ü" * 40, f"{first.token} {first.token}"):
        file.write_text(text)
        done = handloom("serve", "--token-file", str(file))
        assert (done.status, done.out) == (2, ""), text
    done = handloom("serve", "--token-file", str(tmp_path))
    assert (done.status, "Cannot use" in done.err) == (2, True)


def test_token_is_not_in_the_process_list(served: Served, handloom: Handloom) -> None:
    listed = subprocess.run(["ps", "-Aww", "-o", "args="], capture_output=True, text=True, check=True).stdout
    assert served.token not in listed
    assert served.end() == 0
    for path in handloom.home.rglob("*"):
        if path.is_file():
            assert served.token.encode() not in path.read_bytes(), path
