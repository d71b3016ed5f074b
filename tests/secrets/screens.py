"""Use of Handloom through its screen, on a pseudo-terminal whose every byte is searched, and in a web browser.

The screen of the terminal is searched too, because a text may arrive in pieces.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import aiohttp
import pyte

from tests.journeys.terminal_of_ours import OurTerminal
from tests.secrets.canaries import MET, TYPED
from tests.secrets.scenarios import SAID, done, shell
from tests.secrets.user import WITHIN_S, User

SERVED_S = 90.0
READY, CONNECTED = "Ask for something", "NO SANDBOX"
CRASHES = f"""
import os, sys
from tui.app import HandloomApp
def fail(self, problems):
    token, found = os.environ["AWS_SECRET_ACCESS_KEY"], {MET["page"]!r}
    raise RuntimeError(f"it fails with {{token}} and {{found}}")
HandloomApp.begin = fail
from tui.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


class Watched(OurTerminal):
    """A terminal that keeps its screen after each piece of output."""

    def __init__(self, user: User, *arguments: str) -> None:
        self.seen: set[str] = set()
        super().__init__(user.handloom, *arguments)

    def read(self, within_s: float) -> bytes:
        data = super().read(within_s)
        if data:
            self.seen.add(self.screen)
            self.seen.add("".join(line.strip(" │▏▕") for line in self.screen.split("\n")))  # the broken one
        return data


class Crashing(Watched):
    """The workspace with secrets in its variables and texts, failing right after the start."""

    command = (sys.executable, "-P", "-c", CRASHES)


@contextmanager
def on_terminal(kind: type[Watched], user: User, *arguments: str, typed: Sequence[str] = ()) -> Iterator[Watched]:
    """A terminal that is searched at its end; slots of `typed` are those that the user typed visibly."""
    terminal = kind(user, *arguments)
    try:
        yield terminal
    finally:
        terminal.close()
        where = f"terminal of {kind.__name__} {arguments[:1]}"
        user.search.look(f"bytes to the {where}", terminal.raw, typed)
        user.search.look(where, "\n\n".join(terminal.seen).encode(), typed)


def _settled(terminal: Watched) -> None:
    """Read on until a moment without anything, after at least one piece."""
    terminal.read(10)
    while terminal.read(0.3):
        pass


def _left(terminal: Watched) -> None:
    """Quit, and wait for the end."""
    terminal.write("\x11")
    end = time.monotonic() + WITHIN_S
    while terminal.process.poll() is None and time.monotonic() < end:
        terminal.read(0.2)
    assert terminal.process.poll() == 0, terminal.screen


async def workspace(user: User) -> None:
    """A typed task whose output is shown in every pane, and a secret entered on the screen of secrets."""
    await asyncio.to_thread(_workspace, user)


def _workspace(user: User) -> None:
    user.server.then(shell(f'echo "$EVERYWHERE_ONE"; cat .env; echo {SAID!r}', SAID), done(f"{SAID} all seen"))
    with on_terminal(Watched, user, "--model", "openai/test", typed=["typed prompt", "typed shell"]) as terminal:
        terminal.wait_for(READY, CONNECTED)
        terminal.write(f"Use {TYPED['prompt']}\r")
        terminal.wait_for("finished", "all seen")
        terminal.write(f"!echo {TYPED['shell']}\r")
        terminal.wait_for("$ echo <secret_hidden>")
        for key in ("\x1bOS", "\x1b[15~", "\x1bOR"):  # F4, F5, F3
            terminal.write(key)
            _settled(terminal)
        terminal.write("\x18S")
        terminal.wait_for("EVERYWHERE_ONE", "Secrets")
        terminal.write("a")
        terminal.wait_for("Name of the secret")
        terminal.write("ON_SCREEN\r")
        terminal.wait_for("not shown")
        terminal.write(f"{TYPED['kept on the screen']}\r")
        terminal.wait_for("Description")
        terminal.write("A try.\r")
        terminal.wait_for("ON_SCREEN")
        terminal.write("\x1b")
        _settled(terminal)
        _left(terminal)


async def replay(user: User) -> None:
    """A conversation played to its end, without the recording of its terminal being any worse than that."""
    await asyncio.to_thread(_replay, user)


def _replay(user: User) -> None:
    with on_terminal(Watched, user, "replay", user.conversation, "--speed", "64") as terminal:
        terminal.wait_for("Replay", "ended")
        _left(terminal)


async def crash(user: User) -> None:
    """The workspace fails; the terminal and the log contain no values of variables."""
    await asyncio.to_thread(_crash, user)


def _crash(user: User) -> None:
    with on_terminal(Crashing, user) as terminal:
        assert terminal.end() == 1
        assert "it fails with" in terminal.raw.decode()


async def served(user: User) -> None:
    """`handloom serve`: data sent to the web browser. The token is only in the address."""
    user.server.then(shell(f'echo "$EVERYWHERE_ONE"; cat .env; echo {SAID!r}', SAID), done(f"{SAID} all served"))
    process = user.handloom.start("serve", "--model", "openai/test")
    assert process.stdout is not None
    try:
        address = urlsplit((await asyncio.to_thread(process.stdout.readline)).decode().strip())
        sent, shown = await _visited(address.netloc, address.fragment)
    finally:
        process.send_signal(signal.SIGINT)
        rest = await asyncio.to_thread(process.communicate, timeout=WITHIN_S)
    user.search.also["serve's token"] = address.fragment
    for where, data in {"bytes": sent, "screens": shown, "output": b"".join(rest)}.items():
        user.search.look(f"{where} of serve", data, ["typed prompt"])


async def _visited(host: str, token: str) -> tuple[bytes, bytes]:
    """All that a page was sent until the task was through, and what that showed."""
    screen = pyte.Screen(120, 36)
    sent, seen = [b""], set[str]()
    address = f"http://{host}/ws/{token}?width=120&height=36"
    try:
        async with (
            asyncio.timeout(SERVED_S),
            aiohttp.ClientSession() as client,
            client.ws_connect(address, origin=f"http://{host}") as socket,
        ):
            shown = _shown(socket, screen, sent)
            await _until(shown, seen, READY, CONNECTED)
            await socket.send_json(["stdin", f"Use {TYPED['prompt']}\r"])
            await _until(shown, seen, "finished", "all served")
    except TimeoutError:
        raise AssertionError("\n".join(screen.display)) from None
    return sent[0], "\n\n".join(seen).encode()


async def _shown(socket: aiohttp.ClientWebSocketResponse, screen: pyte.Screen, sent: list[bytes]) -> AsyncIterator[str]:
    """The screen after each message; received text is added to `sent`."""
    stream = pyte.ByteStream(screen)
    async for message in socket:
        if isinstance(message.data, bytes):
            sent[0] += message.data
            stream.feed(message.data)
            yield "\n".join(screen.display)


async def _until(shown: AsyncIterator[str], seen: set[str], *words: str) -> None:
    async for screen in shown:
        seen.add(screen)
        if all(word in screen for word in words):
            return
    raise AssertionError(f"closed before {words}")
