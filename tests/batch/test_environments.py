"""Environments of BrowserGym as tasks, as far as they need no BrowserGym; tests/peers has the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from core.batch import environments
from core.batch.tasks import BatchTask, read_tasks
from core.errors import UsageError
from runtime.plugins.browser import evaluation_driver, plugin


def test_names_are_those_of_the_browser_plugin() -> None:
    names = environments.ENVIRONMENT, environments.SEED, environments.PYTHON
    assert names == (plugin.ENVIRONMENT, plugin.SEED, plugin.PYTHON)
    assert (environments.GOAL, environments.REWARDS) == (evaluation_driver.GET_GOAL, evaluation_driver.GET_REWARDS)
    assert set(environments.BENCHMARKS) == set(evaluation_driver.BENCHMARKS)


@pytest.mark.parametrize(
    ("pattern", "python", "message"),
    [
        ("browsergym/nothing.*", sys.executable, "names no environments"),
        ("browsergym/miniwob.*", "", "Set HANDLOOM_BROWSERGYM_PYTHON"),
        ("browsergym/miniwob.*", "/bin/false", "cannot list the environments of miniwob"),
    ],
)
def test_pattern_that_cannot_be_used_is_explained(pattern: str, python: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        environments.tasks_of(pattern, {environments.PYTHON: python})


def test_folder_of_that_name_is_a_list_of_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert environments.is_pattern("browsergym/miniwob")
    (tmp_path / "browsergym" / "miniwob").mkdir(parents=True)
    assert not environments.is_pattern("browsergym/miniwob")


def test_task_may_be_an_environment(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"id": "a", "environment": "browsergym/miniwob.click-test", "seed": "3"}\n')
    assert read_tasks(tmp_path / "t.jsonl") == [BatchTask("a", environment="browsergym/miniwob.click-test", seed="3")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [('"environment": "../x"', "environment must be"), ('"task": "x", "seed": "3"', "seed needs an environment")],
)
def test_wrong_environment_is_refused(tmp_path: Path, fields: str, message: str) -> None:
    (tmp_path / "t.jsonl").write_text(f'{{"id": "a", {fields}}}\n')
    with pytest.raises(UsageError, match=message):
        read_tasks(tmp_path / "t.jsonl")
