"""A container engine elsewhere, by ssh: the workspace goes there and comes back; a link that breaks costs nothing."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import RuntimeUnavailableError
from core.events import CmdOutputObservation, Status
from core.settings.config import DockerSettings, Settings
from runtime.docker.docker_runtime import DockerRuntime
from runtime.docker.engine import connect
from runtime.reconnecting_client import LINK
from tests.containers import base_image, engine, sandbox_image
from tests.contract.conftest import Place
from tests.docker.gate import Gate
from tests.docker.test_faults import change, container_of, left_over
from tests.doubles import FINISH, write_script
from tests.fleets import Contained
from tests.runtime.certificates import Authority
from tests.runtime.isolation.confined import run
from tests.sshd import Elsewhere
from tests.user_control.test_user_shell import answer_to
from tui.runtime_factory import RuntimeFactory

pytestmark = [pytest.mark.docker, pytest.mark.ssh]

CUTS = 10
BACK = Status("info", LINK, "The connection to the sandbox is back.")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("print('one')\n")
    (folder / "notes").write_text("mine\n")
    return folder


@pytest.fixture
async def runtime(elsewhere: Elsewhere, workspace: Path) -> AsyncIterator[Contained]:
    """Started; neither container nor volume of it is left in the end."""
    runtime = conversation(elsewhere, workspace)
    await runtime.start()
    prefix = runtime._pool.name("")
    yield runtime
    await runtime.aclose()
    assert (left_over(prefix), volumes(prefix)) == ([], [])


def conversation(elsewhere: Elsewhere, workspace: Path, **options: str) -> Contained:
    runtime = Contained(workspace, engine=elsewhere.url, **options)
    runtime.keep(workspace.parent / "home" / "sandboxes" / "conversation")
    return runtime


def volumes(prefix: str) -> list[str]:
    """The volumes whose names begin so."""
    with engine() as client:
        found = client.api.volumes(filters={"name": prefix})["Volumes"] or []
    return sorted(volume["Name"] for volume in found)


class TestTheWorkspace:
    async def test_workspace_has_the_same_path_and_changes_come_back(self, runtime: Contained, workspace: Path) -> None:
        assert (await run(runtime, "pwd; cat src/main.py; stat -c %U notes")).content == (
            f"{workspace}\nprint('one')\nagent"
        )
        await run(runtime, "echo more >> notes; rm src/main.py; mkdir -p out; echo made > out/new; chmod +x out/new")
        assert (workspace / "notes").read_text() == "mine\n"
        await runtime.aclose()
        assert (workspace / "notes").read_text() == "mine\nmore\n"
        assert (workspace / "out" / "new").read_text() == "made\n"
        assert os.access(workspace / "out" / "new", os.X_OK)
        assert not (workspace / "src" / "main.py").exists()
        assert await runtime.came_back() == []

    async def test_conflicting_changes_keep_both_versions(self, runtime: Contained, workspace: Path) -> None:
        await run(runtime, "echo theirs > notes; rm src/main.py")
        (workspace / "notes").write_text("changed by me\n")
        (workspace / "src" / "main.py").write_text("print('two')\n")
        await runtime.aclose()
        assert (workspace / "notes").read_text() == "changed by me\n"
        assert (workspace / "notes.from-sandbox").read_text() == "theirs\n"
        assert (workspace / "src" / "main.py").read_text() == "print('two')\n"
        assert "notes: was changed here and in the sandbox" in (await runtime.came_back())[0]

    async def test_commits_are_copied_back_but_no_executable_configuration(
        self, runtime: Contained, workspace: Path
    ) -> None:
        await run(runtime, "git init -q .; git add -A; git -c user.name=a -c user.email=a@b commit -qm made")
        await run(runtime, "echo x > .git/hooks/pre-commit; mkdir .vscode; echo x > .vscode/tasks.json")
        await runtime.aclose()
        assert not (workspace / ".git" / "hooks").exists()
        assert not (workspace / ".vscode").exists()
        told = "\n".join(await runtime.came_back())
        assert ".vscode/tasks.json: was not copied back" in told
        assert ".git/hooks/pre-commit: was not copied back" in told
        kept = next(runtime._pool.parent.glob("*/coming.tar"))
        assert f"what was not copied back is kept in {kept}" in told
        log = await asyncio.create_subprocess_exec(
            *("git", "-c", "safe.directory=*", "-C", str(workspace), "log", "--format=%s"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert (await log.communicate())[0] == b"made\n"


class TestTheLink:
    async def test_action_runs_once_wherever_the_connection_is_cut(
        self, runtime: Contained, elsewhere: Elsewhere, workspace: Path, seed: int
    ) -> None:
        rng, cut = random.Random(seed), 0
        place = Place(runtime, workspace)
        for trial in range(CUTS):
            command = f"echo {trial} >> effects; for i in $(seq 1 20); do echo line $i of {trial}; sleep 0.03; done"
            running = asyncio.create_task(place.run(command, blocking=True))
            with suppress(TimeoutError):
                async with asyncio.timeout(rng.random() * 0.6):
                    await asyncio.shield(running)
            cut += await asyncio.to_thread(elsewhere.cut)
            async with asyncio.timeout(60):
                observation = await running
            expected = [f"line {number} of {trial}" for number in range(1, 21)]
            assert observation.content.split("\n") == expected, f"HANDLOOM_SEED={seed}, trial {trial}"
        assert cut >= CUTS
        assert (await place.run("cat effects")).content.split() == [str(trial) for trial in range(CUTS)]

    async def test_temporary_outage_is_reported_and_the_action_continues(
        self, runtime: Contained, elsewhere: Elsewhere, workspace: Path
    ) -> None:
        place = Place(runtime, workspace)
        running = asyncio.create_task(place.run("echo begun; read -t 2; echo done", blocking=True))
        await place.watcher.sees(b"begun\r\n")
        await asyncio.to_thread(elsewhere.close)
        await place.watcher.sees_frame(
            Status(
                "error",
                LINK,
                "The connection to the sandbox is broken (the container engine does not answer); retrying.",
            )
        )
        await asyncio.to_thread(elsewhere.open)
        await place.watcher.sees_frame(BACK)
        assert (await running).content == "begun\ndone"

    async def test_cancelling_interrupts(self, runtime: Contained, workspace: Path) -> None:
        place = Place(runtime, workspace)
        running = asyncio.create_task(place.run("echo begun; sleep 100", blocking=True))
        await place.watcher.sees(b"begun\r\n")
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert (await place.run("echo usable", blocking=True)).content == "usable"


class TestEnds:
    async def test_work_of_a_killed_container_is_in_the_next(self, runtime: Contained, workspace: Path) -> None:
        place = Place(runtime, workspace)
        running = asyncio.create_task(place.run("echo made > new; echo begun; sleep 100", blocking=True))
        await place.watcher.sees(b"begun\r\n")
        await change(container_of(runtime), lambda container: container.kill())
        with pytest.raises(RuntimeUnavailableError, match="its container was stopped from outside"):
            await running
        await runtime.start()
        assert (workspace / "new").read_text() == "made\n"
        assert (await place.run("cat new")).content == "made"

    async def test_edit_can_be_undone_in_the_next_sandbox(self, runtime: Contained, workspace: Path) -> None:
        place, notes = Place(runtime, workspace), workspace / "notes"
        await place.edit("str_replace", notes, old_str="mine", new_str="theirs")
        await runtime.aclose()
        assert notes.read_text() == "theirs\n"
        await runtime.start()
        await place.edit("undo_edit", notes)
        await runtime.aclose()
        assert notes.read_text() == "mine\n"

    async def test_failed_fetch_is_repeated_at_the_next_start(self, elsewhere: Elsewhere, workspace: Path) -> None:
        runtime = conversation(elsewhere, workspace)
        await runtime.start()
        name = container_of(runtime)
        await run(runtime, "echo made > new")
        await asyncio.to_thread(elsewhere.close)
        try:
            await runtime.aclose()
            assert f"is still at the container engine, in the volume {name}.work" in (await runtime.came_back())[0]
        finally:
            await asyncio.to_thread(elsewhere.open)
        again = conversation(elsewhere, workspace)
        await change(name, lambda container: container.remove(force=True))
        said: list[str] = []
        await again.start(said.append)
        assert said[0] == "Fetching the files of the last sandbox from the engine"
        assert (workspace / "new").read_text() == "made\n"
        await again.aclose()
        assert (left_over(name), volumes(name)) == ([], [])

    async def test_missing_volume_removes_no_files(self, elsewhere: Elsewhere, workspace: Path) -> None:
        runtime = conversation(elsewhere, workspace)
        await runtime.start()
        name = container_of(runtime)
        await asyncio.to_thread(elsewhere.close)
        await runtime.aclose()
        await asyncio.to_thread(elsewhere.open)
        await change(name, lambda container: container.remove(force=True))
        with engine() as client:
            client.volumes.get(f"{name}.work").remove()
            for labels in (None, {"handloom.copy": "another"}):
                with pytest.raises(RuntimeUnavailableError, match=r"is not at this container engine.*to discard it"):
                    await runtime.start()
                client.api.create_volume(f"{name}.work", labels=labels)
        assert (workspace / "notes").read_text() == "mine\n"
        next(runtime._pool.parent.glob("*/carried.json")).unlink()
        await runtime.start()
        await runtime.aclose()
        assert (left_over(name), volumes(name)) == ([], [])

    async def test_running_container_is_reattached(self, elsewhere: Elsewhere, workspace: Path) -> None:
        runtime = conversation(elsewhere, workspace, on_close="run")
        await runtime.start()
        name = container_of(runtime)
        await run(runtime, "kept=1; echo made > new")
        await runtime.rest()
        assert (workspace / "new").read_text() == "made\n"
        await runtime.start()
        assert (await run(runtime, "echo $kept; echo again > new")).content == "1"
        await runtime.aclose()
        assert (workspace / "new").read_text() == "again\n"
        assert (left_over(name), volumes(name)) == ([], [])


async def test_files_are_copied_back_when_the_conversation_is_closed(
    elsewhere: Elsewhere, workspace: Path, tmp_path: Path
) -> None:
    sandbox_image()
    settings = Settings(runtime="docker", docker=DockerSettings(engine=elsewhere.url, base=base_image()))
    home, model = tmp_path / "home", write_script(tmp_path, [FINISH])
    runtimes = RuntimeFactory(home, lambda: settings, os.environ)
    async with ConversationManager(home, settings, make_runtime=runtimes, around=runtimes, environ={}) as manager:
        for content in ("one", "two"):
            session = await manager.create(workspace=str(workspace), model=model)
            observation = await answer_to(
                session, await session.user_control.run_command(f"echo {content} | tee -a made")
            )
            assert isinstance(observation.event, CmdOutputObservation)
            assert observation.event.content == content
            await manager.close(session.id)
            assert (workspace / "made").read_text().split()[-1] == content
        assert runtimes._pool is not None
        label = runtimes._pool.label
    assert (workspace / "made").read_text() == "one\ntwo\n"
    prefix = f"handloom-{label[:6]}-"
    assert (left_over(prefix), volumes(prefix)) == ([], [])


async def test_engine_over_tcp_with_tls(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path / "certificates")
    signed = authority.sign("IP:127.0.0.2")
    for file, name in ((authority.certificate, "ca"), (signed.certificate, "cert"), (signed.key, "key")):
        shutil.copy(file, tmp_path / f"{name}.pem")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which win over the engine's own in the SDK
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    tls.load_cert_chain(signed.certificate, signed.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    async with Gate(tls).opened() as gate:
        runtime = Contained(workspace, engine=gate.url)
        await runtime.start()
        name = container_of(runtime)
        assert (await run(runtime, "echo made > new; seq 20000")).content.endswith("\n20000")
        await runtime.aclose()
    assert (workspace / "new").read_text() == "made\n"
    assert (left_over(name), volumes(name)) == ([], [])


class TestUnreachable:
    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("ssh://127.0.0.1:1", "Connection refused"),
            ("ssh://-oProxyCommand=touch", "is not an address|not"),
            ("ssh://", "is not an address such as ssh://user@host:22"),
        ],
    )
    async def test_unreachable_engine_is_reported_with_the_reason(
        self, elsewhere: Elsewhere, url: str, why: str
    ) -> None:
        with pytest.raises(RuntimeUnavailableError, match=why):
            await asyncio.to_thread(connect, url)

    async def test_unknown_ssh_host_is_refused_without_a_prompt(self, elsewhere: Elsewhere) -> None:
        url = elsewhere.url.replace("127.0.0.1", "localhost")
        with pytest.raises(RuntimeUnavailableError, match="Host key verification failed"):
            await asyncio.to_thread(connect, url)


def test_remote_engine_has_no_spare_containers(elsewhere: Elsewhere, workspace: Path) -> None:
    fleet = Contained(workspace, engine=elsewhere.url, spares=3)._pool
    assert DockerRuntime(fleet, workspace)._pool.access.is_remote
    assert fleet._spares_wanted == 0
