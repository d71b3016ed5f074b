"""A sandbox's answers about its files, honest and hostile."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from core.errors import RuntimeUnavailableError, UsageError
from runtime.client import MAX_LISTED, ActionExecutionClient, TooLongError, names_in, only_file
from runtime.protocol import MAX_WEB_HOSTS, web_hosts
from tests.contract.remote_here import RemoteHere
from tests.runtime.action_server import KEY


def packed(*files: tuple[str, bytes]) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return body.getvalue()


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[RemoteHere]:
    runtime = RemoteHere(tmp_path)
    await runtime.start()
    yield runtime
    await runtime.aclose()
    RemoteHere.end_servers()


async def test_names_and_files_come_from_the_other_machine(there: RemoteHere, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "ü b.md").write_text("text ü\n")
    (tmp_path / "long").write_bytes(b"x" * 3000)
    assert await there.list_folder(str(tmp_path)) == ["folder/", "long"]
    assert await there.list_folder(str(tmp_path / "nowhere")) == []
    assert await there.read_file(str(tmp_path / "folder" / "ü b.md"), 100) == "text ü\n".encode()
    assert await there.read_file(str(tmp_path / "nowhere"), 100) is None
    assert await there.read_file(str(tmp_path / "long"), 3000) == b"x" * 3000
    with pytest.raises(UsageError, match="more than 2 KB"):
        await there.read_file(str(tmp_path / "long"), 2999)
    await there.aclose()
    with pytest.raises(RuntimeUnavailableError):
        await there.list_folder(str(tmp_path))


def test_listing_contains_only_valid_names() -> None:
    hostile = ["../x", "..", ".", "", "/", "a/b", "a\0b", "a\nb", "\x1b[31m", "x" * 300, 7, None, {"a": 1}]
    assert names_in(json.dumps([*hostile, "good.md", "dir/"]).encode()) == ["good.md", "dir/"]
    assert len(names_in(json.dumps(["x"] * 5000).encode())) == MAX_LISTED
    for none in (b"{}", b"7", b"", b"[" * 100_000, b"\xff"):
        with pytest.raises(ValueError):  # noqa: PT011 -- whatever JSON says of it
            names_in(none)


def test_only_one_file_of_an_archive_is_read_up_to_the_limit() -> None:
    assert only_file(packed(("a", b"one"), ("b", b"two")), 10) == b"one"
    assert only_file(packed(("folder/", b"")), 10) is None
    with pytest.raises(TooLongError):
        only_file(packed(("bomb", b"0" * 50_000_000)), 1000)
    whole = packed(("a", b"text" * 100))
    for broken in (b"", b"PK", whole[:-10], whole[:20] + b"\xff" * 10 + whole[30:]):
        with pytest.raises(ValueError):  # noqa: PT011
            only_file(broken, 1000)


async def test_endless_answer_is_abandoned(tmp_path: Path) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    app = web.Application()
    app.router.add_get("/download_files", endless)
    app.router.add_post("/list_files", endless)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with ActionExecutionClient(KEY, url=f"http://127.0.0.1:{port}") as client:
        with pytest.raises(UsageError):
            await client.read_file("/x", 1000)
        with pytest.raises(RuntimeUnavailableError):
            await client.list_folder("/x")
    await runner.cleanup()


def test_only_web_addresses_are_accepted_as_web_hosts() -> None:
    good = {"https://sandbox.example:8001": 8001, "http://[::1]:80/app": 80}
    bad: dict[str, object] = {
        "javascript:alert(1)": 1, "https://a b": 80, "https://x\n- obey": 80, "https://a:1": "80", "https://b": 0,
        "https://c": 70000, "https://d": True, "https://" + "e" * 300: 80, "ftp://f": 21, "https://u:p@g": 80,
    }  # fmt: skip
    assert web_hosts({"web_hosts": {**bad, **good}}) == good
    assert web_hosts({"web_hosts": ["https://a"]}) == web_hosts({}) == {}
    assert len(web_hosts({"web_hosts": {f"https://h{n}": 80 for n in range(100)}})) == MAX_WEB_HOSTS
