"""A server named by a workspace runs in the sandbox, so files that the agent writes beside its script cannot escape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.errors import RuntimeUnavailableError
from core.mcp.supervisor import BeforeServer, ServerState, Supervisor
from core.mcp.tool_registry import Toolbox
from core.settings.config import Settings
from tests.mcp.supervised import GOOD, START_S, Supervised
from tests.runtime.isolation.confined import own
from tui.runtime_factory import RuntimeFactory

pytestmark = pytest.mark.bubblewrap


class OfProject(Supervised):
    """As Supervised, for servers that the workspace names and that `before` isolates."""

    def __init__(self, home: Path, workspace: Path, before: BeforeServer) -> None:
        super().__init__(home, workspace, {}, {})
        self.supervisor = Supervisor(home, lambda: self.settings, dict(os.environ), before)
        self.supervisor.listeners.add(self._on_server)
        self.box = Toolbox(self.supervisor, self.workspace)

    async def agree(self) -> None:
        """Say yes to the server `s`, and wait until it is settled."""
        await self.supervisor.allow("s@" + self.workspace, self.server("s").spec.fingerprint)
        await self.supervisor.settled(self.workspace, START_S)


@asynccontextmanager
async def of_project(tmp_path: Path, server: dict[str, Any], **sandbox: object) -> AsyncIterator[OfProject]:
    """The server `s` of a workspace, agreed to; `sandbox` are settings."""
    workspace = tmp_path / "workspace"
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    own(workspace)
    settings = Settings.model_validate({"sandbox": sandbox})
    runtimes = RuntimeFactory(tmp_path / "home", lambda: settings, os.environ)
    it = OfProject(tmp_path / "home", workspace, runtimes.before_server)
    try:
        await it.supervisor.open(it.workspace)
        await it.agree()
        yield it
    finally:
        await it.supervisor.aclose()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with the server's script, and beside it what an agent wrote meanwhile."""
    workspace = tmp_path / "workspace"
    (workspace / "tools").mkdir(parents=True)
    fired = tmp_path / "fired"
    (workspace / "tools" / "server.py").write_text(Path(GOOD).read_text())
    (workspace / "tools" / "colorsys.py").write_text(
        f"import pathlib\ntry:\n    pathlib.Path({str(fired)!r}).touch()\nexcept OSError:\n    pass\n"
        f"pathlib.Path({str(workspace)!r}, 'imported').touch()\n"
    )
    script = workspace / "tools" / "server.py"
    script.write_text(
        script.read_text().replace(
            "from __future__ import annotations\n", "from __future__ import annotations\nimport colorsys\n", 1
        )
    )
    return workspace


SERVER = {"command": sys.executable, "args": ["tools/server.py", "stdio"]}


async def test_modules_beside_the_script_have_no_effect_outside(tmp_path: Path, workspace: Path) -> None:
    async with of_project(tmp_path, SERVER, isolation="bubblewrap") as it:
        assert it.server("s").state is ServerState.READY, it.told
        assert await it.names()
    assert (workspace / "imported").exists(), "it ran"
    assert not (tmp_path / "fired").exists(), "and not on this machine"


async def test_server_runs_on_the_host_without_isolation(tmp_path: Path, workspace: Path) -> None:
    async with of_project(tmp_path, SERVER, isolation="none") as it:
        assert it.server("s").state is ServerState.READY, it.told
    assert (tmp_path / "fired").exists()


async def test_isolated_server_ends_with_its_supervisor(tmp_path: Path, workspace: Path) -> None:
    subprocess.run(["git", "init", "--quiet", workspace], check=True)
    async with of_project(tmp_path, SERVER, isolation="bubblewrap") as it:
        assert it.server("s").state is ServerState.READY, it.told
        assert (workspace / ".git" / "commondir").exists()
        assert processes_of(workspace)
    assert not (workspace / ".git" / "commondir").exists()
    assert processes_of(workspace) == []


def processes_of(workspace: Path) -> list[str]:
    """The command lines that name a workspace."""
    listing = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if str(workspace) in line]


async def test_only_allowed_hosts_are_reached(tmp_path: Path, workspace: Path) -> None:
    (workspace / "tools" / "colorsys.py").write_text(
        "import os, pathlib, socket\n"
        "seen = [name for name in os.listdir('/proc') if name.isdigit()]\n"
        "pathlib.Path('seen').write_text(str(len(seen)) + ' ' + str('HTTPS_PROXY' in os.environ))\n"
    )
    async with of_project(tmp_path, SERVER, isolation="bubblewrap", allowed_hosts=["example.org"]) as it:
        assert it.server("s").state is ServerState.READY, it.told
    processes, has_proxy = (workspace / "seen").read_text().split()
    assert int(processes) < 10
    assert has_proxy == "True"


async def test_denied_paths_are_unreachable(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "policy.toml").write_text('deny = ["read(secret.txt)", "write(fixed.txt)", "net(*)"]')
    for name in ("secret.txt", "fixed.txt"):
        (workspace / name).write_text("canary")
    (workspace / "tools" / "colorsys.py").write_text(
        "import pathlib, urllib.request\n"
        "for act in (pathlib.Path('secret.txt').read_text, lambda: pathlib.Path('fixed.txt').write_text('x'),\n"
        "            lambda: urllib.request.urlopen('https://example.org/')):\n"
        "    try:\n        act()\n    except OSError as error:\n"
        "        with open('seen', 'a') as seen:\n            print(error, file=seen)\n"
    )
    async with of_project(tmp_path, SERVER, isolation="bubblewrap", allowed_hosts=["example.org"]) as it:
        assert it.server("s").state is ServerState.READY, it.told
    hidden, fixed, host = (workspace / "seen").read_text().splitlines()
    assert ("Permission denied" in hidden, "Read-only file system" in fixed) == (True, True)
    assert "403 example.org is denied by the rule policy.toml:1 deny net(*)" in host


class OfUser(Supervised):
    """The user's own servers, isolated as Handloom does it."""

    def __init__(self, tmp_path: Path, servers: dict[str, Any], environ: dict[str, str], **sandbox: object) -> None:
        super().__init__(tmp_path / "home", tmp_path / "workspace", servers, environ)
        settings = Settings.model_validate({"sandbox": {"isolation": "bubblewrap", **sandbox}})
        runtimes = RuntimeFactory(tmp_path / "home", lambda: settings, os.environ)
        own(Path(self.workspace))
        self.supervisor = Supervisor(
            tmp_path / "home", lambda: self.settings, {**os.environ, **environ}, runtimes.before_server
        )
        self.supervisor.listeners.add(self._on_server)
        self.box = Toolbox(self.supervisor, self.workspace)

    async def __aenter__(self) -> OfUser:
        await self.supervisor.open(self.workspace)
        await self.supervisor.settled(self.workspace, START_S)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.supervisor.aclose()


async def test_a_users_own_server_runs_in_the_sandbox_unless_its_setting_says_otherwise(
    tmp_path: Path, workspace: Path
) -> None:
    fired = tmp_path / "fired"
    for is_isolated in (True, False):
        script = str(workspace / "tools" / "server.py")
        server = {"command": sys.executable, "args": [script, "stdio"], "sandbox": is_isolated}
        async with OfUser(tmp_path, {"mine": server}, {}) as it:
            assert it.server("mine").state is ServerState.READY, it.told
            assert "mine__add" in await it.names()
        assert fired.exists() is not is_isolated


async def test_a_server_may_access_its_own_hosts_beside_those_of_the_sandbox(tmp_path: Path, workspace: Path) -> None:
    (workspace / "tools" / "colorsys.py").write_text(
        "import pathlib, urllib.error, urllib.request\n"
        "for host in ('one.invalid', 'two.invalid', 'three.invalid'):\n"
        "    try:\n        urllib.request.urlopen(f'https://{host}/')\n"
        "    except OSError as error:\n"
        "        with open('seen', 'a') as seen:\n            print(error, file=seen)\n"
    )
    server = {"command": sys.executable, "args": ["tools/server.py", "stdio"], "allowed_hosts": ["two.invalid"]}
    async with OfUser(tmp_path, {"mine": server}, {}, allowed_hosts=["one.invalid"]) as it:
        assert it.server("mine").state is ServerState.READY, it.told
    one, two, three = (workspace / "seen").read_text().splitlines()
    assert "one.invalid was not found" in one
    assert "two.invalid was not found" in two
    assert "was not found" not in three, "it was not even looked up"
    assert "403 three.invalid" in three


async def test_the_search_server_runs_in_the_sandbox_with_its_key(tmp_path: Path, workspace: Path) -> None:
    """A program in the place of `npx`, because there is no network: it is started as the real one would be."""
    npx = workspace / "bin" / "npx"
    npx.parent.mkdir()
    npx.write_text(f'#!/bin/sh\necho "$@" "$TAVILY_API_KEY" >seen\nexec {sys.executable} tools/server.py stdio\n')
    npx.chmod(0o755)
    environ = {"PATH": f"{npx.parent}:{os.environ['PATH']}", "SEARCH_API_KEY": "tvly-0123456789"}
    async with OfUser(tmp_path, {}, environ) as it:
        assert it.server("tavily").state is ServerState.READY, it.told
        assert "tavily__add" in await it.names()
    assert (workspace / "seen").read_text() == "-y tavily-mcp@0.2.1 tvly-0123456789\n"
    assert not (tmp_path / "fired").exists(), "it did not run on this machine"


async def test_server_is_not_started_if_required_isolation_fails(tmp_path: Path, workspace: Path) -> None:
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": SERVER}}))

    def refused(folder: str, hosts: Sequence[str]) -> tuple[str, ...]:
        raise RuntimeUnavailableError("It cannot be isolated.")

    it = OfProject(tmp_path / "home", workspace, refused)
    try:
        await it.supervisor.open(it.workspace)
        await it.agree()
        assert it.server("s").state is ServerState.FAILED
        assert "cannot be isolated" in it.server("s").reason
    finally:
        await it.supervisor.aclose()
