"""LocalRuntime keeps the contract of a runtime: starts, carries out, survives its server, ends everything."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import RuntimeUnavailableError
from core.events import AgentThinkAction, CmdRunAction, FileEditAction
from core.ports import Runtime
from runtime.environment import without_secrets
from runtime.local import LocalRuntime
from tests.runtime.conftest import Watcher, has_ended


def test_it_is_a_runtime(tmp_path: Path) -> None:
    runtime: Runtime = LocalRuntime(tmp_path)
    assert runtime.isolation == "none"
    assert runtime.working_dir == str(tmp_path)


async def test_commands_run_in_the_working_folder_and_are_shown(
    local: LocalRuntime, watcher: Watcher, tmp_path: Path
) -> None:
    observation = await local.execute(CmdRunAction(command="pwd"), 7, watcher)
    assert observation.content == str(tmp_path)
    assert watcher.shown == f"\x1b[2m$ pwd\x1b[0m\r\n{tmp_path}\r\n".encode()


async def test_large_output_and_large_files_pass(local: LocalRuntime, watcher: Watcher, tmp_path: Path) -> None:
    await local.execute(CmdRunAction(command="seq 1 100000"), 1, watcher)
    assert watcher.shown.endswith(b"\r\n100000\r\n")
    text = "x" * 1_040_000
    edit = FileEditAction(command="create", path=str(tmp_path / "f"), file_text=text)
    observation = await local.execute(edit, 2, watcher)
    assert observation.model_dump()["new_content"] == text


async def test_starting_twice_is_starting_once(local: LocalRuntime) -> None:
    pid = local.server_pid
    await asyncio.gather(local.start(), local.start())
    assert local.server_pid == pid


async def test_secrets_of_the_environment_stay_outside(
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


async def test_the_working_folder_cannot_replace_the_servers_modules(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime/__init__.py").write_text("raise SystemExit('hijacked')")
    runtime = LocalRuntime(tmp_path)
    await runtime.start()
    await runtime.aclose()


async def test_cancelling_returns_at_once_and_interrupts(local: LocalRuntime, watcher: Watcher) -> None:
    action = CmdRunAction(command="echo begun; sleep 100", blocking=True)
    running = asyncio.create_task(local.execute(action, 1, watcher))
    await watcher.sees(b"begun\r\n")
    running.cancel()
    async with asyncio.timeout(0.5):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert (await local.execute(CmdRunAction(command="echo usable"), 2, watcher)).content == "usable"


async def test_a_server_that_dies_is_said_and_can_be_started_again(local: LocalRuntime, watcher: Watcher) -> None:
    running = asyncio.create_task(local.execute(CmdRunAction(command="echo begun; sleep 100"), 1, watcher))
    await watcher.sees(b"begun\r\n")
    pid = local.server_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeUnavailableError, match=r"The sandbox is gone .* Send a message to start a new one"):
        await running
    with pytest.raises(RuntimeUnavailableError, match="The sandbox is gone"):
        await local.execute(AgentThinkAction(), 2, watcher)
    await local.start()
    assert local.server_pid != pid
    assert (await local.execute(CmdRunAction(command="echo again"), 3, watcher)).content == "again"


async def test_closing_ends_the_server_and_all_that_it_started(local: LocalRuntime, watcher: Watcher) -> None:
    said = await local.execute(CmdRunAction(command="(setsid sleep 100 & echo $!)"), 1, watcher)
    server, stray = local.server_pid, int(said.content)
    assert server is not None
    await local.aclose()
    await local.aclose()
    assert has_ended(server, 0)
    assert has_ended(stray, 0)
    with pytest.raises(RuntimeUnavailableError, match="not started"):
        await local.execute(AgentThinkAction(), 2, watcher)


async def test_it_can_be_started_again_after_closing(local: LocalRuntime, watcher: Watcher) -> None:
    await local.aclose()
    await local.start()
    assert (await local.execute(CmdRunAction(command="echo hi"), 1, watcher)).content == "hi"


async def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match=r"is no folder\. Choose another one"):
        await LocalRuntime(tmp_path / "none").start()


async def test_a_server_that_does_not_start_is_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match=r"did not start: .*no plugin is called nonsense"):
        await LocalRuntime(tmp_path, options=("--plugins", "nonsense")).start()


OWNER = """
import asyncio, sys
from core.events import CmdRunAction
from runtime.local import LocalRuntime

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


def test_killing_the_owner_leaves_nothing_behind(tmp_path: Path) -> None:
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
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert without_secrets({name: "x"}) == {}


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "KEYBOARD", "MONKEY", "TOKENIZER"])
def test_other_variables_pass(name: str) -> None:
    assert without_secrets({name: "x"}) == {name: "x"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
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
