"""What holds for LocalRuntime beyond the contract of every runtime, which is `tests/contract`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import RuntimeUnavailableError
from core.events import CmdRunAction
from core.protocols import Runtime
from core.secrets.variable_names import without_secret_variables
from runtime.isolation.confinement import remove_abandoned, session_parent
from runtime.local.local_runtime import LocalRuntime
from tests.runtime.conftest import Watcher, has_ended


def test_local_runtime_implements_the_protocol(tmp_path: Path) -> None:
    runtime: Runtime = LocalRuntime(tmp_path)
    assert runtime.isolation == "none"
    assert runtime.working_dir == str(tmp_path)


async def test_secret_variables_are_not_in_the_sandbox(
    tmp_path: Path, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("HANDLOOM_PLAIN", "plain")
    runtime = LocalRuntime(tmp_path)
    await runtime.start()
    observation = await runtime.execute(CmdRunAction(command="env"), 1, watcher)
    await runtime.aclose()
    assert "sk-secret" not in observation.content
    assert "HANDLOOM_PLAIN=plain" in observation.content


async def test_workspace_modules_do_not_replace_the_servers(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime/__init__.py").write_text("raise SystemExit('hijacked')")
    runtime = LocalRuntime(tmp_path)
    await runtime.start()
    await runtime.aclose()


async def test_missing_workspace_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match=r"is not a folder\. Choose another one"):
        await LocalRuntime(tmp_path / "none").start()


async def test_failed_server_start_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match=r"did not start: .*no plugin is called 'nonsense'"):
        await LocalRuntime(tmp_path, options=("--plugins", "nonsense")).start()


OWNER = """
import asyncio, sys
from core.events import CmdRunAction
from runtime.local.local_runtime import LocalRuntime

async def main():
    runtime = LocalRuntime(sys.argv[1])
    await runtime.start()
    action = CmdRunAction(command="(setsid sleep 100 >/dev/null 2>&1 & echo $!)")
    said = await runtime.execute(action, 1, print)
    sys.stdout.write(f"{runtime.server_pid} {said.content}\\n")
    sys.stdout.flush()
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_killed_owner_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        line = ""
        while not line[:1].isdigit():
            line = owner.stdout.readline()
        owner.kill()
    server, stray = map(int, line.split())
    assert has_ended(server)
    assert has_ended(stray)


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "PGPASSWORD"),
        *("db_password", "HANDLOOM__LLM__API_KEY", "CLIENT_SECRET", "TOKEN", "GOOGLE_CREDENTIALS"),
        *("SSH_PRIVATE_KEY", "APIKEY"),
    ],
)
def test_secret_variables_are_recognised_by_name(name: str) -> None:
    assert without_secret_variables({name: "x"}) == {}


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "KEYBOARD", "MONKEY", "TOKENIZER"])
def test_other_variables_pass(name: str) -> None:
    assert without_secret_variables({name: "x"}) == {name: "x"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    before = set(children.read_text().split())
    runtime = LocalRuntime(tmp_path)
    for turns in (0, 1, 2, 4, 8, 16, 32, 64):
        start = asyncio.create_task(runtime.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        start.cancel()
        await asyncio.sleep(0)
        start.cancel()  # by the interrupt, and by the end of the conversation
        await asyncio.gather(start, return_exceptions=True)
        assert runtime.server_pid is None
        assert set(children.read_text().split()) <= before
    await runtime.start()
    await runtime.aclose()


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_leftovers_of_a_killed_runtime_are_removed_by_the_next(tmp_path: Path, temporary: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as owner:
        assert owner.stdout is not None
        while not owner.stdout.readline()[:1].isdigit():
            pass
        (left,) = session_parent().iterdir()
        remove_abandoned()
        assert left.exists(), "it is in use"
        owner.kill()
    remove_abandoned()
    assert not left.exists()


def test_session_folder_is_private(temporary: Path) -> None:
    (temporary / "elsewhere").mkdir(mode=0o700)
    (temporary / f"handloom-{os.geteuid()}").symlink_to(temporary / "elsewhere")
    assert session_parent().parent != temporary
    (temporary / f"handloom-{os.geteuid()}").unlink()
    (temporary / f"handloom-{os.geteuid()}").mkdir(mode=0o755)
    assert session_parent().parent != temporary
    (temporary / f"handloom-{os.geteuid()}").chmod(0o700)
    assert session_parent().parent == temporary


def test_one_folder_is_made_if_every_name_is_taken(temporary: Path) -> None:
    code = """
import os, sys
from runtime.isolation import confinement
from runtime.isolation.confinement import SessionFolder, session_parent

confinement._is_ours = lambda folder: False  # another user was there first
first = SessionFolder()
first.remove()
assert session_parent() == first.path.parent
print(first.path.parent)
"""
    environ = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert not Path(done.stdout.strip()).exists()


async def test_unresponsive_foreign_socket_does_not_delay_the_start(tmp_path: Path, temporary: Path) -> None:
    with contextlib.ExitStack() as stack:
        folder = temporary / "handloom-abcdefgh"
        folder.mkdir()
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(folder / "s"))
        listener.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(folder / "s"))
        os.utime(folder, (0, 0))
        runtime = LocalRuntime(tmp_path)
        async with asyncio.timeout(60):
            await runtime.start()
        await runtime.aclose()
        assert folder.exists()


async def test_commands_are_killed_before_the_server_when_memory_runs_out(tmp_path: Path, watcher: Watcher) -> None:
    if not Path("/proc/self/oom_score_adj").exists():
        pytest.skip("the system has no such scores")
    runtime = LocalRuntime(tmp_path)
    await runtime.start()
    observation = await runtime.execute(CmdRunAction(command="cat /proc/self/oom_score_adj"), 1, watcher)
    server = Path(f"/proc/{runtime.server_pid}/oom_score_adj").read_text()
    await runtime.aclose()
    assert int(observation.content) > int(server)
