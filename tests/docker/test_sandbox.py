"""Programs of the image work without root, network and capabilities, on a read-only system."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from core.events import (
    Action,
    BrowserOutputObservation,
    BrowseURLAction,
    CmdOutputObservation,
    CmdRunAction,
    FileReadAction,
    FileReadObservation,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    Observation,
)
from runtime import image
from runtime.client import ActionExecutionClient
from tests.containers import USER, Served, engine, sandbox_image, served

pytestmark = pytest.mark.docker
Seen = TypeVar("Seen", bound=Observation)
PLUGINS = ("--lazy-plugins", "--plugins", "agent_skills,browser,jupyter")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Served]:
    with served(*PLUGINS) as sandbox:
        yield sandbox


@pytest.fixture
async def client(sandbox: Served) -> AsyncIterator[ActionExecutionClient]:
    async with sandbox.client() as client:
        yield client


async def done(client: ActionExecutionClient, kind: type[Seen], action: Action) -> Seen:
    observation = await client.execute(action, 1, lambda frame: None)
    assert isinstance(observation, kind), observation
    return observation


async def shell(client: ActionExecutionClient, command: str) -> str:
    return (await done(client, CmdOutputObservation, CmdRunAction(command=command))).content


class TestPrograms:
    async def test_command_runs_as_the_host_user_in_the_workspace(
        self, sandbox: Served, client: ActionExecutionClient
    ) -> None:
        assert await shell(client, "id -u; id -g; id -un; pwd; echo $HOME; touch made; ls") == (
            f"{USER.uid}\n{USER.gid}\nagent\n/workspace\n/home/agent\nmade"
        )
        assert (sandbox.workspace / "made").stat().st_uid == USER.uid

    @pytest.mark.parametrize("program", ["bash", "git", "rg", "tini", "socat", "curl", "ps", "python3", "pip"])
    async def test_image_has_program(self, client: ActionExecutionClient, program: str) -> None:
        assert re.search(r"\d+\.\d+", await shell(client, f"{program} {'-V' if program == 'socat' else '--version'}"))

    async def test_system_files_are_read_only(self, client: ActionExecutionClient) -> None:
        assert "Read-only file system" in await shell(client, "touch /opt/handloom/code/core/x")
        assert await shell(client, "touch /tmp/x ~/x && echo written") == "written"

    async def test_cells_share_state(self, client: ActionExecutionClient) -> None:
        await done(client, IPythonRunCellObservation, IPythonRunCellAction(code="import os; x = 6"))
        seen = await done(client, IPythonRunCellObservation, IPythonRunCellAction(code="print(x * 7, os.getuid())"))
        assert seen.content.startswith(f"42 {USER.uid}\n")

    async def test_page_is_opened_and_read(self, client: ActionExecutionClient) -> None:
        await shell(client, "mkdir -p site && echo '<title>Tide</title><h1>High water</h1>' >site/index.html")
        await shell(client, "cd site && (python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &) ; cd ..")
        waits = (
            "python3 -c 'import socket,time\nwhile socket.socket().connect_ex((\"127.0.0.1\", 8123)): time.sleep(.05)'"
        )
        await shell(client, waits)
        seen = await done(client, BrowserOutputObservation, BrowseURLAction(url="http://127.0.0.1:8123/"))
        assert "High water" in seen.content
        assert seen.screenshot

    async def test_office_file_is_read_as_text(self, sandbox: Served, client: ActionExecutionClient) -> None:
        code = f"{image.PYTHON} -c \"import docx; d = docx.Document(); d.add_paragraph('Low water'); d.save('a.docx')\""
        await shell(client, code)
        seen = await done(client, FileReadObservation, FileReadAction(path="/workspace/a.docx"))
        assert "Low water" in seen.content


class TestTrust:
    async def test_packages_in_the_agents_home_affect_cells_but_not_the_server(
        self, sandbox: Served, client: ActionExecutionClient
    ) -> None:
        version = sandbox.run(image.PYTHON, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])")[1].strip()
        home = f"/home/agent/.local/lib/{version}/site-packages"
        await shell(client, f"mkdir -p {home} && echo 'NAME = \"brought\"' >{home}/brought.py")
        await shell(client, f"echo 'import brought' >{home}/usercustomize.py")
        loads = "import sys; print('brought' in sys.modules)"
        assert sandbox.run(image.PYTHON, "-c", loads) == (0, "True\n")
        assert sandbox.run(*image.SERVER[:2], "-c", loads) == (0, "False\n")

    def test_image_layers_contain_no_proxy_settings(self, sandbox: Served) -> None:
        hosts = places_of_packages()
        with engine() as client:
            steps = [step["CreatedBy"] for step in client.images.get(sandbox_image()).history()]
        assert not [step for step in steps if any(host in step for host in hosts)]
        for host in hosts:
            search = ("grep", "-rlF", "--exclude-dir=site-packages", host, "/opt/handloom", "/home/agent")
            assert sandbox.run(*search) == (1, "")
        left = "find /opt/handloom -name direct_url.json ; find /var/lib/apt/lists /var/log/apt -type f -size +0"
        assert sandbox.run("sh", "-c", f"({left}) 2>/dev/null")[1] == ""


def places_of_packages() -> list[str]:
    """The hosts that this machine's pip and apt are set to use."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    text = said.stdout
    for file in Path("/etc/apt").rglob("*.sources"):
        text += file.read_text()
    if (old := Path("/etc/apt/sources.list")).exists():
        text += old.read_text()
    return sorted(set(re.findall(r"https?://(?:[^/@\s']*@)?([\w.-]+)", text)))


class TestStart:
    def test_server_is_ready_soon_after_the_container_is_requested(self) -> None:
        """`make bench` measures it; this is what no machine should need."""
        sandbox_image()
        begun_at = time.monotonic()
        with served():
            assert time.monotonic() - begun_at < 60

    def test_code_in_the_image_is_compiled(self, sandbox: Served) -> None:
        """A read-only system cannot store code compiled at start."""
        bare = (
            "find /opt/handloom -name '*.py' -not -path '*/tests/*' | wc -l; find /opt/handloom -name '*.pyc' | wc -l"
        )
        sources, compiled = map(int, sandbox.run("sh", "-c", bare)[1].split())
        assert compiled >= sources > 500
