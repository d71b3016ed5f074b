"""A container has the same isolation as bubblewrap: nothing escapes, and ordinary work is possible."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import RuntimeUnavailableError
from core.events import FileEditAction, FileEditObservation
from core.sandbox_types import Denials, DeniedHosts
from runtime.isolation.cgroups import Limits
from runtime.isolation.confinement import Isolation
from tests.containers import engine
from tests.fleets import Contained
from tests.runtime.isolation.confined import SOMEBODY, own, repository, run
from tests.runtime.isolation.escape_attempts import Goals, goals, outcomes_of

pytestmark = pytest.mark.docker


OF_THE_IMAGE = {"read: /etc/fstab", "read: /var/lib/dpkg/status"}
"""Files that the image has of its own under a name that this machine knows, too."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return repository(tmp_path / "workspace")


@pytest.fixture
async def runtime(workspace: Path) -> AsyncIterator[Contained]:
    runtime = Contained(workspace, isolation=Isolation(limits=Limits(memory_bytes=2**30, processes=256)))
    await runtime.start()
    yield runtime
    await runtime.aclose()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Goals]:
    async with goals(tmp_path) as machine:
        yield machine


async def test_no_escape_attempt_succeeds(runtime: Contained, machine: Goals) -> None:
    outcomes = await outcomes_of(runtime, machine)
    print(f"{len(outcomes)} ways out were tried, {sum(outcomes.values())} of them led out")
    assert {name for name, led_out in outcomes.items() if led_out} == OF_THE_IMAGE
    for name in OF_THE_IMAGE:
        path = Path(name.removeprefix("read: "))
        inside = (await run(runtime, f"stat -c '%d %i' {path}")).content
        assert not path.exists() or inside != f"{path.stat().st_dev} {path.stat().st_ino}", "it is this machine's"
    assert len(outcomes) >= 120
    assert machine.secret.read_text() == "canary"
    assert os.listdir(machine.outside) == ["secret"]


async def test_ordinary_work_is_possible_and_files_belong_to_the_user(runtime: Contained, workspace: Path) -> None:
    script = """
    set -e
    git config --get core.bare
    echo 'print("hello")' > hello.py
    python3 hello.py
    git add hello.py && git -c user.name=a -c user.email=b commit --quiet -m first && git log --oneline | wc -l
    echo x > /tmp/x && cat /tmp/x && touch ~/y
    """
    done = await run(runtime, f"({script})")
    assert done.exit_code == 0, done.content
    assert "hello" in done.content
    edit = FileEditAction(path=str(workspace / "new.py"), command="create", file_text="x = 1\n")
    assert isinstance(await runtime.execute(edit, 2, lambda frame: None), FileEditObservation)
    assert (workspace / "new.py").read_text() == "x = 1\n"
    owner = SOMEBODY if os.getuid() == 0 else os.getuid()
    assert {path.stat().st_uid for path in (workspace / "new.py", workspace / "hello.py")} == {owner}


async def test_container_is_hardened(runtime: Contained, workspace: Path) -> None:
    assert runtime.container_name is not None
    with engine() as client:
        made: dict[str, Any] = client.api.inspect_container(runtime.container_name)
    host, config = made["HostConfig"], made["Config"]
    assert {name: host[name] for name in HARDENED} == HARDENED
    assert config["User"].split(":")[0] not in ("", "0", "root") or workspace.stat().st_uid == 0
    assert host["MemorySwap"] == host["Memory"] == 2**30
    assert host["PidsLimit"] == 256
    assert not host["PortBindings"]
    assert not any("docker.sock" in mount["Source"] for mount in made["Mounts"])
    assert not any(name in str(config["Env"]) + str(config["Cmd"]) for name in ("SECRET", "TOKEN", "API_KEY"))


HARDENED = {
    "CapAdd": None,
    "CapDrop": ["ALL"],
    "Privileged": False,
    "ReadonlyRootfs": True,
    "SecurityOpt": ["no-new-privileges"],
    "NetworkMode": "none",
    "PidMode": "",
    "IpcMode": "private",
    "UTSMode": "",
    "PublishAllPorts": False,
    "Init": True,
}


async def test_container_listens_on_no_port(runtime: Contained) -> None:
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listening.splitlines() if "docker-proxy" in line]


async def test_out_of_memory_is_reported_and_work_continues(runtime: Contained) -> None:
    hungry = await run(runtime, "python3 -c 'x = bytearray(3 * 10**9)'")
    assert hungry.exit_code != 0
    assert "The sandbox ran out of memory" in hungry.metadata.suffix
    assert (await run(runtime, "echo well")).content == "well"


async def test_fork_bomb_stays_in_the_container_and_the_next_command_works(runtime: Contained) -> None:
    await run(runtime, "bomb() { bomb | bomb & }; bomb; sleep 2", timeout=4)
    for _ in range(3):
        if (told := await run(runtime, "echo well", timeout=10)).content == "well":
            break
    assert told.content == "well"


async def test_container_reaches_only_allowed_hosts(workspace: Path, machine: Goals) -> None:
    allowed = (f"127.0.0.1:{machine.port}",)
    runtime = Contained(workspace, isolation=Isolation(allowed_hosts=allowed))
    try:
        await runtime.start()
        told = await run(runtime, "curl -s -m 5 -o /dev/null -w '%{http_connect}' https://example.org; echo; env")
        assert "403" in told.content
        assert "PROXY" in told.content.upper()
    finally:
        await runtime.aclose()


async def test_denied_paths_and_hosts_are_unreachable(workspace: Path) -> None:
    (workspace / "keys").mkdir()
    for name in ("secret.txt", "keys/key", "fixed.txt"):
        (workspace / name).write_text("canary\n")
    own(workspace)
    denied = [f"{workspace}/{name}" for name in ("secret.txt", "keys", "fixed.txt")]
    every = DeniedHosts("*", "policy.toml:1 deny net(*)")
    runtime = Contained(workspace, network="bridge", isolation=Isolation(allowed_hosts=("example.org",)))
    runtime.deny(lambda: Denials(tuple(denied[:2]), tuple(denied[2:]), (every,)))
    try:
        await runtime.start()
        read = await run(
            runtime, "cat secret.txt keys/key; ln secret.txt x; cat x; cat /proc/self/cwd/secret.txt; ls keys"
        )
        assert "canary" not in read.content
        write = await run(runtime, "echo x > fixed.txt; mv -f .git fixed.txt; rm -f fixed.txt secret.txt; rm -rf keys")
        assert write.content.count("Read-only file system") == 1
        host = await run(runtime, "curl -sS -m 10 http://example.org/; curl -sS -m 5 --noproxy '*' http://1.1.1.1/")
        assert host.content.startswith("example.org is denied by the rule policy.toml:1 deny net(*)")
        assert host.exit_code == 7, "there is no network"
    finally:
        await runtime.aclose()
    assert {(workspace / name).read_text() for name in ("secret.txt", "keys/key", "fixed.txt")} == {"canary\n"}


async def test_unwritable_workspace_is_read_only(workspace: Path) -> None:
    runtime = Contained(workspace)
    runtime.deny(lambda: Denials(unwritable=(str(workspace),)))
    try:
        await runtime.start()
        assert (await run(runtime, "echo x > new; echo x > .git/new; cat .git/HEAD")).content.count("Read-only") == 2
    finally:
        await runtime.aclose()


async def test_unprotectable_workspace_is_refused(workspace: Path) -> None:
    (workspace / ".envrc").symlink_to("elsewhere")
    runtime = Contained(workspace)
    with pytest.raises(RuntimeUnavailableError, match=r"\.envrc is a symbolic link"):
        await runtime.start()
    await runtime.aclose()


async def test_no_files_are_created_in_the_workspace(workspace: Path) -> None:
    before = sorted(path.name for path in workspace.iterdir())
    runtime = Contained(workspace)
    await runtime.start()
    assert (await run(runtime, "git status --porcelain")).content.split() == ["??", ".vscode/"]
    assert sorted(path.name for path in workspace.iterdir()) == before
    done = await run(runtime, "echo x > .envrc")
    assert ".envrc: moved to .envrc.from-sandbox" in done.metadata.suffix
    await runtime.aclose()
    assert sorted(path.name for path in workspace.iterdir()) == sorted([*before, ".envrc.from-sandbox"])
    own(workspace)


async def test_link_in_place_of_the_server_socket_is_not_followed(workspace: Path) -> None:
    runtime = Contained(workspace)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as elsewhere:
        elsewhere.bind(f"{folder}/s")
        elsewhere.listen()
        elsewhere.setblocking(False)
        try:
            await runtime.start()
            replaced = await run(runtime, f"cd /run/handloom && rm s && ln -s {folder}/s s && ls -l s")
            assert "->" in replaced.content
            said, *_ = await asyncio.gather(run(runtime, "echo here"), runtime.jobs(), runtime.usage())
            assert said.content == "here"
        finally:
            await runtime.aclose()
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
