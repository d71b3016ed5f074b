"""The routes that move files, over a Unix socket and over TCP, of a server that is a process of its own."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.events import CmdRunAction
from runtime.client import ActionExecutionClient
from runtime.protocol import KEY_HEADER
from tests.runtime import zips
from tests.runtime.action_server import KEY, Process
from tests.runtime.conftest import Watcher

FORM = "multipart/form-data; boundary=b"
FIELD = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n'
UNENDED = b'--b\r\nContent-Disposition: form-data; name="file"; filename="name"\r\n\r\n'
NOT_FORMS = {
    "bytes": (b"x", "application/octet-stream", 415),
    "JSON": (b"{}", "application/json", 415),
    "no boundary": (b"", "multipart/form-data", 400),
    "no form": (b"no boundary", FORM, 400),
    "empty": (b"--b--\r\n", FORM, 400),
    "a long boundary": (b"x", FORM + "b" * 100, 400),
    "no file": (FIELD, FORM, 400),
    "no header": (b"--b\r\n" + b"x" * 100_000, FORM, 400),
    "no end": (UNENDED, FORM, 400),
    "no end of much": (UNENDED + b"x" * 1_000_000, FORM, 400),
}
LARGE_BYTES = 64 * 1024 * 1024
"""So much more than a chunk that holding it would show."""


class Wire:
    """A way to a server, as any HTTP client has it. `folder` is the server's working folder."""

    def __init__(self, session: aiohttp.ClientSession, url: str, socket: str | None, folder: Path) -> None:
        self.session = session
        self.url = url
        self.folder = folder
        self._socket = socket

    def client(self) -> ActionExecutionClient:
        return ActionExecutionClient(KEY, uds=self._socket, url=self.url)

    async def get(self, path: str, **query: str) -> Any:
        async with self.session.get(self.url + path, params=query, raise_for_status=True) as response:
            return await response.json()

    async def list_files(self, body: Any = None) -> Any:
        async with self.session.post(f"{self.url}/list_files", json=body) as response:
            return await response.json()

    async def upload(self, data: Any, name: str, **query: str) -> tuple[int, Any]:
        """Status and answer."""
        form = aiohttp.FormData(quote_fields=False)  # as V0's client sends names
        form.add_field("file", data, filename=name)
        async with self.session.post(f"{self.url}/upload_file", params=query, data=form) as response:
            return response.status, await response.json()

    async def download(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        async with self.session.get(f"{self.url}/download_files", params={"path": path}) as response:
            return response.status, await response.read()


@pytest.fixture(scope="module", params=["unix", "tcp"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Where a server listens, and its working folder; one server for all tests of a kind."""
    process = Process(tmp_path_factory.mktemp("served"))
    with process.start(where=("--port", "0") if request.param == "tcp" else None) as child:
        yield process.ready().removeprefix("ready ").strip(), process.folder
        child.terminate()


@pytest.fixture
async def wire(address: tuple[str, Path]) -> AsyncIterator[Wire]:
    said, folder = address
    socket = said.removeprefix("unix:") if said.startswith("unix:") else None
    connector = aiohttp.UnixConnector(socket) if socket else aiohttp.TCPConnector()
    async with aiohttp.ClientSession(connector=connector, headers={KEY_HEADER: KEY}) as session:
        yield Wire(session, "http://localhost" if socket else said, socket, folder)


class TestListing:
    async def test_folders_are_listed_first_ignoring_case(self, wire: Wire, tmp_path: Path) -> None:
        for folder in ("b", "C", ".git"):
            (tmp_path / folder).mkdir()
        for file in ("z", "A", "y"):
            (tmp_path / file).touch()
        (tmp_path / "nowhere").symlink_to("/no/such")
        (tmp_path / "a folder").symlink_to(tmp_path / "b")
        listed = [".git/", "a folder/", "b/", "C/", "A", "y", "z"]
        assert await wire.list_files({"path": str(tmp_path)}) == listed

    async def test_paths_are_relative_to_the_working_folder(self, wire: Wire) -> None:
        (wire.folder / "sub/below").mkdir(parents=True, exist_ok=True)
        assert "sub/" in await wire.list_files({})
        assert "sub/" in await wire.list_files({"path": None})
        assert await wire.list_files({"path": "sub"}) == ["below/"]

    @pytest.mark.parametrize("path", ["/no/such", "/etc/passwd", "/etc/passwd/x", "a\0b"])
    async def test_missing_folder_is_an_empty_list(self, wire: Wire, path: str) -> None:
        assert await wire.list_files({"path": path}) == []

    async def test_name_of_any_bytes_is_listed_as_text(self, wire: Wire, tmp_path: Path) -> None:
        (tmp_path / os.fsdecode(b"\xff")).touch()
        assert await wire.list_files({"path": str(tmp_path)}) == ["\ufffd"]

    @pytest.mark.parametrize("body", [[], "x", 1, {"path": 1}, {"path": ["x"]}])
    async def test_another_body_is_refused(self, wire: Wire, body: Any) -> None:
        assert await wire.list_files(body) == {"detail": "the body must be a JSON object with a string 'path'"}


class TestUploading:
    async def test_uploaded_file_is_placed_in_a_new_folder(self, wire: Wire, tmp_path: Path) -> None:
        destination = str(tmp_path / "new/folder")
        said = {"filename": "ünï.txt", "destination": destination, "recursive": False}
        assert await wire.upload(b"one", "ünï.txt", destination=destination, recursive="false") == (200, said)
        assert await wire.upload(b"two", "ünï.txt", destination=destination) == (200, said)
        assert (tmp_path / "new/folder/ünï.txt").read_bytes() == b"two"
        assert await wire.upload(b"", "ünï.txt", destination=destination) == (200, said)
        assert (tmp_path / "new/folder/ünï.txt").read_bytes() == b""

    async def test_recursive_upload_unpacks_an_archive(self, wire: Wire, tmp_path: Path) -> None:
        archive = zips.packed({"a/b": b"content"})
        said = {"filename": "x.zip", "destination": str(tmp_path), "recursive": True}
        assert await wire.upload(archive, "x.zip", destination=str(tmp_path), recursive="True") == (200, said)
        assert (tmp_path / "a/b").read_bytes() == b"content"
        await wire.upload(archive, "x.zip", destination=str(tmp_path))
        assert (tmp_path / "x.zip").read_bytes() == archive

    async def test_invalid_upload_is_refused_and_leaves_nothing(self, wire: Wire, tmp_path: Path) -> None:
        place = str(tmp_path / "place")
        for name, query, told in [
            ("x", {"destination": "relative"}, "Destination must be an absolute path"),
            ("x.zip", {"destination": place, "recursive": "true"}, "Recursive uploads must be zip files"),
            ("../x", {"destination": place}, "is not a valid file name"),
            ("x", {"destination": place, "recursive": "maybe"}, "'recursive' must be true or false"),
        ]:
            status, said = await wire.upload(b"no zip", name, **query)
            assert (status, told in said["detail"]) == (400, True), said
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(("body", "content_type", "status"), NOT_FORMS.values(), ids=NOT_FORMS)
    async def test_body_without_a_file_is_refused(
        self, wire: Wire, tmp_path: Path, body: bytes, content_type: str, status: int
    ) -> None:
        query = {"destination": str(tmp_path / "place")}
        headers = {"Content-Type": content_type}
        async with wire.session.post(f"{wire.url}/upload_file", params=query, data=body, headers=headers) as response:
            assert response.status == status
            assert "detail" in await response.json()
        assert list(tmp_path.iterdir()) == []

    async def test_other_form_fields_are_skipped(self, wire: Wire, tmp_path: Path) -> None:
        form = aiohttp.FormData()
        form.add_field("other", "x" * 100_000)
        form.add_field("file", b"content", filename="name")
        form.add_field("last", b"x", filename="name")
        query = {"destination": str(tmp_path)}
        async with wire.session.post(f"{wire.url}/upload_file", params=query, data=form) as response:
            assert response.status == 200
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"content"]


class TestDownloading:
    async def fetch(self, wire: Wire, path: Path) -> zipfile.ZipFile:
        status, body = await wire.download(str(path))
        assert status == 200
        return zipfile.ZipFile(io.BytesIO(body))

    async def test_folder_is_downloaded_without_special_files(self, wire: Wire, tmp_path: Path) -> None:
        random = os.urandom(1_000_000)
        (tmp_path / "a/b").mkdir(parents=True)
        (tmp_path / "a/b/random").write_bytes(random)
        (tmp_path / "run").write_text("#!/bin/sh")
        (tmp_path / "run").chmod(0o755)
        (tmp_path / "ünï 🦆").touch()
        (tmp_path / os.fsdecode(b"\xff")).touch()
        (tmp_path / "old").touch()
        os.utime(tmp_path / "old", (0, 0))
        (tmp_path / "link").symlink_to("/etc/passwd")
        (tmp_path / "folder link").symlink_to("/etc")
        os.mkfifo(tmp_path / "fifo")
        with await self.fetch(wire, tmp_path) as archive:
            assert archive.testzip() is None
            assert sorted(archive.namelist()) == ["a/", "a/b/", "a/b/random", "old", "run", "ünï 🦆", "\ufffd"]
            assert archive.read("a/b/random") == random
            assert stat.S_IMODE(archive.getinfo("run").external_attr >> 16) == 0o755

    async def test_single_file_is_downloaded(self, wire: Wire, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("text")
        with await self.fetch(wire, tmp_path / "file") as archive:
            assert {name: archive.read(name) for name in archive.namelist()} == {"file": b"text"}

    async def test_empty_folder_is_an_empty_archive(self, wire: Wire, tmp_path: Path) -> None:
        with await self.fetch(wire, tmp_path) as archive:
            assert archive.namelist() == []

    async def test_download_can_be_uploaded_again(self, wire: Wire, tmp_path: Path) -> None:
        (tmp_path / "from/a/empty").mkdir(parents=True)
        (tmp_path / "from/a/x").write_bytes(os.urandom(600_000))
        _, archive = await wire.download(str(tmp_path / "from"))
        status, _ = await wire.upload(archive, "x.zip", destination=str(tmp_path / "to"), recursive="true")
        assert status == 200
        assert (tmp_path / "to/a/x").read_bytes() == (tmp_path / "from/a/x").read_bytes()
        assert (tmp_path / "to/a/empty").is_dir()

    @pytest.mark.parametrize(
        ("path", "status", "told"),
        [
            ("relative", 400, "Path must be an absolute path"),
            ("", 400, "Path must be an absolute path"),
            ("/no/such", 404, "File not found"),
            ("/dev/zero", 400, "/dev/zero is neither a regular file nor a folder. Choose another path."),
            ("/etc/\0", 400, "Path must be an absolute path"),
        ],
    )
    async def test_missing_download_is_reported(self, wire: Wire, path: str, status: int, told: str) -> None:
        answered, body = await wire.download(path)
        assert (answered, body.decode()) == (status, f'{{"detail": "{told}"}}')


async def test_a_list_of_mcp_servers_is_answered_as_v0_answers(wire: Wire) -> None:
    kept = {"detail": "MCP server updated successfully"}
    tool = {"name": "fetch", "command": "/no/such", "args": ["mcp-server-fetch"], "env": {}}
    failed = "fetch: It cannot be started: No such file or directory."
    for body, status, said in [
        ([], 200, {**kept, "router_error_log": ""}),
        ([tool], 200, {**kept, "router_error_log": failed}),
        ({}, 400, {"detail": "Request must be a list of MCP tools to sync"}),
        (["fetch"], 400, {"detail": "each MCP tool is an object with 'name' and 'command'"}),
        ([{"command": "x"}], 400, {"detail": "each MCP tool is an object with 'name' and 'command'"}),
        ([{"name": "x"}], 400, {"detail": "each MCP tool is an object with 'name' and 'command'"}),
    ]:
        async with wire.session.post(f"{wire.url}/update_mcp_server", json=body) as response:
            assert (response.status, await response.json()) == (status, said)


async def test_there_is_no_vscode(wire: Wire) -> None:
    assert await wire.get("/vscode/connection_token") == {"token": None}


async def test_transfers_do_not_wait_for_commands(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    watcher = Watcher()
    async with wire.client() as client:
        sleeping = CmdRunAction(command="echo begun; sleep 30", blocking=True)
        running = asyncio.create_task(client.execute(sleeping, 1, watcher))
        await watcher.sees(b"begun\r\n")
        for ask in (
            wire.get("/alive"),
            wire.get("/server_info"),
            wire.list_files({"path": str(tmp_path)}),
            wire.download(str(tmp_path)),
            wire.upload(b"new", "new", destination=str(tmp_path)),
        ):
            async with asyncio.timeout(20):  # the command takes longer
                await ask
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_memory_does_not_grow_with_the_transfer(wire: Wire, tmp_path: Path) -> None:
    async def used() -> int:
        return int((await wire.get("/server_info"))["resources"]["memory"]["rss"])

    large = tmp_path / "large"
    large.write_bytes(os.urandom(1024 * 1024) * (LARGE_BYTES >> 20))
    await wire.upload(b"x", "small", destination=str(tmp_path / "to"))
    before = await used()
    with large.open("rb") as file:
        status, _ = await wire.upload(file, "large", destination=str(tmp_path / "to"))
    assert status == 200
    assert (tmp_path / "to/large").stat().st_size == LARGE_BYTES
    async with wire.session.get(f"{wire.url}/download_files", params={"path": str(tmp_path / "to")}) as response:
        received = sum([len(chunk) async for chunk in response.content.iter_chunked(1 << 20)])
    assert received > LARGE_BYTES
    assert await used() - before < LARGE_BYTES / 4
