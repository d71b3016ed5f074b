"""Batches on a cluster of Ray: three nodes on this machine, each with a home of its own."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.batch.ledger import Ledger, TaskState
from tests.batch.cluster import Cluster, cluster
from tests.batch.test_batch import Batch, bash_turn, repository
from tests.doubles import FINISH
from tests.program import NO_ISOLATION, Handloom

pytestmark = [pytest.mark.ray]
__all__ = ["repository"]


CANARY = "sk-proj-" + "2b7e151628aed2a6" + "abf7158809cf4f3c"
"""No key of anybody, and in pieces, so that it is none of this file."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), OPENAI_API_KEY=CANARY) as made:
        yield made


def on(cluster: Cluster, batch: Batch) -> Batch:
    """A batch whose program finds the cluster."""
    batch.handloom = Handloom(batch.out.parent, OPENAI_API_KEY=CANARY, **cluster.environ, **NO_ISOLATION)
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


def test_lost_node_costs_an_attempt_and_no_task(tmp_path: Path, three: Cluster) -> None:
    batch = on(three, Batch(tmp_path, [bash_turn("echo before; sleep 6"), FINISH]))
    batch.write(*({"id": f"t{n:02}", "task": "x"} for n in range(24)))
    node = three.add("doomed", cpus=8)
    running: set[str] = set()
    with batch.handloom.start(*batch.arguments, "--engine", "ray", "--workers", "20", "--json", "--yes") as process:
        assert process.stdout is not None
        for line in process.stdout:
            running.add(json.loads(line)["id"])
            if len(running) == 20:
                break
        wait_for_conversations(batch, 20)
        three.remove(node)
        process.communicate(timeout=100)
    assert process.returncode == 0
    with Ledger(batch.out) as ledger:
        rows = ledger.rows()
        assert ledger.counts() == {TaskState.DONE: 24}
    again = [row for row in rows if row.attempt == 2]
    assert 1 <= len(again) <= 8, "those of the node"
    (lost, *_) = conversations(batch, "state = 'lost'")
    exported = batch.handloom("export", lost, "--format", "markdown")
    assert "echo before" in exported.out, "what was lost can be read"


def conversations(batch: Batch, which: str) -> list[str]:
    from core.store.database import sqlite3

    database = sqlite3.connect(f"file:{batch.out / 'batch.db'}?mode=ro", uri=True)
    try:
        found = database.execute(f"SELECT conversation FROM attempts WHERE conversation <> '' AND {which}")
        return [conversation for (conversation,) in found]
    finally:
        database.close()


def wait_for_conversations(batch: Batch, count: int) -> None:
    while len(conversations(batch, "true")) < count:
        threading.Event().wait(0.2)


def test_budget_of_the_cluster_is_never_exceeded(tmp_path: Path, three: Cluster) -> None:
    batch = on(three, Batch(tmp_path, [bash_turn("true"), FINISH]))
    batch.write(*({"id": f"t{n}", "task": "x"} for n in range(6)))
    done = batch.run("--engine", "ray", "--workers", "6", "--budget", "0.075")
    assert done.status == 4, done.err
    with Ledger(batch.out) as ledger:
        assert 0 < ledger.spent() <= 0.075
        assert ledger.counts()[TaskState.FAILED] == 0
    done = batch.run("--engine", "ray", "--workers", "6", "--budget", "1")
    assert done.status == 0, done.err


def test_engine_that_cannot_work_is_refused(tmp_path: Path, three: Cluster) -> None:
    batch = on(three, Batch(tmp_path, [FINISH]))
    batch.write({"id": "t", "task": "x", "workspace": str(tmp_path)})
    done = batch.run("--engine", "ray")
    assert (done.status, "Use a repository instead" in done.err) == (2, True)
    batch.write({"id": "t", "task": "x"})
    done = batch.run("--engine", "ray://127.0.0.1:1")
    assert done.status == 2
    assert "The cluster ray://127.0.0.1:1 cannot be reached" in done.err
    done = batch.run("--engine", "dask")
    assert (done.status, "dask is no engine" in done.err) == (2, True)


def test_keys_of_the_machines_leave_them_nowhere(tmp_path: Path, three: Cluster) -> None:
    batch = on(three, Batch(tmp_path, [bash_turn(f"echo {CANARY}; env"), FINISH]))
    batch.write(*({"id": f"t{n}", "task": "x", "check": "env"} for n in range(3)))
    done = batch.run("--engine", "ray", "--yes")
    assert done.status == 0, done.err
    places = [three.logs, batch.out, batch.handloom.home, *(three.home(number) for number in range(3))]
    files = [file for place in places for file in place.rglob("*") if file.is_file() and not file.is_socket()]
    assert any("worker" in file.name for file in files), "the logs of the workers are among them"
    secret = CANARY.encode()
    assert not [file for file in files if secret in file.read_bytes()]
    for file in Path("/dev/shm").iterdir():
        if file.is_file() and file.stat().st_uid == os.getuid():
            assert secret not in file.read_bytes(), file


def test_doctor_says_what_each_node_is(three: Cluster, tmp_path: Path) -> None:
    handloom = Handloom(tmp_path, **three.environ, **NO_ISOLATION)
    done = handloom("doctor", "--cluster", "ray")
    assert done.status == 0, done.err
    assert done.out.count(", isolation: none") == 4, "the head, too"
    assert "Neither TLS nor a token is set" in done.out
    told = json.loads(handloom("doctor", "--cluster", "ray", "--json").out)
    assert {node["isolation"] for node in told["nodes"]} == {"none"}
    assert told["guard"] == ""
