"""An editor if one is installed; otherwise the missing program is reported.

The editors themselves are too large for tests. A small program replaces them, which accepts their important options,
listens on the given address, and reports it like they do.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web

from runtime.plugins.vscode import VSCodePlugin
from tests.runtime.conftest import place

EDITOR = f"""#!{sys.executable}
import http.server, os, pathlib, sys
options = dict(zip(sys.argv[1:], sys.argv[2:]))
assert "secret" not in " ".join(sys.argv)
host, port = options["--host"], int(options["--port"])
token = pathlib.Path(options["--connection-token-file"]).read_text()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if f"tkn={{token}}" in self.path else 403)
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.HTTPServer((host, port), Answer)
print("Extension host agent started.", flush=True)
print(f"Web UI available at http://{{host}}:{{port}}?tkn={{token}}", flush=True)
server.serve_forever()
"""


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[VSCodePlugin]:
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path / 'bin'}{os.pathsep}{Path(sys.executable).parent}"
    plugin = VSCodePlugin(place(tmp_path, environ={"PATH": path}))
    yield plugin
    await plugin.aclose()


def install(folder: Path, name: str, text: str) -> None:
    program = folder / "bin" / name
    program.write_text(text)
    program.chmod(0o755)


def install_code_server(folder: Path, *layout: str) -> None:
    """The files of an archive or a package of code-server that are used, below `layout`."""
    top = folder.joinpath(*layout)
    (top / "lib" / "vscode" / "out").mkdir(parents=True)
    (top / "lib" / "vscode" / "out" / "server-main.js").write_text(EDITOR)
    (top / "lib" / "node").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (top / "lib" / "node").chmod(0o755)


async def told(plugin: VSCodePlugin) -> dict[str, str | None]:
    """What `GET /vscode/connection_token` answers."""
    app = web.Application()
    app.add_routes(plugin.routes)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        url = f"http://127.0.0.1:{port}/vscode/connection_token"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            said: dict[str, str | None] = await response.json()
            return said
    finally:
        await runner.cleanup()


async def status_of(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status


@pytest.mark.parametrize("name", ["openvscode-server", "code"])
async def test_editor_listens_on_loopback_with_a_token(made: VSCodePlugin, tmp_path: Path, name: str) -> None:
    install(tmp_path, name, EDITOR)
    await made.start()
    said = await told(made)
    url = said["url"] or ""
    assert urlsplit(url).hostname == "127.0.0.1"
    assert parse_qs(urlsplit(url).query)["tkn"] == [said["token"]]
    assert await status_of(url) == 200
    assert await status_of(url.replace(said["token"] or "", "0" * 64)) == 403


@pytest.mark.parametrize("layout", [(), ("lib", "code-server")])
async def test_code_server_takes_the_token_from_the_address(
    made: VSCodePlugin, tmp_path: Path, layout: tuple[str, ...]
) -> None:
    install(tmp_path, "code-server", "#!/bin/sh\nexit 1\n")
    install_code_server(tmp_path, *layout)
    said = await told(made)
    url = said["url"] or ""
    assert await status_of(url) == 200
    assert await status_of(url.replace(said["token"] or "", "0" * 64)) == 403
    (settings,) = tmp_path.rglob("settings.json")
    assert json.loads(settings.read_text())["chat.disableAIFeatures"]


async def test_code_server_without_its_files_is_reported(made: VSCodePlugin, tmp_path: Path) -> None:
    install(tmp_path, "code-server", "#!/bin/sh\nexit 1\n")
    with pytest.raises(OSError, match="code-server has no VS Code server beside it"):
        await made.start()


async def test_folder_is_quoted_in_the_address(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    install(tmp_path, "openvscode-server", EDITOR)
    (tmp_path / "a & b").mkdir()
    plugin = VSCodePlugin(
        replace(place(tmp_path, environ={"PATH": str(tmp_path / "bin")}), working_dir=str(tmp_path / "a & b"))
    )
    try:
        url = (await told(plugin))["url"] or ""
    finally:
        await plugin.aclose()
    assert parse_qs(urlsplit(url).query)["folder"] == [str(tmp_path / "a & b")]


async def test_token_request_starts_the_editor_again(made: VSCodePlugin, tmp_path: Path) -> None:
    install(tmp_path, "openvscode-server", EDITOR)
    first = await told(made)
    process = made._process
    assert process is not None
    process.kill()
    await process.wait()
    second = await told(made)
    assert first["token"] != second["token"]
    assert await status_of(second["url"] or "") == 200


async def test_editor_ends_with_the_plugin(made: VSCodePlugin, tmp_path: Path) -> None:
    install(tmp_path, "openvscode-server", EDITOR)
    await made.start()
    process = made._process
    assert process is not None
    await made.aclose()
    assert process.returncode is not None


async def test_missing_editor_is_reported(made: VSCodePlugin) -> None:
    with pytest.raises(OSError, match="no editor is installed here: put openvscode-server, code-server or"):
        await made.start()
    said = await told(made)
    assert said["token"] is None
    assert "no editor is installed" in (said["detail"] or "")


async def test_editor_that_ends_immediately_is_reported(made: VSCodePlugin, tmp_path: Path) -> None:
    install(tmp_path, "openvscode-server", "#!/bin/sh\necho no glibc for this\nexit 1\n")
    with pytest.raises(OSError, match="openvscode-server did not start: no glibc for this"):
        await made.start()
