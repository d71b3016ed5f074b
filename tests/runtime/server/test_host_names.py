"""Names of files that a careless program takes for options, commands or lines: here they are names, everywhere."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import aiohttp
import pytest

from core.events import FileEditAction, FileEditObservation, FileReadAction, FileReadObservation, FileWriteAction
from runtime.client import ActionExecutionClient
from runtime.local.local_runtime import LocalRuntime
from runtime.protocol import KEY_HEADER
from tests.runtime.action_server import KEY, Server
from tests.runtime.conftest import Watcher
from tests.runtime.isolation.confined import repository, run, walled

NAMES = (
    *("-rf", "--", "--upload-pack=touch pwned", "-oProxyCommand=touch pwned", "--exec=sh", "-", "-c touch pwned", "@"),
    *(
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned;",
        "&& touch pwned",
        "| touch pwned",
        "> pwned",
        "&",
        "${IFS}x",
    ),
    *(
        "a\nb",
        "a\n touch pwned",
        "a\rb",
        "a\tb",
        " ",
        "'",
        '"',
        "'; touch pwned; '",
        '"; touch pwned; "',
        "\\",
        "a\\nb",
    ),
    *(
        "*",
        "?",
        "[a]",
        "{a,b}",
        "~",
        "~root",
        "!!",
        "#",
        "%s%n",
        "%2e%2e",
        "$HOME",
        "\x1b]0;x\x07",
        "\x7f",
        "\u202etxt",
    ),
    *("HEAD", ".git.", "con", "a:b", "x" * 255, "ü", "\N{DUCK}", "\udcff"),
)
"""Those of CVE-2026-33718 and its kind, and what terminals, shells and git read something into."""


@pytest.fixture
async def wire() -> object:
    async with aiohttp.ClientSession(headers={KEY_HEADER: KEY}) as session:
        yield session


@pytest.mark.parametrize("name", [name for name in NAMES if name.isprintable() or name.isascii()], ids=ascii)
async def test_actions_and_routes_take_a_name_as_it_is(
    server: Server, client: ActionExecutionClient, wire: aiohttp.ClientSession, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "in" / name
    wrote = await client.execute(FileWriteAction(path=str(file), content="one"), 1, Watcher())
    assert os.listdir(tmp_path / "in") == [name], wrote
    edit = FileEditAction(command="str_replace", path=str(file), old_str="one", new_str="two")
    assert isinstance(await client.execute(edit, 2, Watcher()), FileEditObservation)
    read = await client.execute(FileReadAction(path=str(file)), 3, Watcher())
    assert isinstance(read, FileReadObservation)
    assert read.content == "two\n"
    async with wire.post(server.url + "/list_files", json={"path": str(tmp_path / "in")}) as response:
        assert await response.json() == [name]
    async with wire.get(server.url + "/download_files", params={"path": str(tmp_path / "in")}) as response:
        archive = zipfile.ZipFile(io.BytesIO(await response.read()))
    assert archive.read(name) == b"two\n"
    form = aiohttp.FormData()
    form.add_field("file", b"three", filename="file")
    url, place = server.url + "/upload_file", {"destination": str(tmp_path / "out" / name)}
    async with wire.post(url, params=place, data=form) as response:
        assert response.status == 200
    assert (tmp_path / "out" / name / "file").read_bytes() == b"three"
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("@", "\udcff")], ids=ascii)
async def test_a_name_at_the_start_of_a_path_is_one_too(server: Server, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    async with ActionExecutionClient(KEY, url=server.url) as client:
        await client.execute(FileWriteAction(path=f"{name}/file", content="x"), 1, Watcher())
    assert [path.name for path in (tmp_path / name).iterdir()] == ["file"]
    assert os.listdir(tmp_path) == [name]


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    "name", ["-rf", "$(touch pwned)", "'; touch pwned; '", "a\nb", "--bind", "\udcff", "%s {0}"], ids=ascii
)
async def test_a_workspace_may_have_any_name(tmp_path: Path, name: str) -> None:
    workspace = repository(tmp_path / name)
    async with walled(workspace) as runtime:
        assert (await run(runtime, "touch made && git status >/dev/null && echo done")).content == "done"
    open_ = LocalRuntime(workspace)
    await open_.start()
    assert (await run(open_, "touch also && echo done")).content == "done"
    await open_.aclose()
    assert sorted(os.listdir(workspace)) == [".git", ".vscode", "also", "made"]
    assert os.listdir(tmp_path) == [name]
