"""Plugins start in order, concurrently with the server; their actions wait for them and report failures."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from core.events import BrowseURLAction, ErrorObservation, IPythonRunCellAction, NullObservation, Observation, Status
from core.plugin_requirements import PluginError, PluginRequirement, in_order, required
from runtime.plugins.base import STARTING, PluginContext, PluginStartup
from runtime.server.action_executor import ActionExecutor, Emit, Table
from tests.runtime.conftest import Watcher, place


class Recorded:
    """A plugin that records its events and starts on request."""

    log: list[str]
    fails = False

    def __init__(self, context: PluginContext) -> None:
        self.may_start = asyncio.Event()

    routes: Sequence[web.RouteDef] = ()

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def table(self) -> Table:
        return {IPythonRunCellAction: self.answer} if self.name == "Kernel" else {BrowseURLAction: self.answer}

    async def answer(self, action: object, action_id: int, emit: Emit) -> Observation:
        self.log.append(f"{self.name} answers")
        return NullObservation()

    async def start(self) -> None:
        self.log.append(f"{self.name} starts")
        if self.fails:
            raise OSError("there is no such program")
        await self.may_start.wait()
        self.log.append(f"{self.name} is ready")

    async def aclose(self) -> None:
        self.log.append(f"{self.name} ends")


class Kernel(Recorded):
    pass


class Skills(Recorded):
    pass


def requirement(cls: type[Recorded], *needs: str) -> PluginRequirement:
    return PluginRequirement(cls.__name__.lower(), f"{__name__}:{cls.__name__}", needs)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(Recorded, "log", said, raising=False)
    return said


def startup(folder: Path) -> PluginStartup:
    return PluginStartup([requirement(Kernel), requirement(Skills, "kernel")], place(folder))


async def test_plugin_starts_after_its_dependencies_and_ends_before_them(
    tmp_path: Path, log: list[str], watcher: Watcher
) -> None:
    plugins = startup(tmp_path)
    plugins.start_all()
    for plugin in plugins.plugins.values():
        plugin.may_start.set()  # type: ignore[attr-defined]
    executor = ActionExecutor(plugins.tables)
    assert isinstance(await executor.execute(BrowseURLAction(url=""), 1, watcher.emit), NullObservation)
    await plugins.aclose()
    assert log == [
        *("Kernel starts", "Kernel is ready", "Skills starts", "Skills is ready"),
        *("Skills answers", "Skills ends", "Kernel ends"),
    ]


async def test_action_waits_for_its_plugin_and_reports_it(tmp_path: Path, log: list[str], watcher: Watcher) -> None:
    plugins = startup(tmp_path)
    executor = ActionExecutor(plugins.tables)
    waiting = asyncio.create_task(executor.execute(IPythonRunCellAction(code="1"), 1, watcher.emit))
    await watcher.sees_frame(Status("info", STARTING, "Starting kernel…"))
    plugins.plugins["kernel"].may_start.set()  # type: ignore[attr-defined]
    assert isinstance(await waiting, NullObservation)
    assert watcher.frames[-1] == Status("info", STARTING, "")
    assert log == ["Kernel starts", "Kernel is ready", "Kernel answers"]
    await plugins.aclose()


async def test_failed_start_is_reported_and_retried(
    tmp_path: Path, log: list[str], watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = startup(tmp_path)
    executor = ActionExecutor(plugins.tables)
    monkeypatch.setattr(Kernel, "fails", True)
    observation = await executor.execute(IPythonRunCellAction(code="1"), 1, watcher.emit)
    assert isinstance(observation, ErrorObservation)
    assert observation.content == (
        "The plugin kernel could not be started: there is no such program. Do it another way, or try again."
    )
    monkeypatch.setattr(Kernel, "fails", False)
    plugins.plugins["kernel"].may_start.set()  # type: ignore[attr-defined]
    assert isinstance(await executor.execute(IPythonRunCellAction(code="1"), 2, watcher.emit), NullObservation)
    await plugins.aclose()


async def test_cancelling_an_action_does_not_stop_the_start(tmp_path: Path, log: list[str], watcher: Watcher) -> None:
    plugins = startup(tmp_path)
    waiting = asyncio.create_task(
        ActionExecutor(plugins.tables).execute(IPythonRunCellAction(code="1"), 1, watcher.emit)
    )
    await watcher.sees_frame(Status("info", STARTING, "Starting kernel…"))
    waiting.cancel()
    await asyncio.wait([waiting])
    plugins.plugins["kernel"].may_start.set()  # type: ignore[attr-defined]
    executor = ActionExecutor(plugins.tables)
    assert isinstance(await executor.execute(IPythonRunCellAction(code="1"), 2, watcher.emit), NullObservation)
    assert log == ["Kernel starts", "Kernel is ready", "Kernel answers"]
    await plugins.aclose()


def test_plugins_are_sorted_after_their_dependencies() -> None:
    known = {
        plugin.name: plugin
        for plugin in (
            PluginRequirement("skills", "m:f", ("kernel",)),
            PluginRequirement("kernel", "m:f"),
            PluginRequirement("browser", "m:f"),
        )
    }
    assert [plugin.name for plugin in in_order(["skills", "browser"], known)] == ["browser", "kernel", "skills"]


def test_circular_dependencies_are_refused() -> None:
    known = {"a": PluginRequirement("a", "m:f", ("b",)), "b": PluginRequirement("b", "m:f", ("a",))}
    with pytest.raises(PluginError, match="plugins depend on each other: "):
        in_order(["a"], known)


def test_unknown_plugin_is_named() -> None:
    with pytest.raises(ValueError, match="no plugin is called 'nonsense'; known: "):
        required(["nonsense"])


def test_plugin_with_missing_code_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="the plugin 'x' cannot be loaded: ModuleNotFoundError"):
        PluginStartup([PluginRequirement("x", "no_such_module:f")], place(tmp_path))
    assert "no_such_module" not in sys.modules
