"""The ledger of a batch: every task is accepted once, whoever dies when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.batch.ledger import DATABASE, AttemptState, Ended, Ledger, TaskState
from core.batch.tasks import BatchTask
from core.errors import StoreBusyError, StoreError, UsageError
from core.store.database import sqlite3

TASKS = [BatchTask("b", "x"), BatchTask("a", "y")]
DONE = Ended(AttemptState.FINISHED, "c1", 0.5, 10, 2)
FAILED = Ended(AttemptState.FAILED, "c2", None, reason="No.")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "out", clock=lambda: 100.0) as ledger:
        ledger.begin(TASKS)
        yield ledger


def states(ledger: Ledger) -> dict[str, TaskState]:
    return {row.task.id: row.state for row in ledger.rows()}


def test_tasks_are_taken_in_their_order(ledger: Ledger) -> None:
    assert [ledger.start("w"), ledger.start("w"), ledger.start("w")] == [(TASKS[0], 1), (TASKS[1], 1), None]
    assert states(ledger) == {"b": TaskState.RUNNING, "a": TaskState.RUNNING}


def test_result_is_kept_with_its_attempt(ledger: Ledger) -> None:
    ledger.start("w")
    ledger.note_began("b", 1, "c1", "n1")
    assert ledger.end("b", 1, DONE, TaskState.DONE)
    (first, second) = ledger.rows()
    assert (first.state, first.ended, first.attempt, first.worker) == (TaskState.DONE, DONE, 1, "n1")
    assert (second.state, second.ended) == (TaskState.WAITING, None)
    assert ledger.spent() == 0.5


def test_late_result_of_an_older_attempt_is_refused(ledger: Ledger) -> None:
    ledger.start("one")
    ledger.begin(TASKS)  # the first driver died
    assert ledger.start("two") == (TASKS[0], 2)
    assert not ledger.end("b", 1, DONE, TaskState.DONE)
    assert states(ledger)["b"] is TaskState.RUNNING
    assert ledger.end("b", 2, FAILED, TaskState.FAILED)
    assert not ledger.end("b", 2, DONE, TaskState.DONE), "a second result of the same attempt changes nothing"
    assert states(ledger)["b"] is TaskState.FAILED


def test_attempts_of_a_dead_driver_are_lost_and_do_not_count(ledger: Ledger) -> None:
    ledger.start("w")
    ledger.begin(TASKS)
    (row, _) = ledger.rows()
    assert row.ended is not None
    assert (row.state, row.ended.state) == (TaskState.WAITING, AttemptState.LOST)
    assert ledger.attempts_of("b") == 0


def test_cost_of_a_lost_attempt_counts_for_the_budget(ledger: Ledger) -> None:
    ledger.start("w")
    ledger.note_began("b", 1, "c1", "n1")
    ledger.begin(TASKS)
    assert ledger.spent() == 0
    ledger.lost_costs({"c1": 0.25, "other": 7.0})
    assert ledger.spent() == 0.25


def test_done_tasks_are_not_taken_again(ledger: Ledger) -> None:
    ledger.start("w")
    ledger.end("b", 1, DONE, TaskState.DONE)
    ledger.begin(TASKS)
    assert ledger.start("w") == (TASKS[1], 1)


def test_another_list_needs_amend(ledger: Ledger) -> None:
    ledger.start("w")
    ledger.end("b", 1, DONE, TaskState.DONE)
    changed = [BatchTask("b", "x"), BatchTask("a", "other"), BatchTask("c", "new")]
    with pytest.raises(UsageError, match="--amend"):
        ledger.begin(changed)
    ledger.begin(changed, amend=True)
    assert states(ledger) == {"b": TaskState.DONE, "a": TaskState.WAITING, "c": TaskState.WAITING}
    ledger.begin([BatchTask("b", "other")], amend=True)
    assert states(ledger) == {"b": TaskState.WAITING}, "a changed task runs again, and missing ones do not"


def test_failed_tasks_are_retried_by_how_they_ended(ledger: Ledger) -> None:
    for task, state in (("b", AttemptState.FAILED), ("a", AttemptState.LIMIT)):
        ledger.start("w")
        ledger.end(task, 1, Ended(state), TaskState.FAILED)
    assert ledger.retry([AttemptState.LIMIT]) == 1
    assert states(ledger) == {"b": TaskState.FAILED, "a": TaskState.WAITING}
    assert ledger.retry() == 1


def test_one_process_at_a_time(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(StoreBusyError, match="handloom batch attach"):
        Ledger(tmp_path / "out")
    ledger.close()
    Ledger(tmp_path / "out").close()


def test_ledger_of_a_newer_version_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    ledger.close()
    with sqlite3.connect(tmp_path / "out" / DATABASE) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="newer Handloom"):
        Ledger(tmp_path / "out")
