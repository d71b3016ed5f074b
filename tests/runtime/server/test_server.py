"""`python -m runtime.server` as a process: refusals to start, hidden data, and its end."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.events import CmdOutputObservation, CmdRunAction, FileEditAction
from runtime.client import ActionExecutionClient
from runtime.server.edit_history import DiskHistory
from tests.runtime.action_server import KEY, Process
from tests.runtime.conftest import WITHIN_S, Watcher, has_ended


class TestFiles:
    async def edit(self, process: Process, **fields: Any) -> str:
        async with ActionExecutionClient(KEY, uds=str(process.socket)) as client:
            return (await client.execute(FileEditAction(**fields), 1, Watcher())).content

    async def test_next_server_can_undo_an_edit(self, process: Process) -> None:
        file = process.folder / "f"
        file.write_text("one\n")
        state = ("--state-dir", str(process.folder / "state"))
        child = process.start(*state)
        process.ready()
        await self.edit(process, command="str_replace", path=str(file), old_str="one", new_str="two")
        child.kill()
        child.communicate()
        process.key_file.write_text(KEY)
        process.socket.unlink()
        process.start(*state)
        process.ready()
        assert "undone successfully" in await self.edit(process, command="undo_edit", path=str(file))
        assert file.read_text() == "one\n"

    async def test_file_actions_are_limited_to_the_roots(self, process: Process) -> None:
        for name in ("a", "b", "c"):
            (process.folder / name).mkdir()
        roots = [f"{process.folder}/a", f"{process.folder}/b"]
        process.start("--root", roots[0], "--root", roots[1])
        process.ready()
        for name in ("a", "b"):
            path = f"{process.folder}/{name}/f"
            assert "created" in await self.edit(process, command="create", path=path, file_text="x")
        refused = await self.edit(process, command="create", path=f"{process.folder}/c/f", file_text="x")
        assert (
            refused == f"ERROR:\nThe path {process.folder}/c/f is outside of {', '.join(roots)}. Use a path beneath it."
        )


class TestRefusing:
    @pytest.mark.parametrize(
        ("option", "value", "reason"),
        [
            ("--root", "/no/such", "No such file"),
            ("--working-dir", "/no/such", "No such file"),
            ("--plugins", "nonsense", "no plugin is called 'nonsense'"),
        ],
    )
    def test_missing_folder_or_plugin_is_refused(self, process: Process, option: str, value: str, reason: str) -> None:
        assert reason in process.refusal(option, value)

    def test_state_folder_of_another_server_is_refused(self, process: Process) -> None:
        history = DiskHistory(process.folder / "state/undo")
        assert "another server keeps its history here" in process.refusal("--state-dir", str(process.folder / "state"))
        history.close()

    def test_missing_key_file_is_refused(self, process: Process) -> None:
        process.key_file.unlink()
        assert "No such file" in process.refusal()

    def test_empty_key_is_refused(self, process: Process) -> None:
        process.key_file.write_text(" \n")
        assert "the key file is empty" in process.refusal()
        assert not process.key_file.exists()

    def test_used_socket_is_refused(self, process: Process) -> None:
        process.socket.touch()
        assert "in use" in process.refusal()


class TestHiding:
    async def test_key_file_is_removed_and_the_socket_is_private(self, process: Process) -> None:
        process.start()
        assert process.ready() == f"ready unix:{process.socket}\n"
        assert not process.key_file.exists()
        assert stat.S_IMODE(process.socket.stat().st_mode) == 0o600

    async def test_commands_do_not_find_the_key(self, process: Process) -> None:
        child = process.start()
        process.ready()
        said = await process.run(f"env; cat /proc/{child.pid}/cmdline /proc/*/environ; ls -R {process.folder}")
        assert KEY not in said

    async def test_commands_have_the_users_umask_and_dump_no_core(self, process: Process) -> None:
        before = os.umask(0o027)
        try:
            process.start()
        finally:
            os.umask(before)
        process.ready()
        assert await process.run("umask; ulimit -Sc") == "0027\n0"

    def test_port_is_bound_to_loopback(self, process: Process) -> None:
        process.start(where=("--port", "0"))
        assert process.ready().startswith("ready http://127.0.0.1:")


class TestOptions:
    async def test_limits_hold_for_commands(self, process: Process) -> None:
        limits = ("--max-memory", str(3 * 2**30), "--max-processes", "4321", "--max-file", str(7 * 2**20))
        process.start(*limits)
        process.ready()
        assert (await process.run("ulimit -d; ulimit -Hd; ulimit -u; ulimit -f")).split() == [
            str(3 * 2**20), str(3 * 2**20), "4321", str(7 * 2**10),
        ]  # fmt: skip

    def test_limits_are_only_lowered(self) -> None:
        program = (
            "import resource as r; from runtime.server.main import limit; what = r.RLIMIT_NOFILE\n"
            "for most in (90, None, 80, 200): limit(what, most); print(*r.getrlimit(what))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["90", "90", "90", "90", "80", "80", "80", "80"]

    def test_key_file_option_is_required(self, tmp_path: Path) -> None:
        command = [sys.executable, "-P", "-m", "runtime.server", "--working-dir", str(tmp_path)]
        done = subprocess.run([*command, "--uds", "s"], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "the following arguments are required: --key-file" in done.stderr

    async def test_web_hosts_are_reported(self, process: Process) -> None:
        options = ("--web-host", "http://localhost:50001=3000", "--web-host", "http://localhost:50002=3001")
        process.start(*options)
        process.ready()
        async with ActionExecutionClient(KEY, uds=str(process.socket)) as client:
            info = await client.server_info()
        assert info["web_hosts"] == {"http://localhost:50001": 3000, "http://localhost:50002": 3001}

    @pytest.mark.parametrize("value", ["", "3000", "http://localhost:1=", "http://localhost:1=x", "http://h:1=\u0663"])
    def test_invalid_web_host_is_refused(self, process: Process, value: str) -> None:
        assert "argument --web-host: invalid" in process.refusal("--web-host", value)


class TestEnding:
    async def test_server_leaves_no_files(self, process: Process, tmp_path: Path) -> None:
        private = tmp_path / "private"
        private.mkdir()
        child = process.start("--private-dir", str(private))
        process.ready()
        said = await process.run('echo "${BASH_SOURCE[0]}"; seq 1 20000')
        own = Path(said.split()[0]).parent
        assert own.is_dir()
        assert len(list(private.iterdir())) == 2
        child.terminate()
        assert child.wait(timeout=WITHIN_S) == 0
        assert not own.exists()
        assert list(private.iterdir()) == []
        assert not process.socket.exists()

    STRAYS = """
mkfifo pids
begin='echo $$ >pids; exec sleep 600'
sh -c "$begin" & disown
setsid sh -c "$begin" &
(setsid nohup sh -c "$begin" >/dev/null 2>&1 &)
bash -c "trap '' INT TERM HUP; sh -c '$begin'; sleep 600" &
exec 3<>pids
for n in 1 2 3 4; do read -r pid <&3; echo "$pid"; done
exec 3>&-
"""

    async def strays(self, process: Process) -> list[int]:
        """Processes that a command leaves behind, each in its own way; all of them have begun."""
        (process.folder / "strays").write_text(self.STRAYS)
        said = await process.run("source ./strays")
        pids = [int(line) for line in said.splitlines() if line.isdigit()]
        assert len(pids) == 4, said
        assert not any(has_ended(pid, 0) for pid in pids)
        return pids

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    async def test_signal_ends_the_server_and_its_processes(self, process: Process, number: int) -> None:
        child = process.start()
        process.ready()
        strays = await self.strays(process)
        child.send_signal(number)
        assert child.wait(timeout=WITHIN_S) == 0
        assert all(has_ended(pid, 0) for pid in strays)
        assert not process.socket.exists()

    async def test_closed_lifeline_ends_the_server_and_its_processes(self, process: Process) -> None:
        child = process.start("--stdin-lifeline")
        process.ready()
        strays = await self.strays(process)
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(timeout=WITHIN_S) == 0
        assert all(has_ended(pid, 0) for pid in strays)

    async def test_orphans_are_reaped(self, process: Process) -> None:
        child = process.start()
        process.ready()
        orphan = int(await process.run("(setsid cat </dev/null & echo $!)"))
        assert has_ended(orphan)
        await process.run("true")
        command = ["ps", "--ppid", str(child.pid), "-o", "pid=,stat="]
        assert f"\n{orphan} " not in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_server_imports_neither_screen_nor_store_nor_models() -> None:
    listing = "import sys, runtime.server.main; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True).stdout
    packages = {name.split(".")[0] for name in loaded.split()}
    assert packages.isdisjoint({"textual", "rich", "litellm", "aiosqlite", "sqlite3", "docker", "playwright", "pyte"})
    ours = {name for name in loaded.split() if name.startswith("core.")}
    assert {".".join(name.split(".")[:2]) for name in ours} == {
        "core.environment",
        "core.errors",
        "core.events",
        "core.globs",
        "core.image_types",
        "core.interpreter",
        "core.secrets",
        "core.plugin_requirements",
        "core.sandbox_types",
        "core.status_messages",
        "core.terminal",
    }


async def test_keys_work_although_signals_were_ignored_at_start(process: Process) -> None:
    process.start(within=("sh", "-c", 'trap \'\' INT QUIT TSTP HUP; exec "$0" "$@"'))
    assert process.ready().startswith("ready")
    async with ActionExecutionClient(KEY, uds=str(process.socket)) as client:
        watcher = Watcher()
        command = CmdRunAction(
            command="(kill -QUIT $BASHPID; echo ignored); (kill -HUP $BASHPID; echo ignored); echo done"
        )
        assert isinstance(done := await client.execute(command, 1, watcher), CmdOutputObservation)
    assert done.content.endswith("done")
    assert "ignored" not in done.content
