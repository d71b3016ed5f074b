"""A conversation that is deleted leaves no container, no volume and no folder; that of another one stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import OutOfReachError, RuntimeUnavailableError
from core.settings.config import DockerSettings, Settings
from core.store.conversations import ConversationInfo
from runtime.docker.docker_runtime import DockerRuntime
from runtime.docker.engine import address
from tests.containers import base_image, engine, engine_environ, sandbox_image
from tests.runtime.isolation.confined import own, run
from tui.runtime_factory import RuntimeFactory

pytestmark = pytest.mark.docker
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RuntimeFactory]:
    for name, value in engine_environ().items():
        monkeypatch.setenv(name, value)
    sandbox_image()
    settings = Settings(runtime="docker", docker=DockerSettings(base=base_image(), on_close="pause", spares=0))
    async with RuntimeFactory(tmp_path / "home", lambda: settings, {}) as runtimes:
        yield runtimes


async def paused(runtimes: RuntimeFactory, home: Path, workspace: Path, id: str) -> str:
    """A conversation's sandbox that was used and left; the name of its container."""
    runtime = runtimes(str(workspace))
    assert isinstance(runtime, DockerRuntime)
    runtime.keep(home / "sandboxes" / id)
    await runtime.start()
    await run(runtime, "echo canary > /tmp/canary")
    name = runtime.container_name
    assert name is not None
    await runtime.rest()
    return name


def names() -> set[str]:
    """Every container at the engine."""
    with engine() as client:
        return {str(container.name) for container in client.containers.list(all=True)}


async def test_container_and_folders_are_removed_but_not_those_of_others(
    runtimes: RuntimeFactory, tmp_path: Path
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()
    own(workspace)
    mine = await paused(runtimes, home, workspace, "mine")
    other = await paused(runtimes, home, workspace, "other")
    assert {mine, other} <= names()
    info = ConversationInfo("mine", "", str(workspace), "m", NOW, NOW, 0)
    await runtimes.forget(info)
    assert mine not in names()
    assert other in names()
    assert {path.name.partition(".")[0] for path in (home / "sandboxes").iterdir()} == {"other"}
    await runtimes.forget(info)  # nothing is left, which is no error
    await runtimes.forget(ConversationInfo("other", "", str(workspace), "m", NOW, NOW, 0))
    assert other not in names()


async def test_container_is_removed_later_if_the_engine_is_down(runtimes: RuntimeFactory, tmp_path: Path) -> None:
    home, workspace, socket = tmp_path / "home", tmp_path / "workspace", tmp_path / "engine.sock"
    workspace.mkdir()
    own(workspace)
    real = Path(address().removeprefix("unix://"))
    socket.symlink_to(real)
    settings = Settings(
        runtime="docker",
        docker=DockerSettings(base=base_image(), engine=f"unix://{socket}", on_close="pause", spares=0),
    )
    async with RuntimeFactory(home, lambda: settings, {}) as before:
        mine = await paused(before, home, workspace, "mine")
        other = await paused(before, home, workspace, "other")
    socket.unlink()
    info = ConversationInfo("mine", "", str(workspace), "m", NOW, NOW, 0)
    async with RuntimeFactory(home, lambda: settings, {}) as away:
        with pytest.raises(OutOfReachError, match="handloom delete --without-engine mine"):
            await away.forget(info)
        assert (home / "sandboxes" / "mine.docker").is_dir(), "it can be deleted again"
        await away.forget(info, later=True)
        assert not (home / "sandboxes" / "mine.docker").exists()
    assert {mine, other} <= names()
    gone = ConversationInfo("gone", "", str(workspace), "m", NOW, NOW, 0)
    (home / "sandboxes" / "gone.docker").mkdir()
    await runtimes.forget(gone)  # by another address, of which nothing is known
    await settled(runtimes)
    assert {mine, other} <= names()
    socket.symlink_to(real)
    (home / "sandboxes" / "gone.docker").mkdir()
    async with RuntimeFactory(home, lambda: settings, {}) as back:
        await back.forget(gone)
        await settled(back)
        assert mine not in names()
        assert other in names()
        assert list((home / "sandboxes" / "forgotten").iterdir()) == []
        await back.forget(ConversationInfo("other", "", str(workspace), "m", NOW, NOW, 0))


async def settled(runtimes: RuntimeFactory) -> None:
    """Wait until leftovers are removed."""
    assert runtimes._pool is not None
    await runtimes._pool.settled()


async def test_container_in_use_is_not_removed(runtimes: RuntimeFactory, tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()
    own(workspace)
    runtime = runtimes(str(workspace))
    assert isinstance(runtime, DockerRuntime)
    runtime.keep(home / "sandboxes" / "mine")
    await runtime.start()
    info = ConversationInfo("mine", "", str(workspace), "m", NOW, NOW, 0)
    with pytest.raises(RuntimeUnavailableError, match="Another Handloom is using the sandbox"):
        await runtimes.forget(info)
    assert (await run(runtime, "echo well")).content == "well"
    await runtime.aclose()
    await runtimes.forget(info)
