"""A client is served only by the expected server in the same version; otherwise it gets an error and nothing runs."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from core.errors import RuntimeUnavailableError
from core.events import (
    BrowserOutputObservation,
    BrowseURLAction,
    CmdRunAction,
    FileWriteAction,
    FileWriteObservation,
    Observation,
)
from runtime.client import ActionExecutionClient
from runtime.protocol import (
    INSTANCE_HEADER,
    JSON_TYPE,
    KEY_HEADER,
    NDJSON_TYPE,
    PROTOCOL_VERSION,
    VERSION_HEADER,
    encode_request,
)
from runtime.server.action_executor import ActionExecutor, Emit
from runtime.server.app import ActionServer
from runtime.server.file_actions import Files
from runtime.server.request_guard import RequestGuard
from tests.runtime.action_server import KEY, Server
from tests.runtime.conftest import Watcher

ASKED: dict[str, Callable[[ActionExecutionClient], Awaitable[object]]] = {
    "an action": lambda client: client.execute(CmdRunAction(command="true"), 1, Watcher()),
    "the jobs": lambda client: client.jobs(),
    "an end of a job": lambda client: client.end_job(1),
    "what is used": lambda client: client.usage(),
}


@asynccontextmanager
async def listening(app: web.Application, port: int = 0) -> AsyncIterator[int]:
    runner = web.AppRunner(app, shutdown_timeout=0.2)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", port))
    try:
        await web.SockSite(runner, listener).start()
        yield listener.getsockname()[1]
    finally:
        await runner.cleanup()


def files_server(folder: Path) -> web.Application:
    """One life of a server that works in a folder; each has the same key."""
    return ActionServer(ActionExecutor([Files(lambda: str(folder)).table]), RequestGuard(KEY), str(folder)).app


@pytest.mark.parametrize("asked", ASKED)
async def test_request_for_another_server_process_is_refused(tmp_path: Path, asked: str) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    write = FileWriteAction(path="note", content="x")
    async with listening(files_server(folders[0])) as port:
        client = ActionExecutionClient(KEY, url=f"http://127.0.0.1:{port}")
        assert isinstance(await client.execute(write, 1, Watcher()), FileWriteObservation)
    async with client, listening(files_server(folders[1]), port):
        with pytest.raises(RuntimeUnavailableError, match=r"another server answers in its place\). Send a message"):
            await client.execute(write, 2, Watcher())
        with pytest.raises(RuntimeUnavailableError, match="another server answers in its place"):
            await ASKED[asked](client)
        assert not await client.alive()
        async with ActionExecutionClient(KEY, url=f"http://127.0.0.1:{port}") as other:
            assert await other.alive()
    assert (folders[0] / "note").exists()
    assert not (folders[1] / "note").exists()


@pytest.mark.parametrize("asked", ASKED)
async def test_server_without_identity_is_noticed(server: Server, asked: str) -> None:
    async def yes(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "observation": "null", "content": "", "extras": {}})

    impostor = web.Application()
    impostor.router.add_route("*", "/{path:.*}", yes)
    async with listening(impostor) as port, ActionExecutionClient(KEY, url=server.url) as client:
        assert await client.alive()
        client._url = f"http://127.0.0.1:{port}"
        with pytest.raises(RuntimeUnavailableError, match="another server answers"):
            await ASKED[asked](client)
        assert not await client.alive()


async def test_every_answer_identifies_its_server(server: Server, http: aiohttp.ClientSession) -> None:
    names = set()
    for path, key in (("/alive", KEY), ("/nowhere", KEY), ("/alive", "wrong"), ("/execute_action", KEY)):
        async with http.get(server.url + path, headers={KEY_HEADER: key}) as response:
            assert response.headers[VERSION_HEADER] == str(PROTOCOL_VERSION)
            names.add(response.headers[INSTANCE_HEADER])
    assert len(names) == 1


@pytest.mark.parametrize("version", ["0", str(PROTOCOL_VERSION + 1), "none", ""])
async def test_request_with_another_version_is_refused(
    server: Server, http: aiohttp.ClientSession, version: str
) -> None:
    headers = {KEY_HEADER: KEY, VERSION_HEADER: version}
    async with http.get(server.url + "/alive", headers=headers) as response:
        assert response.status == 426
        assert f"speaks version {PROTOCOL_VERSION} of the protocol" in (await response.json())["detail"]


@pytest.mark.parametrize("asked", ASKED)
async def test_client_reports_a_server_of_another_version(asked: str) -> None:
    async def newer(request: web.Request) -> web.Response:
        return web.json_response({}, headers={VERSION_HEADER: str(PROTOCOL_VERSION + 1)})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", newer)
    async with listening(app) as port, ActionExecutionClient(KEY, url=f"http://127.0.0.1:{port}") as client:
        with pytest.raises(RuntimeUnavailableError, match=r"uses protocol version 2 .* version 1\. Use a sandbox"):
            await ASKED[asked](client)
        assert not await client.alive()


async def test_v0_client_without_identity_headers_is_served(server: Server, http: aiohttp.ClientSession) -> None:
    async with http.get(server.url + "/alive", headers={KEY_HEADER: KEY}) as response:
        assert response.status == 200


async def test_only_our_client_gets_additional_fields(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def shown(action: BrowseURLAction, action_id: int, emit: Emit) -> Observation:
        return BrowserOutputObservation(content="", url=action.url, trigger_by_action="browse", look={"words": []})

    app = ActionServer(ActionExecutor([{BrowseURLAction: shown}]), RequestGuard(KEY), str(tmp_path)).app
    body = encode_request(BrowseURLAction(url="http://x/"), 1)
    ours = {VERSION_HEADER: str(PROTOCOL_VERSION)}
    async with listening(app) as port:
        for accepted in (JSON_TYPE, NDJSON_TYPE):
            headers = {KEY_HEADER: KEY, "Accept": accepted, "Content-Type": JSON_TYPE}
            url = f"http://127.0.0.1:{port}/execute_action"
            async with http.post(url, data=body, headers=headers | ours) as response:
                for_us = json.loads(await response.read())
            async with http.post(url, data=body, headers=headers) as response:
                for_v0 = json.loads(await response.read())
            assert for_us["extras"].pop("look") == {"words": []}
            assert for_v0 == for_us
