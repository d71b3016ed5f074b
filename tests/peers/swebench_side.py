"""SWE-bench's own loader reads the predictions of a batch, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.batch.test_batch import Batch, bash_turn, git
from tests.doubles import FINISH
from tests.peers.installing import SWEBENCH, install

LOADING = """
import json, sys
from swebench.harness.utils import get_predictions_from_file
print(json.dumps(get_predictions_from_file(sys.argv[1], "", "test")))
"""


def repositories(folder: Path) -> list[dict[str, str]]:
    """Three repositories, and for each a record in the form of SWE-bench's."""
    records = []
    for name in ("one", "two", "three"):
        repository = folder / name
        repository.mkdir()
        git(repository, "init", "-q")
        (repository / "a.py").write_text(f"name = '{name}'\n")
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", "first")
        commit = git(repository, "rev-parse", "HEAD").strip()
        git(repository, "commit", "-q", "--allow-empty", "-m", "later")
        record = {"instance_id": f"o__{name}-1", "problem_statement": "Rename it.", "base_commit": commit}
        records.append({**record, "repo": str(repository), "patch": "the answer", "FAIL_TO_PASS": "[]"})
    return records


def predictions(folder: Path) -> Path:
    """Run a batch over three repositories, and return the file of its predictions."""
    batch = Batch(folder, [bash_turn("sed -i 's/name/title/' a.py; echo x > new.txt"), FINISH])
    batch.write(*repositories(folder))
    done = batch.run("--workers", "3")
    assert done.status == 0, done.err
    return batch.out / "predictions.jsonl"


def loaded(python: Path, file: Path) -> list[dict[str, Any]]:
    """What SWE-bench reads."""
    done = subprocess.run([str(python), "-c", LOADING, str(file)], capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Exit status: 0 if it reads what was written, 1 if not, 2 without SWE-bench."""
    python = install(SWEBENCH)
    if python is None:
        return 2
    with tempfile.TemporaryDirectory(prefix="handloom-swebench-") as folder:
        file = predictions(Path(folder))
        written = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        read = loaded(python, file)
    print(f"{SWEBENCH.title} reads {len(read)} predictions" if read == written else f"it reads {read}", file=sys.stderr)
    return 0 if read == written else 1
