"""The image as the engine builds it: once, whole or not at all, and with words for what fails."""

from __future__ import annotations

import asyncio
import io
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from docker import errors

from core.errors import RuntimeUnavailableError
from runtime import image
from runtime.image import build_context, builder
from tests.containers import base_image, engine, engine_environ, sandbox_image
from tests.program import Handloom

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

pytestmark = pytest.mark.docker
TRIAL = "handloom-trial"
"""The names of images made by these tests, so that no other image is removed."""
MARK = "handloom.trial=yes"
CODE_STEP = "Handloom's own code"


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    """The engine; images of these tests are gone at the end."""
    with engine() as client:
        yield client
        for tag in [tag for found in client.api.images(TRIAL) for tag in found["RepoTags"]]:
            client.images.remove(tag, force=True)
        for left in client.api.images(filters={"label": MARK, "dangling": True}):
            client.images.remove(left["Id"])


def derived_base(client: docker.DockerClient, name: str, *steps: str) -> str:
    """A separate base image, so that builds on it leave nothing in others."""
    text = "\n".join((f"FROM {base_image()}", f"LABEL {MARK}", *steps))
    client.images.build(fileobj=io.BytesIO(text.encode()), tag=f"{TRIAL}:{name}", rm=True)
    return f"{TRIAL}:{name}"


def containers(client: docker.DockerClient) -> list[Container]:
    """Containers in which build steps run."""
    return list(client.containers.list(all=True, ignore_removed=True, filters={"label": MARK}))


def await_gone(steps: list[Container]) -> None:
    for container in steps:
        with suppress(errors.NotFound):
            container.wait(condition="removed", timeout=20)


def changed(folder: Path, text: str) -> image.Recipe:
    """The recipe with one file of our code changed."""
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    for part in build_context.CODE:
        source = build_context.ROOT / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (root / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / part)
    with (root / "runtime" / "added_by_a_test.py").open("w") as file:
        file.write(text)
    return image.Recipe(image.User.of_host(), repository=TRIAL, root=root)


class TestBuilding:
    async def test_existing_image_is_not_rebuilt(self, client: docker.DockerClient) -> None:
        tag = await asyncio.to_thread(sandbox_image)
        said: list[str] = []
        assert await image.build(client, base_image(), said.append) == tag
        assert said == []
        assert await image.find(client, base_image()) == tag

    async def test_changed_code_has_another_tag_and_rebuilds_only_the_last_steps(
        self, client: docker.DockerClient, tmp_path: Path
    ) -> None:
        await image.build(client, base_image(), lambda step: None, recipe=changed(tmp_path, "ONE = 0\n"))
        recipe = changed(tmp_path, "ONE = 1\n")
        assert await image.find(client, base_image(), recipe) is None
        said: list[str] = []
        tag = await image.build(client, base_image(), said.append, recipe=recipe)
        assert [step.partition(": ")[2] for step in said] == [CODE_STEP]
        assert await image.find(client, base_image(), recipe) == tag
        assert await image.find(client, "", recipe) == tag, "who built it with --base need not name the base again"
        other = changed(tmp_path, "ONE = 2\n")
        assert [await image.find(client, base, other) for base in (base_image(), "")] == [None, None]
        assert await image.usual_base(client, other) == base_image(), "nor after an update, to build it again"
        unused = image.Recipe(image.User.of_host(), repository="handloom-unused")
        assert await image.usual_base(client, unused) == image.DEFAULT_BASE

    async def test_image_with_extras_serves_who_wants_fewer(self, client: docker.DockerClient, tmp_path: Path) -> None:
        plain = changed(tmp_path, "ONE = 1\n")
        extended = replace(plain, extras=build_context.EXTRAS)
        tag = await image.build(client, base_image(), lambda step: None, recipe=plain)
        assert [await image.find(client, base_image(), recipe) for recipe in (plain, extended)] == [tag, None]
        name = extended.tag(client.images.get(base_image()).id)
        labels = {builder.EXTRAS_LABEL: "vscode", builder.CONTENT_LABEL: plain.content()}
        text = f"FROM {tag}\nLABEL {' '.join(f'{key}={value}' for key, value in labels.items())}\n"
        client.images.build(fileobj=io.BytesIO(text.encode()), tag=name, rm=True)
        for base in (base_image(), ""):
            assert [await image.find(client, base, recipe) for recipe in (plain, extended)] == [name, name]

    async def test_image_is_found_without_its_base(self, client: docker.DockerClient, tmp_path: Path) -> None:
        base = f"{TRIAL}:base"
        client.images.get(base_image()).tag(TRIAL, "base")
        recipe = changed(tmp_path, "ONE = 1\n")
        tag = await image.build(client, base, lambda step: None, recipe=recipe)
        client.images.remove(base)
        assert await image.find(client, base, recipe) == tag

    async def test_replaced_image_is_removed_unless_a_container_uses_it(
        self, client: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = [
            await image.build(client, base_image(), lambda step: None, recipe=changed(tmp_path, f"N = {n}\n"))
            for n in range(2)
        ]
        monkeypatch.setattr(builder, "KEEP_REPLACED_S", 0.0)
        container = client.containers.create(second)
        try:
            await image.build(client, base_image(), lambda step: None, recipe=changed(tmp_path, "N = 2\n"))
            left = {tag for found in client.api.images(TRIAL) for tag in found["RepoTags"]}
            assert left & {first, second} == {second}
        finally:
            container.remove()

    async def test_cancelling_ends_the_build_and_leaves_no_image_or_container(
        self, client: docker.DockerClient, tmp_path: Path
    ) -> None:
        base, recipe = derived_base(client, "cancelled"), changed(tmp_path, "CANCELLED = True\n")
        is_long = asyncio.Event()

        def watch(step: str) -> None:
            if "Python packages" in step:
                is_long.set()

        builder = asyncio.create_task(image.build(client, base, watch, recipe=recipe))
        await is_long.wait()
        steps = containers(client)
        assert steps
        builder.cancel()
        async with asyncio.timeout(60):  # less than the step takes
            with pytest.raises(asyncio.CancelledError):
                await builder
        await asyncio.to_thread(await_gone, steps)
        assert await image.find(client, base, recipe) is None


class TestFailures:
    async def test_failed_build_step_is_reported_with_its_last_lines(
        self, client: docker.DockerClient, tmp_path: Path
    ) -> None:
        poor = "RUN dpkg --purge --force-depends ripgrep && rm /usr/bin/apt-get"
        base, recipe = derived_base(client, "poor", poor), changed(tmp_path, "")
        with pytest.raises(RuntimeUnavailableError) as failed:
            await image.build(client, base, lambda step: None, recipe=recipe)
        assert str(failed.value) == (
            "The image was not built: the step “Debian packages” ended with status 1.\n"
            "    Missing: ripgrep\n"
            "    The base has no apt-get to install them.\n"
            "Try again, or take another base. Name another with --base, or as `base` under [docker] in config.toml."
        )
        assert await image.find(client, base, recipe) is None

    async def test_missing_base_is_named(self, client: docker.DockerClient) -> None:
        with pytest.raises(RuntimeUnavailableError, match=r"The image nowhere\.invalid/x:1 is not on this machine"):
            await image.build(client, "nowhere.invalid/x:1", lambda step: None)


class TestCommand:
    def test_image_build_prints_only_the_name(self, tmp_path: Path) -> None:
        tag = sandbox_image()
        done = Handloom(tmp_path, **engine_environ())("image", "build", "--base", base_image())
        assert (done.status, done.out, done.err) == (0, f"{tag}\n", "")

    def test_missing_base_exits_with_1_and_a_reason(self, tmp_path: Path) -> None:
        done = Handloom(tmp_path, **engine_environ())("image", "build", "--base", "nowhere.invalid/x:1")
        assert (done.status, done.out) == (1, "")
        assert "Fetching nowhere.invalid/x:1" in done.err
        assert "or name an image that is here with --base" in done.err

    def test_interrupt_ends_the_command_and_the_build(self, client: docker.DockerClient, tmp_path: Path) -> None:
        base = derived_base(client, "interrupted")
        child = Handloom(tmp_path, **engine_environ()).start("image", "build", "--base", base)
        assert child.stderr is not None
        for line in child.stderr:
            if b"Python packages" in line:
                break
        steps = containers(client)
        assert steps
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=10)
        assert (child.returncode, out) == (130, b"")
        await_gone(steps)
        assert client.api.images(build_context.REPOSITORY, filters={"label": MARK}) == []
