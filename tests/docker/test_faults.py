"""Faults of a container: each is reported within ten seconds, and the next action works."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from docker.models.containers import Container

from core.errors import RuntimeUnavailableError
from core.events import AgentThinkAction, CmdRunAction
from runtime.docker.container import refused_message
from runtime.docker.container_spec import HOME_LABEL
from runtime.docker.docker_runtime import DockerRuntime
from runtime.isolation.cgroups import Limits
from runtime.isolation.confinement import Isolation
from tests.containers import base_image, engine, engine_environ, sandbox_image
from tests.contract.conftest import Place
from tests.docker.gate import Gate
from tests.fleets import Contained, fleet
from tests.runtime.conftest import Watcher
from tests.runtime.isolation.confined import own, run

pytestmark = pytest.mark.docker

WITHIN_S = 60.0
KILLED = 137


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    own(folder)
    return folder


@pytest.fixture
async def place(workspace: Path) -> AsyncIterator[Place]:
    runtime = Contained(workspace)
    runtime.keep(workspace.parent / "home" / "sandboxes" / "conversation")
    await runtime.start()
    yield Place(runtime, workspace)
    await runtime.aclose()


def container_of(runtime: DockerRuntime) -> str:
    assert runtime.container_name is not None
    return runtime.container_name


async def change(name: str, what: Callable[[Container], object]) -> None:
    """Do something to a container behind its runtime's back."""

    def do() -> None:
        with engine() as client:
            what(client.containers.get(name))

    await asyncio.to_thread(do)


async def told_of(place: Place, fault: Callable[[Container], object]) -> str:
    """The message for a running command if this happens to its container."""
    running = asyncio.create_task(place.run("echo begun; sleep 100", blocking=True))
    await place.watcher.sees(b"begun\r\n")
    assert isinstance(place.runtime, DockerRuntime)
    await change(container_of(place.runtime), fault)
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(RuntimeUnavailableError) as told:
            await running
    return str(told.value)


class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "why"),
        [
            (lambda container: container.remove(force=True), "its container was removed from outside"),
            (lambda container: container.kill(), "its container was stopped from outside"),
        ],
        ids=["removed", "killed"],
    )
    async def test_missing_container_is_reported_and_replaced(
        self, place: Place, fault: Callable[[Container], object], why: str
    ) -> None:
        told = await told_of(place, fault)
        assert told.startswith(f"The sandbox has ended ({why}). Send a message to start a new one")
        await place.runtime.start()
        assert (await place.run("echo again")).content == "again"

    async def test_stopped_container_ends_the_action_and_is_replaced(self, place: Place) -> None:
        running = asyncio.create_task(place.run("echo begun; sleep 100", blocking=True))
        await place.watcher.sees(b"begun\r\n")
        assert isinstance(place.runtime, DockerRuntime)
        await change(container_of(place.runtime), lambda container: container.stop(timeout=5))
        try:
            assert (await running).exit_code == KILLED  # its server had the time to say so
        except RuntimeUnavailableError as told:
            assert "stopped from outside" in str(told)  # noqa: PT017  # or it had not
        await place.runtime.start()
        assert (await place.run("echo again")).content == "again"

    async def test_paused_container_is_reported_and_resumed(self, place: Place) -> None:
        await place.run("kept=1; sleep 1000 &")
        told = await told_of(place, lambda container: container.pause())
        assert "paused from outside. The next action resumes it" in told
        await place.runtime.start()
        async with asyncio.timeout(WITHIN_S):  # the interrupt of what ran before may come a moment later
            while (shown := await place.run("echo $kept; jobs -r | wc -l")).exit_code == -1:
                pass
        assert shown.content == "1\n1"

    async def test_server_stopped_by_its_commands_is_replaced(self, place: Place) -> None:
        running = asyncio.create_task(place.run("kill -STOP $(pgrep -f [r]untime.server)"))
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(RuntimeUnavailableError, match=r"its server does not answer"):
                await running
        await place.runtime.start()
        assert (await place.run("echo again")).content == "again"

    async def test_server_killed_by_its_commands_is_replaced(self, place: Place) -> None:
        with pytest.raises(RuntimeUnavailableError, match="The sandbox has ended"):
            await place.run("kill -9 $(pgrep -f [r]untime.server); sleep 100")
        await place.runtime.start()
        assert (await place.run("echo again")).content == "again"

    async def test_paused_container_is_resumed_by_the_next_action(self, place: Place) -> None:
        assert isinstance(place.runtime, DockerRuntime)
        await change(container_of(place.runtime), lambda container: container.remove(force=True))
        with pytest.raises(RuntimeUnavailableError, match="removed from outside"):
            await place.do(AgentThinkAction(thought="hm"))
        await place.runtime.start()
        assert (await place.run("echo again")).content == "again"

    async def test_out_of_memory_container_is_reported(self, workspace: Path) -> None:
        runtime = Contained(workspace, isolation=Isolation(limits=Limits(memory_bytes=200 * 2**20, processes=100)))
        await runtime.start()
        try:
            for _ in range(20):  # what lies in /tmp is memory that no command's end gives back
                try:
                    done = await run(runtime, "head -c 300M /dev/zero >>/tmp/full; echo $?")
                    assert done.exit_code == 0 or "ran out of memory" in done.metadata.suffix
                except RuntimeUnavailableError as told:
                    assert "memory" in str(told) or "stopped" in str(told)  # noqa: PT017  # it may live on, too
                    break
            await runtime.start()
            assert (await run(runtime, "rm -f /tmp/full; echo again")).content == "again"
        finally:
            await runtime.aclose()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the SDK leaves a socket that failed
class TestTheEngine:
    @pytest.fixture(autouse=True)
    def what_failed_is_collected_here(self) -> Iterator[None]:
        """And not in another test, which would be blamed for it."""
        yield
        gc.collect()

    async def test_action_continues_while_the_engine_is_down(self, workspace: Path, tmp_path: Path) -> None:
        async with Gate().opened() as gate:
            runtime = Contained(workspace, engine=gate.url)
            await runtime.start()
            running = asyncio.create_task(run(runtime, "read -t 0.5; echo well"))
            await gate.close()
            assert (await running).content == "well"
            await runtime.start()
            assert (await run(runtime, "echo well")).content == "well"
            await gate.open()
            await runtime.aclose()

    async def test_container_that_ended_with_the_engine_is_replaced_when_the_engine_returns(
        self, workspace: Path
    ) -> None:
        async with Gate().opened() as gate:
            runtime = Contained(workspace, engine=gate.url)
            await runtime.start()
            name = container_of(runtime)
            await gate.close()
            await change(name, lambda container: container.kill())
            with pytest.raises(RuntimeUnavailableError, match="the container engine does not answer"):
                await run(runtime, "echo well")
            with pytest.raises(RuntimeUnavailableError, match=r"The container engine does not answer .* Start Docker"):
                await runtime.start()
            await gate.open()
            await runtime.start()
            assert (await run(runtime, "echo well")).content == "well"
            await runtime.aclose()
        assert left_over(name) == []

    async def test_missing_engine_is_reported_with_advice(self, workspace: Path) -> None:
        runtime = Contained(workspace, engine="unix:///nowhere.sock")
        with pytest.raises(RuntimeUnavailableError, match=r"does not answer .*Start Docker, or set DOCKER_HOST"):
            await runtime.start()
        await runtime.aclose()

    def test_full_engine_disk_is_reported(self) -> None:
        text = refused_message("write /x: no space left on device")
        assert text.startswith("The disk of the container engine is full")


class TestStarting:
    @pytest.mark.parametrize("options", [{"image": "handloom-no-such-image:1"}, {"base": "handloom-no-such-base:1"}])
    async def test_missing_image_is_reported(self, workspace: Path, options: dict[str, str]) -> None:
        runtime = Contained(workspace, **options)
        with pytest.raises(RuntimeUnavailableError, match="Build it with: handloom image build"):
            await runtime.start()
        await runtime.aclose()

    async def test_unwritable_home_is_reported(self, workspace: Path) -> None:
        (home := workspace.with_name("workspace-home")).mkdir()
        (home / "sandboxes").write_text("a file")
        runtime = Contained(workspace)
        with pytest.raises(RuntimeUnavailableError, match=r"The sandbox's folder .* cannot be used: Not a directory"):
            await runtime.start()
        await runtime.aclose()

    async def test_failed_server_start_reports_the_reason(self, workspace: Path) -> None:
        runtime = Contained(workspace, options=("--plugins", "nonsense"))
        with pytest.raises(RuntimeUnavailableError, match=r"did not start: .*no plugin is called 'nonsense'"):
            await runtime.start()
        await runtime.aclose()
        assert left_over(runtime._pool.name("")) == []

    async def test_taken_container_name_is_reported_and_left_alone(self, place: Place) -> None:
        assert isinstance(place.runtime, DockerRuntime)
        name = container_of(place.runtime)
        await place.runtime.aclose()
        with engine() as client:
            stranger = client.containers.create(sandbox_image(), "true", name=name)
            try:
                with pytest.raises(RuntimeUnavailableError, match=rf"not Handloom's.*docker rm -f {name}"):
                    await place.runtime.start()
                stranger.reload()
            finally:
                stranger.remove()
        await place.runtime.start()
        assert (await place.run("echo well")).content == "well"

    async def test_second_screen_is_refused_and_the_first_continues(self, place: Place, workspace: Path) -> None:
        second = Contained(workspace)
        second.keep(workspace.parent / "home" / "sandboxes" / "conversation")
        with pytest.raises(RuntimeUnavailableError, match="Another Handloom is using the sandbox"):
            await second.start()
        await second.aclose()
        assert (await place.run("echo well")).content == "well"

    async def test_progress_is_reported_while_starting(self, workspace: Path) -> None:
        said: list[str] = []
        runtime = Contained(workspace)
        await runtime.start(said.append)
        await runtime.aclose()
        assert said == ["Creating the container", "Starting the container"]


class TestTheScreenThatStartedIt:
    @pytest.mark.parametrize("spares", [0, 1])
    async def test_container_outlives_a_killed_screen(self, workspace: Path, tmp_path: Path, spares: int) -> None:
        home = tmp_path / "home"
        screen = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.docker.screen", str(home), str(workspace), str(spares)),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **engine_environ(), "HANDLOOM__DOCKER__BASE": base_image()},
        )
        assert screen.stdout is not None
        name = (await screen.stdout.readline()).decode().strip()
        screen.send_signal(signal.SIGKILL)
        await screen.wait()
        runtime = Contained(workspace)
        runtime._pool = fleet(home)
        runtime.keep(home / "sandboxes" / "conversation")
        await runtime.start()
        assert container_of(runtime) == name
        assert (await runtime.execute(CmdRunAction(command="echo $kept"), 1, Watcher())).content == "1"
        await runtime.aclose()
        assert left_over(name) == []

    @pytest.mark.parametrize("on_close", ["pause", "run"])
    async def test_closed_conversation_can_leave_its_container_running(self, workspace: Path, on_close: str) -> None:
        runtime = Contained(workspace, on_close=on_close)
        runtime.keep(workspace.parent / "home" / "sandboxes" / "conversation")
        await runtime.start()
        name = container_of(runtime)
        await run(runtime, "kept=1")
        await runtime.rest()
        with engine() as client:
            assert client.containers.get(name).status == ("paused" if on_close == "pause" else "running")
        await runtime.start()
        assert container_of(runtime) == name
        assert (await run(runtime, "echo $kept")).content == "1"
        await runtime.aclose()
        assert left_over(name) == []

    async def test_container_with_outdated_protection_is_replaced(self, workspace: Path) -> None:
        runtime = Contained(workspace, on_close="run")
        runtime.keep(workspace.parent / "home" / "sandboxes" / "conversation")
        await runtime.start()
        await run(runtime, "kept=1")
        await runtime.rest()
        (workspace / ".envrc").write_text("export MINE=1\n")
        await runtime.start()
        assert (await run(runtime, "echo [$kept]; echo x > .envrc")).exit_code != 0
        await runtime.aclose()

    async def test_unused_server_ends_when_idle(self, workspace: Path) -> None:
        runtime = Contained(workspace, on_close="run", idle_s=1.0)
        await runtime.start()
        name = container_of(runtime)
        await runtime.rest()
        with engine() as client:
            assert client.containers.get(name).wait(timeout=20)["StatusCode"] == 0
            client.containers.get(name).remove()


class TestFleet:
    async def test_abandoned_containers_are_removed_and_used_ones_stay(self, workspace: Path, tmp_path: Path) -> None:
        home = tmp_path / "home"
        owner = DockerRuntime(fleet(home), workspace)
        owner.keep(home / "sandboxes" / "in-use")
        await owner.start()
        labels = {HOME_LABEL: owner._pool.label}
        with engine() as client:
            for name in ("spare-1", "ended-1"):
                client.containers.create(sandbox_image(), "true", name=owner._pool.name(name), labels=labels)
        another = fleet(home)
        await another.engine()
        await another.settled()
        assert left_over(owner._pool.name("")) == [container_of(owner)]
        assert (await run(owner, "echo well")).content == "well"
        await owner.aclose()
        for each in (another, owner._pool):
            await each.aclose()

    async def test_spare_container_is_used_and_replaced(self, workspace: Path, tmp_path: Path) -> None:
        ready = fleet(tmp_path / "home", spares=1)
        first = DockerRuntime(ready, workspace)
        await first.start()
        await ready.settled()
        second = DockerRuntime(ready, workspace)
        second.keep(tmp_path / "home" / "sandboxes" / "second")
        said: list[str] = []
        await second.start(said.append)
        assert said == [], "it was made already"
        assert container_of(second) == ready.name("second")
        assert (await run(second, "echo x > made; echo well")).content == "well"
        await ready.settled()
        assert len(left_over(ready.name(""))) == 3
        for runtime in (first, second):
            await runtime.aclose()
        await ready.aclose()
        assert left_over(ready.name("")) == []
        assert sorted(path.name for path in workspace.iterdir()) == ["made"]


def left_over(name: str) -> list[str]:
    """The containers that are called so, or begin so."""
    with engine() as client:
        found = client.api.containers(all=True, filters={"name": f"^/{name}"})
    return [container["Names"][0].lstrip("/") for container in found]
