"""Batches on a cluster of Ray: three nodes on this machine, each with a home of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.cluster import Cluster, cluster
from tests.batch.test_batch import Batch, bash_turn, repository
from tests.doubles import FINISH
from tests.program import NO_ISOLATION, Handloom

pytestmark = [pytest.mark.ray]
__all__ = ["repository"]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def on(cluster: Cluster, batch: Batch) -> Batch:
    """A batch whose program finds the cluster."""
    batch.handloom = Handloom(batch.out.parent, **cluster.environ, **NO_ISOLATION)
    return batch


def test_same_rows_as_on_one_machine(tmp_path: Path, repository: Path, three: Cluster) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    turns = [bash_turn("echo 'x = 2' > a.py"), FINISH]
    here, there = Batch(tmp_path / "a", turns), on(three, Batch(tmp_path / "b", turns))
    tasks = [{"id": f"t{n}", "task": "x", "repo": str(repository), "check": "grep 2 a.py"} for n in range(5)]
    tasks.append({"id": "bad", "task": "x", "check": "exit 3"})
    for batch in (here, there):
        batch.write(*tasks)
    local, remote = here.run(), there.run("--engine", "ray", "--workers", "6")
    assert (local.status, remote.status) == (1, 1), remote.err
    rows = [
        [
            {name: value for name, value in row.items() if name not in ("seconds", "worker", "conversation_id")}
            for row in batch.results().values()
        ]
        for batch in (here, there)
    ]
    assert rows[0] == rows[1]
    assert (here.out / "predictions.jsonl").read_text() == (there.out / "predictions.jsonl").read_text().replace(
        str(tmp_path / "b"), str(tmp_path / "a")
    )
    for row in there.results().values():
        shown = there.handloom("show", row["conversation_id"])
        assert shown.status == 0, shown.err
    (event, *_) = json.loads((there.out / "t0" / "trajectory.json").read_text())
    assert event
    assert not [*three.home(0).rglob("work")], "nothing of an attempt stays on its node"
