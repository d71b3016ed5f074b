"""Lists of tasks: what is read, and what is refused with the line that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.batch.tasks import BatchTask, digest, read_tasks
from core.errors import UsageError


def written(folder: Path, name: str, *lines: object) -> Path:
    path = folder / name
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_json_lines_are_read_in_order(tmp_path: Path) -> None:
    path = written(tmp_path, "t.jsonl", {"id": "b", "task": " Mend it. "}, "", {"id": "a", "task": "x", "repo": "o/n"})
    assert read_tasks(path) == [BatchTask("b", "Mend it."), BatchTask("a", "x", repo="o/n")]


def test_csv_has_the_names_of_fields_in_its_first_line(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "id,task,check", '1,"two\nlines",make test', "2,x,")
    assert read_tasks(path) == [BatchTask("1", "two\nlines", check="make test"), BatchTask("2", "x")]


def test_each_markdown_file_of_a_folder_is_a_task(tmp_path: Path) -> None:
    written(tmp_path, "two.md", "# Two", "", "Do it.")
    written(tmp_path, "one.md", "First")
    written(tmp_path, "notes.txt", "no task")
    assert read_tasks(tmp_path) == [BatchTask("one", "First"), BatchTask("two", "# Two\n\nDo it.")]


def test_record_of_swe_bench_becomes_a_task(tmp_path: Path) -> None:
    record = {"instance_id": "a__b-1", "problem_statement": "It breaks.", "repo": "a/b", "base_commit": "abc123"}
    path = written(tmp_path, "t.jsonl", {**record, "patch": "x", "hints_text": None, "FAIL_TO_PASS": ["t"]})
    assert read_tasks(path) == [BatchTask("a__b-1", "It breaks.", repo="a/b", commit="abc123")]


def test_workspace_is_relative_to_the_list(tmp_path: Path) -> None:
    path = written(tmp_path, "t.jsonl", {"id": "a", "task": "x", "workspace": "code"})
    assert read_tasks(path)[0].workspace == str(tmp_path / "code")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is not JSON"),
        ("[]", "line 2 is not a JSON object"),
        ({"task": "x"}, "line 2: the id '' must be"),
        ({"id": "../up", "task": "x"}, "must be 1 to 128 letters"),
        ({"id": ".", "task": "x"}, "must be 1 to 128 letters"),
        ({"id": "b"}, "task must have 1 to"),
        ({"id": "b", "task": "  "}, "task must have 1 to"),
        ({"id": "b", "task": 3}, "task must be text"),
        ({"id": "b", "task": "x", "repos": "y"}, "there is no field 'repos'"),
        ({"id": "a", "task": "x"}, "the id a occurs twice"),
        ({"id": "b", "task": "x", "commit": "c"}, "commit needs a repo"),
        ({"id": "b", "task": "x", "repo": "o/n", "commit": "--upload-pack=x"}, "commit needs a repo"),
        ({"id": "b", "task": "x", "repo": "o/n", "workspace": "w"}, "cannot be combined"),
    ],
    ids=str,
)
def test_wrong_line_is_named(tmp_path: Path, line: object, said: str) -> None:
    path = written(tmp_path, "t.jsonl", {"id": "a", "task": "x"}, line)
    with pytest.raises(UsageError, match="line 2") as caught:
        read_tasks(path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("t.jsonl", b"", "has no tasks"),
        ("t.jsonl", b"\xff\xfe", "is not UTF-8"),
        ("t.txt", b"x", "no list of tasks"),
        ("t.csv", b"id,task\n1,x,more\n", "more values"),
        ("t.jsonl", b"[" * 100_000, "not JSON"),
    ],
    ids=["empty", "binary", "other file", "wide row", "deep"],
)
def test_wrong_file_is_refused(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=said):
        read_tasks(tmp_path / name)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_tasks(tmp_path / "none.jsonl")


@given(st.text(min_size=1), st.text(), st.text())
def test_task_survives_the_ledger(task: str, repo: str, check: str) -> None:
    one = BatchTask("a", task, repo=repo, check=check)
    assert BatchTask.from_json(one.to_json()) == one


def test_digest_depends_on_every_task_and_their_order() -> None:
    one, two = BatchTask("a", "x"), BatchTask("b", "x")
    assert len({digest(tasks) for tasks in ([one], [one, two], [two, one], [BatchTask("a", "y")])}) == 4
