"""A sandbox with isolation: nothing escapes, ordinary work is possible, and nothing is left on the host."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from core.autorun_paths import NAMES
from core.errors import RuntimeUnavailableError, UsageError
from core.events import CmdOutputObservation, FileEditAction, FileEditObservation
from runtime.isolation.bubblewrap import Bubblewrap, hidden_arguments, sandbox_user, unavailable_reason
from runtime.isolation.cgroups import ControlGroup, Limits
from runtime.isolation.confinement import Isolation, remove_abandoned
from runtime.isolation.egress_proxy import PROXY_SOCKET
from runtime.isolation.protected_paths import CONTENTS, HeldMounts
from runtime.local.local_runtime import LocalRuntime
from tests.runtime.isolation.confined import BUBBLEWRAP, SOMEBODY, isolated, own, repository, run
from tests.runtime.isolation.escape_attempts import Goals, goals, outcomes_of
from tests.runtime.probes import HARMLESS

pytestmark = [pytest.mark.alone, pytest.mark.bubblewrap]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return repository(tmp_path / "workspace")


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Goals]:
    async with goals(tmp_path) as machine:
        yield machine


async def test_no_escape_attempt_succeeds(workspace: Path, machine: Goals) -> None:
    async with isolated(workspace) as runtime:
        outcomes = await outcomes_of(runtime, machine)
    print(f"{len(outcomes)} ways out were tried, {sum(outcomes.values())} of them led out")
    assert [name for name, led_out in outcomes.items() if led_out] == []
    assert len(outcomes) >= 120
    assert machine.secret.read_text() == "canary"
    assert os.listdir(machine.outside) == ["secret"]


async def test_escape_attempts_succeed_without_isolation(workspace: Path, machine: Goals) -> None:
    runtime = LocalRuntime(workspace)
    try:
        await runtime.start()
        outcomes = await outcomes_of(runtime, machine, HARMLESS)
    finally:
        await runtime.aclose()
    print(f"{len(outcomes)} ways out were tried without walls, {sum(outcomes.values())} of them led out")
    for name in ("read: {secret}", "read: by a symbolic link", "network: the host's loopback", "persistence: .envrc"):
        assert outcomes[name]
    assert sum(outcomes.values()) > len(outcomes) / 3


async def test_ordinary_work_is_possible_inside(workspace: Path) -> None:
    async with isolated(workspace) as runtime:
        assert runtime.isolation == "bubblewrap"
        script = """
        set -e
        git config --get core.bare
        echo 'print("hello")' > hello.py
        python3 hello.py
        git -c user.name=a -c user.email=b commit --quiet --allow-empty -m first
        git add -A && git -c user.name=a -c user.email=b commit --quiet -m second && git status --porcelain
        mkdir -p src && cp hello.py src && (cd src && git log --oneline | wc -l)
        echo x > /tmp/x && cat /tmp/x && touch ~/y && df /tmp > /dev/null
        (sleep 100 & disown) ; ps -e | wc -l
        """
        done = await run(runtime, f"({script})")
        assert done.exit_code == 0, done.content
        assert "hello" in done.content
        edit = FileEditAction(path=str(workspace / "new.py"), command="create", file_text="x = 1\n")
        assert isinstance(await runtime.execute(edit, 2, lambda frame: None), FileEditObservation)
    assert (workspace / "new.py").read_text() == "x = 1\n"
    committed = subprocess.run(
        ["git", "-c", f"safe.directory={workspace}", "-C", str(workspace), "ls-files"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert sorted(committed) == [".vscode/tasks.json", "hello.py"]


async def test_git_identity_is_passed_and_other_settings_are_not(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n[credential]\n\thelper = store\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    async with isolated(workspace) as runtime:
        told = await run(
            runtime, "git commit --quiet --allow-empty -m x && git log --format='%an <%ae>'; git config -l"
        )
    assert told.content.startswith("Ada Lovelace <ada@example.org>")
    assert "credential" not in told.content


def names_in(folder: Path) -> list[str]:
    """Everything below a folder, but for what git keeps in its own."""
    return sorted(str(path) for path in folder.rglob("*") if ".git" not in path.relative_to(folder).parts)


async def test_no_files_are_created_in_the_workspace_during_a_session(workspace: Path) -> None:
    before = names_in(workspace)
    async with isolated(workspace) as runtime:
        status = await run(runtime, "git status --porcelain; ls -A")
        assert status.content.split() == ["??", ".vscode/", ".git", ".vscode"]
        assert names_in(workspace) == before
    assert names_in(workspace) == before
    assert not (workspace / ".git" / "modules").exists()


async def test_empty_leftover_folder_is_removed_at_start(workspace: Path) -> None:
    (workspace / ".envrc").mkdir()
    own(workspace)
    async with isolated(workspace):
        assert not (workspace / ".envrc").exists()


@pytest.mark.parametrize("name", NAMES)
async def test_protected_name_that_appears_is_moved_aside_after_the_command(tmp_path: Path, name: str) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    own(workspace)
    async with isolated(workspace) as runtime:
        done = await run(runtime, f"echo x > {name}")
        assert f"{name}: moved to {name}.from-sandbox" in done.metadata.suffix
        assert names_in(workspace) == [str(workspace / f"{name}.from-sandbox")]
        await run(runtime, f"mkdir {name} && echo x > {name}/file")
        assert not (workspace / name).exists()
        assert (workspace / f"{name}.from-sandbox.2" / "file").exists()
        assert len([line for line in await runtime.left_behind() if line.startswith(f"{name}: moved")]) == 2


@pytest.mark.parametrize("name", ["lefthook-local.yml", ".dir-locals-2.el", "mise.local.toml"])
def test_what_tools_read_beside_a_protected_file_is_protected(name: str) -> None:
    assert name in NAMES


async def test_settings_of_mercurial_are_moved_aside_and_its_folder_stays(workspace: Path) -> None:
    (workspace / ".hg").mkdir()
    (workspace / ".hg" / "requires").write_text("store\n")
    own(workspace)
    async with isolated(workspace) as runtime:
        done = await run(runtime, "echo '[hooks]' > .hg/hgrc; echo /x > .hg/sharedpath; echo y > .hg/last-message.txt")
        assert ".hg/hgrc: moved to .hg/hgrc.from-sandbox" in done.metadata.suffix
    assert sorted(os.listdir(workspace / ".hg")) == [
        "hgrc.from-sandbox",
        "last-message.txt",
        "requires",
        "sharedpath.from-sandbox",
    ]


async def test_settings_of_mercurial_are_read_only_and_cannot_be_replaced(workspace: Path) -> None:
    (workspace / ".hg").mkdir()
    (workspace / ".hg" / "hgrc").write_text("[paths]\n")
    own(workspace)
    async with isolated(workspace) as runtime:
        assert (await run(runtime, "echo x >> .hg/hgrc")).exit_code != 0
        assert (await run(runtime, "mv .hg/hgrc .hg/old")).exit_code != 0
        assert (await run(runtime, "mv .hg old")).exit_code != 0
    assert (workspace / ".hg" / "hgrc").read_text() == "[paths]\n"


async def test_protected_name_created_by_an_edit_or_as_a_link_is_moved_aside(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    async with isolated(workspace) as runtime:
        edit = FileEditAction(path=str(workspace / ".envrc"), command="create", file_text="x\n")
        observation = await runtime.execute(edit, 2, lambda frame: None)
        assert ".envrc: moved to .envrc.from-sandbox" in observation.content
        await run(runtime, f"ln -s {tmp_path}/outside .idea")
    assert not (workspace / ".envrc").exists()
    assert (workspace / ".idea.from-sandbox").is_symlink()
    assert os.listdir(tmp_path / "outside") == []


async def test_file_of_a_background_job_is_moved_aside_at_the_next_check(workspace: Path) -> None:
    async with isolated(workspace) as runtime:
        await run(runtime, "(until [ -e go ]; do sleep 0.01; done; echo x > .envrc; touch done) & disown")
        assert await runtime.left_behind() == []
        (workspace / "go").touch()
        await run(runtime, "until [ -e done ]; do sleep 0.01; done")
        assert not (workspace / ".envrc").exists()


async def test_restored_file_is_read_only_afterwards(workspace: Path) -> None:
    async with isolated(workspace) as runtime:
        await run(runtime, "echo one > .envrc; mkdir .idea")
        with pytest.raises(UsageError, match=r"There are: \.envrc, \.idea"):
            await runtime.put_back("")
        assert await runtime.put_back(".envrc") == ".envrc"
        await runtime.aclose()
        await runtime.start()
        assert (await run(runtime, "echo two > .envrc")).exit_code != 0
        assert await runtime.put_back(".idea.from-sandbox") == ".idea"
    assert (workspace / ".envrc").read_text() == "one\n"


async def test_protected_paths_are_configurable(workspace: Path) -> None:
    async with isolated(workspace, protected_paths=("Makefile",)) as runtime:
        await run(runtime, "echo x > Makefile; echo x > .envrc")
        assert (workspace / "Makefile.from-sandbox").exists()
        assert (workspace / ".envrc").exists()


def test_protected_symbolic_link_is_refused(workspace: Path) -> None:
    (workspace / ".envrc").symlink_to("elsewhere")
    runtime = LocalRuntime(workspace, isolation=Isolation("auto"))
    assert runtime.isolation == "none"
    assert ".envrc is a symbolic link" in runtime.why_open


async def test_readable_path_is_readable_and_not_writable(workspace: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tool").write_text("sharp")
    async with isolated(workspace, readable_paths=(tools,)) as runtime:
        assert (await run(runtime, f"cat {tools}/tool")).content == "sharp"
        assert (await run(runtime, f"echo x > {tools}/tool")).exit_code != 0


async def test_hidden_folder_in_the_workspace_stays_hidden(workspace: Path) -> None:
    home = workspace / "home"
    home.mkdir()
    (home / "handloom.db").write_text("conversations")
    own(workspace)
    async with isolated(workspace, hidden_paths=(home,)) as runtime:
        assert (await run(runtime, "ls home")).content == ""
        assert (await run(runtime, "echo x > home/config.toml")).exit_code != 0
    assert sorted(path.name for path in home.iterdir()) == ["handloom.db"]


async def test_hostile_repository_runs_nothing_on_the_host(workspace: Path, tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    with (workspace / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {fired}; false"\n\tsshCommand = "touch {fired}"\n')
        config.write(f'[filter "x"]\n\tsmudge = "touch {fired}"\n\tclean = "touch {fired}"\n')
    (workspace / ".gitattributes").write_text("* filter=x\n")
    (workspace / ".envrc").write_text(f"touch {fired}\n")
    own(workspace)
    subprocess.run(
        ["git", "-c", f"safe.directory={workspace}", "status"], cwd=workspace, capture_output=True, check=False
    )
    assert fired.exists(), "a git on the host would carry it out"
    fired.unlink()
    async with isolated(workspace) as runtime:
        await run(runtime, "git status; git add -A; git stash list")
    runtime = LocalRuntime(workspace)
    await runtime.start()
    await runtime.aclose()
    assert not fired.exists()


async def test_git_worktree_works_and_its_repository_stays_protected(tmp_path: Path) -> None:
    repository(tmp_path / "main")
    git = ["git", "-C", str(tmp_path / "main"), "-c", f"safe.directory={tmp_path / 'main'}", "-c", "user.name=a"]
    subprocess.run([*git, "-c", "user.email=b", "commit", "--quiet", "--allow-empty", "-m", "first"], check=True)
    subprocess.run([*git, "worktree", "add", "--quiet", str(tmp_path / "tree")], check=True, capture_output=True)
    own(tmp_path)
    async with isolated(tmp_path / "tree") as runtime:
        done = await run(
            runtime, "git -c user.name=a -c user.email=b commit --quiet --allow-empty -m second && git log"
        )
        assert done.exit_code == 0, done.content
        assert "second" in done.content
        for attack in ("echo x > {}/hooks/new", "git config core.fsmonitor x", "mv {} {}.old", "echo x >> {}/config"):
            assert (await run(runtime, attack.format(*[tmp_path / "main" / ".git"] * 2))).exit_code != 0, attack
        assert (await run(runtime, f"ls {tmp_path}/main")).content == ""
    assert "second" in subprocess.run([*git, "log", "--all"], check=True, capture_output=True, text=True).stdout


async def test_unregistered_worktree_gives_no_access(workspace: Path, tmp_path: Path) -> None:
    shutil.rmtree(workspace / ".git")
    secrets = tmp_path / "secrets" / "worktrees" / "x"
    secrets.mkdir(parents=True)
    (tmp_path / "secrets" / "key").write_text("canary")
    (workspace / ".git").write_text(f"gitdir: {secrets}\n")
    own(tmp_path)
    async with isolated(workspace) as runtime:
        assert (await run(runtime, f"cat {tmp_path}/secrets/key")).exit_code != 0
        assert (await run(runtime, "echo x > .git")).exit_code != 0


@pytest.mark.parametrize("leftover", [False, True])
async def test_git_works_with_settings_of_the_worktree_while_a_sandbox_runs(workspace: Path, leftover: bool) -> None:
    git = ["git", "-C", str(workspace), "-c", f"safe.directory={workspace}"]
    subprocess.run([*git, "config", "extensions.worktreeConfig", "true"], check=True)
    before = sorted(os.listdir(workspace / ".git"))
    if leftover:
        (workspace / ".git" / "commondir").write_text(".\n")
        (workspace / ".git" / "config.worktree").write_text(CONTENTS["config.worktree"])
    own(workspace)
    async with isolated(workspace) as runtime:
        for where in (subprocess.run([*git, "status"], capture_output=True, check=False).returncode,
                      (await run(runtime, "git status")).exit_code):  # fmt: skip
            assert where == 0
        for attack in ("echo '[core]pager=x' > .git/config.worktree", "git config --worktree core.pager x",
                       "rm .git/config.worktree"):  # fmt: skip
            assert (await run(runtime, attack)).exit_code != 0, attack
    assert sorted(os.listdir(workspace / ".git")) == before


async def test_sandbox_starts_if_a_folder_replaces_a_git_file(workspace: Path) -> None:
    (workspace / ".git" / "config.worktree").mkdir()
    (workspace / ".git" / "commondir").mkdir()
    own(workspace)
    async with isolated(workspace) as runtime:
        for name in ("commondir", "config.worktree"):
            assert (await run(runtime, f"touch .git/{name}/x")).exit_code != 0
            assert (await run(runtime, f"rmdir .git/{name}")).exit_code != 0


async def test_git_placeholder_stays_while_any_sandbox_needs_it(workspace: Path) -> None:
    async with isolated(workspace) as one:
        async with isolated(workspace) as two:
            assert (await run(two, "echo x > .git/commondir")).exit_code != 0
        assert (workspace / ".git" / "commondir").exists()
        assert (await run(one, "echo x > .git/commondir; rm .git/commondir; mkdir .git/commondir")).exit_code != 0
    assert not (workspace / ".git" / "commondir").exists()


@pytest.mark.parametrize("name", [".git/config", ".vscode"])
async def test_broken_protection_ends_the_sandbox(workspace: Path, name: str) -> None:
    async with isolated(workspace) as runtime:
        (workspace / name).rename(workspace / "aside")
        subprocess.run(["cp", "-a", str(workspace / "aside"), str(workspace / name)], check=True)
        with pytest.raises(RuntimeUnavailableError, match=f"{name} was replaced"):
            await run(runtime, f"echo x >> {name}")
        assert runtime.server_pid is None
        await runtime.start()
        assert (await run(runtime, "echo x >> .git/config; echo x > .vscode/new")).exit_code != 0


async def test_no_process_survives_the_end(workspace: Path) -> None:
    mark = f"{300 + os.getpid() % 100000}.25"
    async with isolated(workspace) as runtime:
        started = f"until [ $(ps -eo args | grep -c '^sleep {mark}') = 2 ]; do sleep 0.01; done"
        await run(runtime, f"(setsid nohup sleep {mark} &); (trap '' INT TERM HUP; sleep {mark} & disown); {started}")
        assert _running(mark) == 2
    assert _running(mark) == 0


def _running(mark: str) -> int:
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return listing.splitlines().count(f"sleep {mark}")


async def test_required_isolation_that_fails_starts_nothing(tmp_path: Path) -> None:
    runtime = await asyncio.to_thread(LocalRuntime, Path.home(), isolation=BUBBLEWRAP)
    assert runtime.isolation == "none"
    with pytest.raises(RuntimeUnavailableError, match="holds your home folder"):
        await runtime.start()
    await runtime.aclose()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be refused as root")
def test_root_cannot_be_isolated(tmp_path: Path) -> None:
    assert "runs as root" in unavailable_reason(
        Bubblewrap(tmp_path, tmp_path, Path.home(), user=sandbox_user(tmp_path))
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_normal_user_gets_the_same_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix in ("prefix", "base_prefix"):
        monkeypatch.setattr(sys, prefix, "/usr")  # root's own interpreter is out of others' reach
    become = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups"]
    tries = "id -u; unshare -U true || echo closed; echo x > /usr/x || echo ro"
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "workspace")
        workspace.mkdir()
        own(Path(folder))
        words, _ = Bubblewrap(workspace, workspace, Path.home()).command()
        with hidden_arguments(words) as (command, fds):
            told = subprocess.run(
                [*become, *command, "/bin/sh", "-c", tries],
                pass_fds=fds,
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
            )
    assert told.stdout.split() == [str(SOMEBODY), "closed", "ro"], told.stderr


async def test_server_socket_cannot_be_replaced_from_inside(workspace: Path, tmp_path: Path) -> None:
    """A link in its place would send the session's key and secrets to another socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as elsewhere:
        elsewhere.bind(f"{folder}/s")
        elsewhere.listen()
        elsewhere.setblocking(False)
        async with isolated(workspace) as runtime:
            sockets = (await run(runtime, "find / -type s 2>/dev/null")).content
            assert PurePath(sockets).name == PROXY_SOCKET, "only the proxy's, which gets neither key nor secrets"
            await run(runtime, f"for s in $(find / -type s 2>/dev/null); do rm -f $s; ln -s {folder}/s $s; done")
            assert (await run(runtime, "echo here")).content == "here"
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


def test_placeholders_of_a_killed_session_are_removed_at_the_next_start(workspace: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, workspace], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        assert (workspace / ".git" / "commondir").exists()
        owner.kill()
    remove_abandoned()
    assert not (workspace / ".git" / "commondir").exists()
    assert not (workspace / ".git" / "modules").exists()


OWNER = """
import asyncio, sys
from pathlib import Path, PurePath
from tests.runtime.isolation.confined import isolated

async def main():
    async with isolated(Path(sys.argv[1])):
        print("started", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_memory_processes_and_file_size_are_limited(workspace: Path) -> None:
    limits = Limits(memory_of_each_bytes=512 * 1024**2, processes=100, file_bytes=1024**2)
    async with isolated(workspace, limits=limits) as runtime:
        hungry = await run(runtime, f"{sys.executable} -c 'bytearray(900_000_000)'")
        assert hungry.exit_code != 0
        forks = await run(runtime, "for i in $(seq 200); do (sleep 2 &) || echo NO; done 2>&1 | grep -c -E 'NO|fork'")
        assert int(forks.content.split()[-1]) > 0
        large = await run(runtime, "head -c 2000000 /dev/zero > large")
        assert large.exit_code != 0
        assert (await run(runtime, "echo still here")).content == "still here"
    assert (workspace / "large").stat().st_size == 1024**2


async def test_fork_bomb_is_limited_and_ends_with_the_sandbox(workspace: Path) -> None:
    name = f"bomb{os.getpid()}"
    async with isolated(workspace, limits=Limits(processes=150)) as runtime:
        script = workspace / name
        script.write_text(f"#!/bin/sh\n./{name} & ./{name} &\nexec sleep 1\n")
        script.chmod(0o755)
        running = asyncio.create_task(run(runtime, f"./{name} & sleep 3", timeout=20))
        most = 0
        while not running.done():  # afterwards, room may have been made already
            used = await runtime.usage()
            assert used is not None
            most = max(most, used.processes)
        await running
        assert 20 < most <= 150
        assert "still here" in (await run(runtime, "echo still here")).content
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert name not in listing


async def test_temporary_files_are_limited_and_not_on_the_host_disk(workspace: Path) -> None:
    walls = replace(Bubblewrap(workspace, workspace, Path.home(), user=sandbox_user(workspace)), tmp_bytes=8 * 1024**2)
    fill = 'for d in /tmp /var/tmp ~ /dev/shm; do head -c 20000000 /dev/zero > $d/large; stat -c "$d %s" $d/large; done'
    words, guards = walls.command()
    held = HeldMounts(guards, walls.user)
    try:
        with hidden_arguments(words) as (command, fds):
            told = subprocess.run(
                [*command, "/bin/sh", "-c", fill],
                pass_fds=fds,
                capture_output=True,
                text=True,
                check=True,
                cwd="/",
            )
    finally:
        held.close()
    folders = ("/tmp", "/var/tmp", str(Path.home()), "/dev/shm")
    assert told.stdout.splitlines() == [f"{folder} {8 * 1024**2}" for folder in folders]
    assert sorted(path.name for path in workspace.iterdir()) == [".git", ".vscode"]


async def test_usage_and_limits_are_reported(workspace: Path) -> None:
    limits = Limits(memory_bytes=512 * 1024**2, memory_of_each_bytes=512 * 1024**2, processes=100)
    async with isolated(workspace, limits=limits) as runtime:
        before = await runtime.usage()
        hold = f"{sys.executable} -c 'import sys; b = bytearray(100_000_000); print(1, flush=True); sys.stdin.read()'"
        await run(runtime, f"coproc {hold}; read -u ${{COPROC[0]}}")
        after = await runtime.usage()
        assert before is not None
        assert after is not None
        assert after.processes > before.processes
        assert after.memory_bytes - before.memory_bytes > 90_000_000
        assert "512 MB of memory in all" in after.limits
        assert "100 processes and threads" in after.limits
    assert await runtime.usage() is None


async def test_memory_of_all_processes_together_is_limited_without_a_control_group(workspace: Path) -> None:
    hold = f"{sys.executable} -c 'import time; b = bytearray(100_000_000); time.sleep(600)'"
    async with isolated(workspace, limits=Limits(memory_of_each_bytes=256 * 1024**2)) as runtime:
        ended = await run(runtime, f"for i in 1 2 3 4; do {hold} & done; wait", timeout=60)
        assert "ran out of memory" in ended.metadata.suffix, ended
        assert "256 MB" in ended.metadata.suffix
        assert (await run(runtime, "echo still here")).content == "still here"


async def test_control_group_limits_all_processes_together(workspace: Path) -> None:
    limits = Limits(memory_bytes=512 * 1024**2, processes=100)
    group = ControlGroup("handloom-test-probe", limits)
    try:
        if not group.make() or "memory" not in group.applied:
            pytest.skip("no control group can be made here")
    finally:
        group.remove()
    hold = f"{sys.executable} -c 'import time; b = bytearray(150_000_000); time.sleep(2); print(1)'"
    async with isolated(workspace, limits=limits) as runtime:
        together = await run(runtime, f"for i in 1 2 3 4 5 6; do {hold} & done; wait")
        assert 0 < together.content.split().count("1") < 6
        told = "[The sandbox ran out of memory, so a process was killed: the limit for all processes is 512 MB.]"
        assert told in together.to_agent_text()
        after = await run(runtime, "echo still here")
        assert "still here" in after.content
        assert told not in after.to_agent_text()


async def test_killed_isolated_server_is_replaced(workspace: Path) -> None:
    async with isolated(workspace) as runtime:
        assert runtime.server_pid is not None
        os.kill(runtime.server_pid, 9)
        with pytest.raises(RuntimeUnavailableError):
            await run(runtime, "sleep 30")
        await runtime.start()
        done = await run(runtime, "echo back")
        assert isinstance(done, CmdOutputObservation)
        assert done.content == "back"
