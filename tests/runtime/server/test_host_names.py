"""Names of files that a careless program takes for options, commands or lines: here they are names, everywhere."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from pathlib import Path

import aiohttp
import pytest

from core.events import FileEditAction, FileEditObservation, FileReadAction, FileReadObservation, FileWriteAction
from runtime.client import ActionExecutionClient
from runtime.protocol import KEY_HEADER
from tests.runtime.action_server import KEY, Server
from tests.runtime.conftest import Watcher
from tests.runtime.isolation.confined import isolated, repository, run
from tests.warm_servers import WarmRuntime

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
"""Names as in CVE-2026-33718, and those with a meaning for terminals, shells and git."""


@pytest.fixture
async def wire() -> object:
    async with aiohttp.ClientSession(headers={KEY_HEADER: KEY}) as session:
        yield session


async def test_actions_and_routes_accept_any_file_name(
    server: Server, client: ActionExecutionClient, wire: aiohttp.ClientSession, tmp_path: Path
) -> None:
    for number, name in enumerate(name for name in NAMES if name.isprintable() or name.isascii()):
        folder = tmp_path / str(number)
        file = folder / "in" / name
        wrote = await client.execute(FileWriteAction(path=str(file), content="one"), 1, Watcher())
        assert os.listdir(folder / "in") == [name], wrote
        edit = FileEditAction(command="str_replace", path=str(file), old_str="one", new_str="two")
        assert isinstance(await client.execute(edit, 2, Watcher()), FileEditObservation), ascii(name)
        read = await client.execute(FileReadAction(path=str(file)), 3, Watcher())
        assert isinstance(read, FileReadObservation), ascii(name)
        assert read.content == "two\n"
        async with wire.post(server.url + "/list_files", json={"path": str(folder / "in")}) as response:
            assert await response.json() == [name]
        async with wire.get(server.url + "/download_files", params={"path": str(folder / "in")}) as response:
            archive = zipfile.ZipFile(io.BytesIO(await response.read()))
        assert archive.read(name) == b"two\n"
        form = aiohttp.FormData()
        form.add_field("file", b"three", filename="file")
        url, place = server.url + "/upload_file", {"destination": str(folder / "out" / name)}
        async with wire.post(url, params=place, data=form) as response:
            assert response.status == 200, ascii(name)
        assert (folder / "out" / name / "file").read_bytes() == b"three"
        assert sorted(os.listdir(folder)) == ["in", "out"], ascii(name)
    assert len(os.listdir(tmp_path)) == number + 1


async def test_any_name_may_start_a_path(server: Server, client: ActionExecutionClient, tmp_path: Path) -> None:
    for name in (name for name in NAMES if name not in ("@", "\udcff")):
        (tmp_path / name).mkdir()
        await client.execute(FileWriteAction(path=f"{name}/file", content="x"), 1, Watcher())
        assert [path.name for path in (tmp_path / name).iterdir()] == ["file"], ascii(name)
        assert os.listdir(tmp_path) == [name]
        shutil.rmtree(tmp_path / name)


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    "name", ["-rf", "$(touch pwned)", "'; touch pwned; '", "a\nb", "--bind", "\udcff", "%s {0}"], ids=ascii
)
async def test_workspace_may_have_any_name(tmp_path: Path, name: str) -> None:
    workspace = repository(tmp_path / name)
    async with isolated(workspace) as runtime:
        assert (await run(runtime, "touch made && git status >/dev/null && echo done")).content == "done"
    open_ = WarmRuntime(workspace)
    await open_.start()
    assert (await run(open_, "touch also && echo done")).content == "done"
    await open_.aclose()
    assert sorted(os.listdir(workspace)) == [".git", ".vscode", "also", "made"]
    assert os.listdir(tmp_path) == [name]
