"""SWE-bench's own loader reads what a batch writes, and its patches apply to the commits that the records name."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.batch.test_batch import git
from tests.peers.installing import SWEBENCH, install
from tests.peers.swebench_side import loaded, predictions

pytestmark = pytest.mark.peers


@pytest.mark.timeout(300)
def test_predictions_are_read_by_swebench_and_apply(tmp_path: Path) -> None:
    python = install(SWEBENCH)
    assert python is not None
    read = loaded(python, predictions(tmp_path))
    assert [one["instance_id"] for one in read] == ["o__one-1", "o__two-1", "o__three-1"]
    records = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    for one, record in zip(read, records, strict=True):
        clean = tmp_path / f"clean-{one['instance_id']}"
        git(tmp_path, "clone", "-q", record["repo"], str(clean))
        git(clean, "checkout", "-q", record["base_commit"])
        subprocess.run(["git", "apply"], cwd=clean, input=one["model_patch"], text=True, check=True)
        assert (clean / "a.py").read_text().startswith("title = ")
        assert (clean / "new.txt").read_text() == "x\n"
