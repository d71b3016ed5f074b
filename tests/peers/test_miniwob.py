"""MiniWoB as a batch: the goal of each environment is the task, and its rewards decide."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.batch.test_batch import Batch
from tests.doubles import FINISH, call
from tests.peers.installing import BROWSERGYM, installed
from tests.program import Handloom

pytestmark = [pytest.mark.peers, pytest.mark.browser]


def batch_in(folder: Path, code: str) -> Batch:
    folder.mkdir()
    batch = Batch(folder, [{"tool_calls": [call("browser", code=code, security_risk="LOW")]}, FINISH])
    variables = {"HANDLOOM_BROWSERGYM_PYTHON": str(installed(BROWSERGYM)), "HANDLOOM__SANDBOX__ISOLATION": "none"}
    batch.handloom = Handloom(folder, **variables)
    return batch


def events(batch: Batch, id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((batch.out / id / "trajectory.json").read_text("utf-8"))
    return found


@pytest.mark.timeout(300)
def test_environment_gives_the_task_and_its_rewards_decide(tmp_path: Path) -> None:
    looks = batch_in(tmp_path / "looks", "noop(1)")
    looks.write({"id": "click", "environment": "browsergym/miniwob.click-test", "seed": "1"})
    done = looks.run("--yes")
    assert done.status == 1, done.err
    row = looks.results()["click"]
    assert (row["outcome"], row["reason"]) == ("failed", "The environment gave no reward.")
    assert row["rewards"] == [0.0]
    told = [event for event in events(looks, "click") if event.get("action") == "message"]
    assert told[0]["args"]["content"].startswith("Click the button.")
    (page,) = [event["content"] for event in events(looks, "click") if event.get("observation", "") == "browse"]
    button = re.search(r"\[(\w+)\] button 'Click Me!'", page)
    assert button, page
    clicks = batch_in(tmp_path / "clicks", f"click('{button[1]}')")
    clicks.tasks.write_text(looks.tasks.read_text())
    done = clicks.run("--yes")
    assert done.status == 0, done.err
    assert clicks.results()["click"]["rewards"][-1] > 0


@pytest.mark.timeout(300)
def test_environments_are_named_by_a_pattern(tmp_path: Path) -> None:
    batch = batch_in(tmp_path / "some", "noop(1)")
    command = ("batch", "browsergym/miniwob.click-tes*", "--out", str(batch.out), "--model", batch.model, "--yes")
    done = batch.handloom(*command)
    assert done.status == 1, done.err
    assert set(batch.results()) == {"miniwob.click-test", "miniwob.click-test-2", "miniwob.click-test-transfer"}
    done = batch.handloom("batch", "browsergym/miniwob.no-such*", "--out", str(batch.out), "--model", batch.model)
    assert (done.status, "No environment is named browsergym/miniwob.no-such*" in done.err) == (2, True)
