"""The routes past V0's: look on, type, resize, and read outputs again."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from core.events import Frame, TerminalOutput
from runtime.protocol import KEY_HEADER, LineSplitter, decode_line
from runtime.server.action_executor import ActionExecutor
from runtime.server.app import ActionServer, TerminalRoutes
from runtime.server.request_guard import RequestGuard
from tests.runtime.conftest import Shell, Watcher

KEY = "k" * 64


class Served:
    """A shell and the routes to it, on a socket."""

    def __init__(self, shell: Shell, http: aiohttp.ClientSession) -> None:
        self.shell = shell
        self._http = http

    async def ask(self, method: str, path: str, **body: Any) -> tuple[int, bytes]:
        async with self._http.request(method, f"http://localhost{path}", **body) as response:
            return response.status, await response.read()

    async def headers(self, path: str) -> dict[str, str]:
        async with self._http.get(f"http://localhost{path}") as response:
            return {name: value for name, value in response.headers.items() if name.startswith("X-Output")}

    async def watch(self, on_frame: Watcher) -> None:
        """Look on until the stream ends."""
        lines = LineSplitter()
        async with self._http.get("http://localhost/terminal/stream") as response:
            async for data in response.content.iter_any():
                for line in lines.feed(data):
                    said = decode_line(line)
                    assert isinstance(said, Frame)
                    on_frame(said)


@pytest.fixture
async def served(shell: Shell, tmp_path: Path) -> AsyncIterator[Served]:
    routes = TerminalRoutes(shell.session).table
    app = ActionServer(ActionExecutor([]), RequestGuard(KEY), str(tmp_path), routes=routes).app
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    socket = str(tmp_path / ".socket")
    await web.UnixSite(runner, socket).start()
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket), headers={KEY_HEADER: KEY}) as http:
        yield Served(shell, http)
    await shell.session.aclose()
    await runner.cleanup()


class TestInput:
    @pytest.mark.parametrize("form", ["raw", "json"])
    async def test_typed_keys_reach_the_command(self, served: Served, form: str) -> None:
        running = asyncio.create_task(served.shell.run("read x; echo got:$x", blocking=True))
        await served.shell.watcher.sees(b"read x")
        body: dict[str, Any] = {"data": b"Ada\n"}
        if form == "json":
            body = {"json": {"data": base64.b64encode(b"Ada\n").decode()}}
        while (await served.ask("POST", "/terminal/input", **body))[0] == 409:
            await asyncio.sleep(0)
        assert (await running).content == "Ada\ngot:Ada"

    async def test_control_keys_are_passed_on(self, served: Served) -> None:
        await served.shell.run("sleep 100")
        waiting = asyncio.create_task(served.shell.run(""))
        assert await served.ask("POST", "/terminal/input", data=b"\x03") == (200, b'{"accepted_bytes": 1}')
        assert (await waiting).exit_code == 130

    async def test_typed_password_is_not_shown(self, served: Served) -> None:
        await served.shell.run("read -s password; echo ${#password}")
        waiting = asyncio.create_task(served.shell.run(""))
        await served.ask("POST", "/terminal/input", data=b"secret\n")
        assert (await waiting).content == "6"
        assert b"secret" not in served.shell.watcher.shown

    async def test_input_without_a_command_is_refused(self, served: Served) -> None:
        status, said = await served.ask("POST", "/terminal/input", data=b"ls\n")
        assert status == 409
        assert b"No command is running" in said
        assert (await served.shell.run("echo unharmed")).content == "unharmed"

    async def test_unread_input_is_limited(self, served: Served) -> None:
        await served.shell.run("stty raw; sleep 100", timeout=0.2)
        statuses = [(await served.ask("POST", "/terminal/input", data=b"x" * 500_000))[0] for _ in range(4)]
        assert statuses[0] == 200
        assert statuses[-1] == 413

    @pytest.mark.parametrize("body", [{}, {"data": 1}, {"data": "?"}, {"data": "YQ"}, [], "x"])
    async def test_invalid_base64_is_refused(self, served: Served, body: Any) -> None:
        assert (await served.ask("POST", "/terminal/input", json=body))[0] == 400


class TestEnvironment:
    async def test_variables_are_set_and_removed(self, served: Served) -> None:
        body = {"variables": {"COLOUR": "blue", "HOME": None}}
        assert await served.ask("POST", "/environment", json=body) == (200, b'{"variables": 2}')
        assert (await served.shell.run('echo "$COLOUR ${HOME-none}"')).content == "blue none"

    @pytest.mark.parametrize("body", [[], {}, {"variables": []}, {"variables": {"A": 1}}, {"variables": {"1A": "x"}}])
    async def test_invalid_variable_is_refused(self, served: Served, body: Any) -> None:
        status, said = await served.ask("POST", "/environment", json=body)
        assert status == 400
        assert b"variables" in said or b"'1A' cannot be the name" in said


class TestResize:
    async def test_resize_reaches_the_running_program(self, served: Served) -> None:
        command = "bash -c \"trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done\""
        running = asyncio.create_task(served.shell.run(command, blocking=True))
        await served.shell.watcher.sees(b"ready\r\n")
        assert (await served.ask("POST", "/terminal/resize", json={"rows": 50, "columns": 132}))[0] == 200
        assert (await running).content == "ready\n50 132"

    async def test_size_is_kept_for_a_fresh_shell(self, served: Served) -> None:
        await served.ask("POST", "/terminal/resize", json={"rows": 50, "columns": 132})
        assert (await served.shell.run("stty size")).content == "50 132"
        await served.shell.run("exit 3")
        assert (await served.shell.run("stty size")).content == "50 132"

    async def test_smallest_and_largest_sizes_are_accepted(self, served: Served) -> None:
        for rows, columns in ((1, 1), (1000, 1000)):
            body = {"rows": rows, "columns": columns}
            status, said = await served.ask("POST", "/terminal/resize", json=body)
            assert (status, json.loads(said)) == (200, body)

    @pytest.mark.parametrize(
        "size",
        [
            *({}, [], {"columns": 5}, {"rows": "9"}),
            *({"rows": rows, "columns": columns} for rows, columns in ((1, 0), (0, 1), (1001, 1), (1, 1001))),
            *({"rows": rows, "columns": columns} for rows, columns in ((5, 1.5), (True, 5))),
        ],
    )
    async def test_invalid_size_is_refused(self, served: Served, size: Any) -> None:
        assert (await served.ask("POST", "/terminal/resize", json=size))[0] == 400


class TestStream:
    async def test_stream_starts_with_the_last_screenful(self, served: Served) -> None:
        await served.shell.run("echo before", action_id=3)
        watcher = Watcher()
        watching = asyncio.create_task(served.watch(watcher))
        await watcher.sees(b"before\r\n")
        await served.shell.run("echo after", action_id=4)
        await watcher.sees(b"after\r\n")
        assert {frame.cause for frame in watcher.frames if isinstance(frame, TerminalOutput)} == {3, 4}
        assert [frame.is_echo for frame in watcher.frames if isinstance(frame, TerminalOutput)] == [True, False] * 2
        await served.shell.session.aclose()
        await watching

    async def test_stuck_viewer_does_not_slow_the_command(self, served: Served) -> None:
        begun = asyncio.Event()

        class Stuck(Watcher):
            def __call__(self, frame: Frame) -> None:
                begun.set()

        await served.shell.run("echo before")
        reader = asyncio.create_task(served.watch(Stuck()))
        await begun.wait()
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader
        connection = await asyncio.open_unix_connection(str(Path(served.shell.session.cwd) / ".socket"))
        connection[1].write(f"GET /terminal/stream HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {KEY}\r\n\r\n".encode())
        await connection[0].readline()
        observation = await served.shell.run("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end")
        assert observation.content.endswith("\nend")
        connection[1].close()

    async def test_closed_stream_is_removed(self, served: Served) -> None:
        watching = asyncio.create_task(served.watch(watcher := Watcher()))
        await served.shell.run("echo one")
        await watcher.sees(b"one")
        assert served.shell.session.viewers.count == 1
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        async with asyncio.timeout(60):
            while served.shell.session.viewers.count:
                await asyncio.sleep(0)


class TestOutputs:
    async def test_outputs_are_read_by_bytes_and_lines(self, served: Served) -> None:
        await served.shell.run("seq 1 100000")
        assert await served.ask("GET", "/outputs/1?offset=2&limit=6") == (200, b"2\n3\n4\n")
        assert await served.ask("GET", "/outputs/1?line=50000&lines=2") == (200, b"50000\n50001\n")
        assert await served.ask("GET", "/outputs/1?offset=588895") == (200, b"")
        assert (await served.ask("GET", "/outputs/1?line=1"))[1].count(b"\n") == 1000
        assert await served.headers("/outputs/1?limit=0") == {"X-Output-Bytes": "588895", "X-Output-Lines": "100000"}

    async def test_outputs_have_defaults_and_report_losses(self, served: Served) -> None:
        await served.shell.run("seq 1 3")
        for query, part in (
            ("", b"1\n2\n3\n"),
            ("?line=0&lines=1", b"1\n"),
            ("?lines=2", b"1\n2\n"),
            ("?line=3", b"3\n"),
        ):
            assert await served.ask("GET", f"/outputs/1{query}") == (200, part)
        assert (await served.ask("GET", f"/outputs/1?offset={'9' * 15}"))[0] == 200
        output = served.shell.session.outputs.find(1)
        output.loss = "the disk is full"
        assert (await served.headers("/outputs/1"))["X-Output-Loss"] == "the disk is full"

    async def test_output_is_read_while_the_command_runs(self, served: Served) -> None:
        await served.shell.run("echo begun; sleep 100", timeout=0.2)
        assert await served.ask("GET", "/outputs/1") == (200, b"begun\n")

    @pytest.mark.parametrize(
        ("query", "status"),
        [
            ("9", 404),
            ("1?offset=-1", 400),
            ("1?limit=1&lines=2", 400),
            ("1?offset=1&lines=2", 400),
            ("1?line=\u0663", 400),
            ("1?offset=1&line=2", 400),
            ("1?line=x", 400),
            ("1?limit=" + "9" * 16, 400),
        ],
    )
    async def test_invalid_query_is_refused(self, served: Served, query: str, status: int) -> None:
        await served.shell.run("echo one")
        assert (await served.ask("GET", f"/outputs/{query}"))[0] == status

    async def test_removed_output_file_is_reported(self, served: Served) -> None:
        await served.shell.run("seq 1 100000")
        os.unlink(served.shell.session.outputs.find(1).path)
        status, said = await served.ask("GET", "/outputs/1")
        assert (status, b"output:1 cannot be read: No such file" in said) == (404, True)
