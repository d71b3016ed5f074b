"""A batch in the background: `--detach`, as at a terminal, where the screen is shown as well."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core.batch.progress import ProgressReader, ask
from core.batch.requests import RequestKind
from tests.batch.test_batch import Batch, bash_turn
from tests.doubles import FINISH
from tui.batch.start import _with_options


def test_batch_in_the_background_is_attached_to(tmp_path: Path) -> None:
    go = tmp_path / "go"
    batch = Batch(tmp_path, [bash_turn(f"until [ -e {go} ]; do sleep 0.1; done"), FINISH])
    batch.write({"id": "t", "task": "x"})
    began = batch.run("--detach")
    go.touch()
    assert (began.status, began.out) == (0, ""), began.err
    assert began.err == f"The batch goes on. To see it: handloom batch attach {batch.out}\n"
    watched = batch.handloom("batch", "attach", str(batch.out))
    assert (watched.status, watched.err.splitlines()[-1]) == (0, "1 tasks, 1 done, $0.02"), watched.err
    log = batch.out / "batch.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "[1/1, $0.02 spent] t: finished" in log.read_text()
    with ProgressReader(batch.out) as reader:
        assert reader.read().driver.status == 0


def test_error_before_the_batch_begins_is_the_only_message(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [FINISH])
    batch.write({"id": "t", "tasks": "x"})
    wrong = batch.run("--detach")
    assert (wrong.status, wrong.out, batch.out.exists()) == (2, "", False)
    assert len(wrong.err.splitlines()) == 1
    assert "there is no field 'tasks'" in wrong.err
    batch.write({"id": "t", "task": "x"})
    lacking = batch.handloom("batch", str(batch.tasks), "--out", str(batch.out), "--detach")
    assert (lacking.status, batch.out.exists()) == (2, False)
    assert lacking.err == "handloom: Task t has no model, and none is configured. Pass --model.\n"


def test_second_driver_is_refused_as_in_the_foreground(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [bash_turn("sleep 60"), FINISH])
    batch.write({"id": "t", "task": "x"})
    assert batch.run("--detach").status == 0
    again = batch.run("--detach")
    assert (again.status, "Another process works on the batch" in again.err) == (2, True)
    ask(batch.out, RequestKind.INTERRUPT)
    watched = batch.handloom("batch", "attach", str(batch.out), "--plain")
    assert watched.status == 130, "it was interrupted, and one task still waits"
    with ProgressReader(batch.out) as reader:
        driver = reader.read().driver
    assert driver.tasks == str(batch.tasks)
    assert driver.options == f"--model {batch.model}", "without what the command did not say"
    with ProgressReader(batch.out) as reader:
        progress = reader.read()
    assert (progress.driver.status, progress.tasks[0].outcome, progress.tasks[0].state) == (
        130,
        "interrupted",
        "waiting",
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["batch", "t", "--out", "o", "--detach"], ["batch", "t", "--out", "o", "--plain"]),
        (["batch", "--out", "o", "--", "t"], ["batch", "--out", "o", "--plain", "--", "t"]),
    ],
)
def test_options_are_added_to_a_command_line(words: list[str], expected: list[str]) -> None:
    assert _with_options(words, "--plain") == expected


def test_folder_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [FINISH])
    batch.out.write_text("")
    batch.write({"id": "t", "task": "x"})
    done = batch.run("--detach")
    assert (done.status, done.err) == (2, f"handloom: The folder {batch.out} cannot be used: File exists.\n")
    assert os.path.isfile(batch.out)
