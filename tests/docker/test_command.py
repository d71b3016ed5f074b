"""`handloom run --runtime docker`: the program itself, with a conversation in a container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers import base_image, engine, engine_environ, sandbox_image
from tests.doubles import FINISH, bash, write_script
from tests.runtime.isolation.confined import own

pytestmark = pytest.mark.docker


def test_task_runs_in_a_container_that_is_removed(tmp_path: Path) -> None:
    sandbox_image()
    (workspace := tmp_path / "workspace").mkdir()
    own(workspace)
    model = write_script(tmp_path, [{"text": "I look.", "tool_calls": [bash("id -un; hostname; touch made")]}, FINISH])
    arguments = ["--json", "--runtime", "docker", "--model", model, "--workspace", str(workspace)]
    home = {"HANDLOOM_HOME": str(tmp_path / "home"), "HANDLOOM__DOCKER__BASE": base_image()}
    done = subprocess.run(
        [sys.executable, "-m", "tui", "run", "go", *arguments],
        env={**os.environ, **engine_environ(), **home},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (ran,) = [event for event in events if event.get("observation") == "run"]
    assert ran["content"].split()[:2] == ["agent", "sandbox"]
    assert (workspace / "made").exists()
    assert "Starting the container" in done.stderr
    with engine() as client:
        assert client.api.containers(all=True, filters={"name": events[0]["conversation_id"]}) == []
